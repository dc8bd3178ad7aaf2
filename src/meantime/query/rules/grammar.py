"""Rules about a trace, as sentences: what they are about, and what has to hold.

```text
no Loops/* in "blocked" for over 50 ms
p99 of "checkout" below 120 ms
share of Threads/db-* in "lock wait" below 5 %
at most 8 of Workers/* in "running" at once
never "write" after "close" on Files/*
within 200 ms of "request" "response"
p99 of "checkout" no more than 10 % up
```

The last one is about two traces. Lanes are patterns of paths, as `meantime query` takes them, and
names may have a `*` in them. What is in quotes is the name of a state, of spans or of events.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from meantime.errors import InputError, UsageError
from meantime.model.durations import FIGURES
from meantime.model.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Kind", "Rule", "parse_rule", "parse_rules", "read_rules"]

Kind: TypeAlias = Literal["no", "figure", "share", "at once", "after", "within"]

_LANES = r'(?P<lanes>"[^"]+"|[^\s"]+)'
_NAME = r'"(?P<name>[^"]+)"'
_TIME = r"(?P<time>[^\s\"]+(?: [a-zµμ]+)?)"
_PERCENT = r"(?P<percent>[0-9]+(?:\.[0-9]+)?) ?%"
_SIGN = r"(?P<sign>below|above)"
_CHANGE = rf"no more than {_PERCENT} (?P<way>up|down)"
_TITLES = {
    each.title: key for key, each in FIGURES.items() if each.form != "share" and not each.if_any
}
_TITLES["rate"] = "rate"
_FIGURE = rf"(?P<figure>{'|'.join(_TITLES)}) of {_NAME}(?: on {_LANES})?"
_SHARE = rf"share of {_LANES} in {_NAME}"
_FORMS: tuple[tuple[Kind, str], ...] = (
    ("no", rf"no {_LANES} in {_NAME}(?: for over {_TIME}(?P<wall> of wall time)?)?"),
    ("figure", rf"{_FIGURE} {_SIGN} {_TIME}"),
    ("figure", rf"{_FIGURE} {_CHANGE}"),
    ("share", rf"{_SHARE} {_SIGN} {_PERCENT}"),
    ("share", rf"{_SHARE} {_CHANGE}"),
    ("at once", rf"at most (?P<most>[0-9]+) of {_LANES} in {_NAME} at once"),
    ("after", rf'never {_NAME} after "(?P<first>[^"]+)" on {_LANES}'),
    ("within", rf'within {_TIME} of "(?P<first>[^"]+)" {_NAME}(?: on {_LANES})?'),
)
_EXAMPLES = (
    'no Loops/* in "blocked" for over 50 ms; p99 of "checkout" below 120 ms; share of Threads/* in'
    ' "lock wait" below 5 %; at most 8 of Workers/* in "running" at once; never "write" after'
    ' "close" on Files/*; within 200 ms of "request" "response"'
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        text: The sentence.
        kind: Its form.
        name: The state, span or event that it is about.
        lanes: The pattern of the lanes that it is about; None for all.
        first: What comes before `name`, of rules about an order.
        figure: Which figure of durations has a limit, by its name in JSON.
        is_below: Whether the figure has to be below the limit; otherwise above.
        limit: The limit: a time in ns, a number, or a share; None if there is none.
        change: The largest change from one trace to another, as a share; up if positive.
        title: What it is called in reports.
        is_wall: Whether time in which a loop's thread waited for a processor counts, too.
    """

    text: str
    kind: Kind
    name: str
    lanes: str | None = None
    first: str = ""
    figure: str = ""
    is_below: bool = True
    limit: float | None = None
    change: float | None = None
    title: str = ""
    is_wall: bool = False


def parse_rule(text: str, title: str = "") -> Rule:
    """Return the rule that a sentence is.

    >>> rule = parse_rule('no Loops/* in "blocked" for over 50 ms')
    >>> rule.kind, rule.lanes, rule.name, rule.limit
    ('no', 'Loops/*', 'blocked', 50000000)

    Raises:
        UsageError: If it is none.
    """
    plain = " ".join(text.split())
    for kind, form in _FORMS:
        if (found := re.fullmatch(form, plain)) is not None:
            return _rule(plain, kind, found.groupdict(), title)
    raise UsageError(f"{text!r} is not a rule; write one like these: {_EXAMPLES}")


def _rule(text: str, kind: Kind, given: Mapping[str, Any], title: str) -> Rule:
    figure = _TITLES.get(given.get("figure") or "", "")
    limit: float | None = None
    change: float | None = None
    if given.get("way"):
        change = float(given["percent"]) / 100 * (1 if given["way"] == "up" else -1)
    elif given.get("percent"):
        limit = float(given["percent"]) / 100
    elif given.get("most"):
        limit = int(given["most"])
    elif given.get("time"):
        is_time = kind != "figure" or (figure in FIGURES and FIGURES[figure].form == "time")
        limit = _time(given["time"], text) if is_time else _number(given["time"], text)
    lanes = given.get("lanes")
    return Rule(
        text,
        kind,
        given["name"],
        lanes.strip('"') if lanes else None,
        given.get("first") or "",
        figure,
        given.get("sign") != "above",
        limit,
        change,
        title or text,
        bool(given.get("wall")),
    )


def _time(text: str, rule: str) -> int:
    if re.fullmatch(r"[0-9.]+", text):
        raise UsageError(f"{rule!r}: {text} has no unit; write a time such as {text} ms")
    try:
        return parse_duration(text.replace(" ", ""))
    except UsageError as error:
        raise UsageError(f"{rule!r}: {error}") from None


def _number(text: str, rule: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{rule!r}: {text!r} is not a number") from None


def parse_rules(rules: Mapping[str, str] | list[str]) -> list[Rule]:
    """Return the rules of sentences, or of sentences by their titles.

    Raises:
        UsageError: If there is none, or one is not a rule.
    """
    titled = rules.items() if not isinstance(rules, list) else [("", text) for text in rules]
    found = [parse_rule(text, title) for title, text in titled]
    if not found:
        raise UsageError("there are no rules")
    return found


def read_rules(path: Path) -> list[Rule]:
    """Return the rules of a TOML file: a table `rules` with a sentence for each title.

    Raises:
        InputError: If it cannot be read, or has something else.
    """
    import tomllib  # noqa: PLC0415 - rules may be given without a file

    try:
        document = tomllib.loads(path.read_text())
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), f"is not TOML: {error}") from None
    others = sorted(document.keys() - {"rules"})
    if others:
        raise InputError(str(path), f"has {others[0]!r}; all rules are in the table [rules]")
    rules = document.get("rules", {})
    if not isinstance(rules, dict) or not all(isinstance(each, str) for each in rules.values()):
        raise InputError(str(path), "each rule in [rules] is a title and a sentence in quotes")
    try:
        return parse_rules(rules)
    except UsageError as error:
        raise InputError(str(path), str(error)) from None
