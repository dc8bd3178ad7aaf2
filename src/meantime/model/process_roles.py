"""What the processes of a recording are to each other, as facts of its history."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DescribedProcess",
    "described",
    "described_processes",
    "fact_name",
    "process_in",
    "role_in",
]

_BY = ", started by "
_PARTS = r"(?s)(?:(?:(?P<role>[^:]*?), )?started by (?P<parent>[^:]+)(?:: |$))?(?P<command>.*)"


class DescribedProcess(NamedTuple):
    """What is known of a process; each text may be empty.

    Attributes:
        role: `worker 1 of 2`.
        parent: The process that started it.
        command: Its command line.
    """

    role: str
    parent: str
    command: str


def fact_name(process: str) -> str:
    """Return the name of the fact that describes a process."""
    return f"process {process}"


def described(role: str, parent: str, command: str) -> str:
    """Return the fact about a process; each part may be empty.

    >>> described("worker 1 of 2", "1203", "python app.py")
    'worker 1 of 2, started by 1203: python app.py'
    >>> described("", "", "python app.py")
    'python app.py'
    """
    start = f"{role}{_BY}{parent}" if parent else role
    return ": ".join(filter(None, [start.removeprefix(", "), command]))


def described_processes(facts: Mapping[str, str]) -> list[list[str]]:
    """Return the process and its description, for each that is described.

    >>> described_processes({"process 7": "python app.py", "command": "app"})
    [['7', 'python app.py']]
    """
    start = fact_name("")
    return [
        [name.removeprefix(start), text] for name, text in facts.items() if name.startswith(start)
    ]


def process_in(facts: Mapping[str, str], process: str) -> DescribedProcess:
    """Return what is known of a process.

    >>> process_in({"process 7": described("worker 1 of 2", "3", "python app.py")}, "7")
    DescribedProcess(role='worker 1 of 2', parent='3', command='python app.py')
    >>> process_in({"process 7": described("", "", "python app.py")}, "7").command
    'python app.py'
    """
    found = re.fullmatch(_PARTS, facts.get(fact_name(process), ""))
    assert found is not None
    return DescribedProcess(*(part or "" for part in found.group("role", "parent", "command")))


def role_in(facts: Mapping[str, str], process: str) -> str:
    """Return the role of a process; empty if it has none.

    >>> role_in({"process 7": described("worker 1 of 2", "3", "")}, "7")
    'worker 1 of 2'
    """
    return process_in(facts, process).role
