"""Which fields of inputs are private: command lines, environments, headers of requests.

People share pages without knowing that these are in them, so readers copy them only if
`ReadOptions.private` is set.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meantime.trace import Trace

__all__ = ["PRIVATE_NAME", "leave_private_facts_out", "public"]

# Names of the fields of events.
PRIVATE_NAME = re.compile(
    r"header|environ|^env$|cookie|authorization|passw|token|command_?line|cmdline|^arg(?:s|v|uments)$",
    re.IGNORECASE,
)
# Names of what is known of a whole trace, among which are file names with the words above.
_PRIVATE_FACT = re.compile(r"(?:command[_-]?line|cmdline|environ(?:ment)?|env|argv)", re.IGNORECASE)
_IN_JSON = re.compile(rf'"{_PRIVATE_FACT.pattern}"\s*:', re.IGNORECASE)


def public(value: Any) -> tuple[Any, int]:
    """Return a fact as in JSON without the private fields in it, and how many these are.

    >>> public({"os": "Linux", "command_line": "chrome --user=me", "more": [{"env": {}}]})
    ({'os': 'Linux', 'more': [{}]}, 2)

    Raises:
        RecursionError: If it is nested too deeply.
    """
    if isinstance(value, dict):
        kept = {k: public(each) for k, each in value.items() if not _PRIVATE_FACT.fullmatch(k)}
        inside = sum(count for _, count in kept.values())
        return {key: each for key, (each, _) in kept.items()}, inside + len(value) - len(kept)
    if isinstance(value, list):
        found = [public(each) for each in value]
        return [each for each, _ in found], sum(count for _, count in found)
    return value, 0


def leave_private_facts_out(trace: Trace) -> None:
    """Leave out what is private in the facts of a trace, and count it."""
    for name, text in list(trace.facts.items()):
        if _PRIVATE_FACT.fullmatch(name.partition(" of ")[0]):
            del trace.facts[name]
            trace.anomalies.add("private_field")
        elif _IN_JSON.search(text):
            try:
                kept, count = public(json.loads(text, strict=False))
            except (RecursionError, ValueError):
                # it cannot be read, so all of it may be private
                del trace.facts[name]
                count = 1
            else:
                trace.facts[name] = json.dumps(kept)
            trace.anomalies.add("private_field", count)
