"""What the processes of a recording are to each other, as facts of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["described", "described_processes", "fact_name", "role_in"]

_BY = ", started by "


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


def role_in(facts: Mapping[str, str], process: str) -> str:
    """Return the role of a process; empty if it has none.

    >>> role_in({"process 7": described("worker 1 of 2", "3", "")}, "7")
    'worker 1 of 2'
    """
    role, by, _ = facts.get(fact_name(process), "").partition(_BY)
    return role if by else ""
