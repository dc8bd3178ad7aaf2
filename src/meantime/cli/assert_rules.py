"""`meantime assert`: whether rules hold for a trace."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.answers import print_answer
from meantime.cli.inputs import import_numpy, load_joined
from meantime.cli.options import (
    file_argument,
    input_options,
    json_option,
    limit_option,
    once,
    reading_options,
    reject,
    session_option,
)
from meantime.cli.tables import sentence_lines
from meantime.cli.terminal import width_of
from meantime.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.history.history import History
    from meantime.query.compare import Summary
    from meantime.query.rules import Breach, Rule, Verdict

__all__ = ["command"]

BROKEN = 3


@click.command("assert", epilog="Example:  meantime assert run.mtr rules.toml --junit rules.xml")
@input_options
@session_option
@file_argument("files", "FILE... [RULES.toml]", nargs=-1, required=True)
@click.option(
    "--rule",
    "sentences",
    metavar="RULE",
    multiple=True,
    help="""A rule, such as 'no Loops/* in "blocked" for over 50 ms'. Repeatable.""",
)
@once("--junit", metavar="OUT.xml", help="Write the rules as test cases, which CI servers display.")
@limit_option()
@json_option
@reading_options
def command(
    *,
    files: tuple[str, ...],
    sentences: tuple[str, ...],
    junit: str | None,
    as_json: bool,
    **reading: Any,
) -> int:
    """Check whether rules hold for a trace, such as that a loop is never blocked.

    The exit status is 3 if one does not. RULES.toml has a table [rules] with a title and a sentence
    for each rule.
    """
    traces = [file for file in files if not file.endswith(".toml")]
    given = [file for file in files if file.endswith(".toml")]
    if not traces:
        raise UsageError("name the trace that the rules are about")
    if not given and not sentences:
        raise UsageError("name a file of rules, such as rules.toml, or give one with --rule")
    import_numpy()
    from meantime.query.rules import (  # noqa: PLC0415 - NumPy is not for --help
        check_rules,
        parse_rules,
        read_rules,
    )

    rules: list[Rule] = parse_rules([*sentences]) if sentences else []
    for file in given:
        rules += read_rules(Path(file))
    history = _opened(traces, **reading)
    found = check_rules(history, rules)
    file = traces[0] if len(traces) == 1 else "joined.mtj"
    if junit is not None:
        from meantime.cli.output import write  # noqa: PLC0415 - only with --junit

        write(junit, [_junit(found, history, file).encode()], traces)
    if as_json:
        rows = [
            each.as_json() | {"commands": [_command(history, file, at) for at in each.breaches]}
            for each in found
        ]
        print_answer({"version": 1, "rules": rows})
    else:
        for line in _lines(found, history, file):
            click.echo(line)
    return 0 if all(each.holds for each in found) else BROKEN


def _opened(traces: Sequence[str], **reading: Any) -> History | Summary:
    """Return the history of the traces, or the summary that the only one is."""
    from meantime.model.summary_sign import is_summary  # noqa: PLC0415 - not for --help

    if len(traces) > 1 or not is_summary(traces[0]):
        return load_joined(traces, **reading)
    from meantime.query.compare.summary_file import read_summary  # noqa: PLC0415 - few are summaries

    reject(reading, "a summary")
    return read_summary(traces[0])


def _lines(found: Sequence[Verdict], history: History | Summary, file: str) -> Iterator[str]:
    for verdict in found:
        word = "holds " if verdict.holds else "BROKEN"
        sentence = f"{word}  {verdict.rule.title}: {verdict.measured}"
        yield from sentence_lines(sentence, width_of(sys.stdout))
        if not verdict.holds and verdict.rule.title != verdict.rule.text:
            yield f"        {verdict.rule.text}"
        for breach in verdict.breaches:
            yield f"        {breach.sentence}"
            yield f"          {_command(history, file, breach)}"
        if verdict.more:
            yield f"        and {verdict.more:,} more"


def _command(history: History | Summary, file: str, breach: Breach) -> str:
    """Return the command that draws where a rule does not hold."""
    from meantime.history.history import History  # noqa: PLC0415 - NumPy is not for --help
    from meantime.query.scope import Scope  # noqa: PLC0415 - as above

    # a summary has no moments
    assert isinstance(history, History)
    around = breach.start_ns, max(breach.end_ns, breach.start_ns + 1)
    words = Scope(history, history.bounds).options(around)
    has_states = any(lane.declaration.kind == "state" for lane in history.lanes)
    draw = ["statemap"] if has_states else ["flame", "--chart"]
    return shlex.join(["meantime", *draw, file, *words, "-o", "moment.svg"])


def _junit(found: Sequence[Verdict], history: History | Summary, file: str) -> str:
    """Return a report in the format of JUnit, as CI servers read it."""
    from meantime.views.svg import element, escape  # noqa: PLC0415 - only with --junit

    cases = []
    for verdict in found:
        about = {"classname": "meantime", "name": verdict.rule.title}
        failure = ""
        if not verdict.holds:
            # control characters are made visible, so line by line
            details = "\n".join(map(escape, _lines([verdict], history, file)))
            message = f"{verdict.rule.text}: {verdict.measured}"
            failure = element("failure", {"message": message}, inner=details)
        cases.append(element("testcase", about, inner=failure))
    counts = {"tests": len(found), "failures": sum(not each.holds for each in found)}
    suite = element("testsuite", {"name": file, **counts}, inner="\n".join(["", *cases, ""]))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{suite}\n'
