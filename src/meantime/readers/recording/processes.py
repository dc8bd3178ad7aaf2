"""The processes of a recording: who started whom, and which of several equal ones each is."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meantime.readers.recording.facts import Facts
    from meantime.readers.recording.listing import Process

__all__ = ["Kinship", "kinship_of", "without_arguments"]

_PYTHON = re.compile(r"(?:^|[/\\])python[0-9.]*(?:\.exe)?$")
_DIGITS = re.compile(r"\d+")
# What Python starts for itself, by a part of the command.
_HELPERS = {
    "multiprocessing.resource_tracker": "resource tracker",
    "multiprocessing.forkserver": "fork server",
}
# Commands of processes that do parts of their parent's work: multiprocessing's and execnet's.
_WORKERS = ("--multiprocessing-fork", "exec(eval(sys.stdin.readline()))")
_MAX_COMMAND = 200


class Kinship(NamedTuple):
    """What a process is.

    Attributes:
        role: `worker 3 of 4`, `resource tracker`; empty if it is alone of its kind.
        parent: The index of the process that started it; -1 if that was not recorded.
        command: Its command line; empty if it is that of its parent, from which it was forked, or
            only says that it works for its parent.
    """

    role: str
    parent: int
    command: str


def without_arguments(words: Sequence[str]) -> list[str]:
    """Return a command without the arguments of its program, which may be private.

    >>> without_arguments(["/usr/bin/python3", "-X", "dev", "app.py", "--token", "a1"])
    ['/usr/bin/python3', '-X', 'dev', 'app.py']
    >>> without_arguments(["python", "-m", "pytest", "-x"]), without_arguments(["serve", "8000"])
    (['python', '-m', 'pytest'], ['serve'])
    """
    if not words or not _PYTHON.search(words[0]):
        return list(words[:1])
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] not in {"-", "-m", "-c"}:
        at += 2 if words[at] in {"-X", "-W"} else 1
    # a program in the command itself is one argument
    return list(words[: at + (2 if words[at : at + 1] in (["-m"], ["-c"]) else 1)])


def kinship_of(
    processes: Sequence[Process],
    facts: Sequence[Facts | None],
    shown: Callable[[list[str]], list[str]] = list,
) -> list[Kinship]:
    """Return what each process is, in order.

    Those that one process has started with the same command, except for numbers in it, are numbered
    in the order in which they began.

    Args:
        processes: The processes.
        facts: What each wrote about itself.
        shown: Returns the words of a command that are copied; all, if it is not given.
    """
    by_key = {(each.pid, each.incarnation): index for index, each in enumerate(processes)}
    latest = {each.pid: index for index, each in enumerate(processes)}
    parents, commands, copied = [], [], []
    for index, (process, known) in enumerate(zip(processes, facts, strict=True)):
        forked_from = (0, 0) if known is None else known.parent
        started_by = process.facts.get("parent_pid")
        parent = by_key.get(forked_from, -1)
        if parent < 0 and isinstance(started_by, int):
            parent = latest.get(started_by, -1)
        parents.append(parent if parent != index else -1)
        words = process.facts.get("argv")
        words = [str(word) for word in words] if isinstance(words, list) else []
        # the interpreter and the script, whose directories say little
        words[:2] = [PurePath(word).name if word.startswith("/") else word for word in words[:2]]
        commands.append(" ".join(words)[:_MAX_COMMAND])
        copied.append(" ".join(shown(words))[:_MAX_COMMAND])
    alike: dict[tuple[int, str], list[int]] = defaultdict(list)
    for index, (parent, command) in enumerate(zip(parents, commands, strict=True)):
        if parent >= 0 and not _helper(command):
            alike[parent, _DIGITS.sub("0", command)].append(index)
    roles = [_helper(command) for command in commands]
    for members in alike.values():
        members.sort(key=lambda index: (processes[index].base_ns or 0, processes[index].pid))
        for number, index in enumerate(members, 1):
            if len(members) > 1:
                roles[index] = f"worker {number} of {len(members)}"
            elif not commands[index] or _is_internal(commands[index]):
                roles[index] = "worker"
    own = [
        "" if role and _is_internal(whole) else each
        for role, whole, each in zip(roles, commands, copied, strict=True)
    ]
    return [Kinship(*each) for each in zip(roles, parents, own, strict=True)]


def _is_internal(command: str) -> bool:
    return any(part in command for part in (*_WORKERS, *_HELPERS))


def _helper(command: str) -> str:
    return next((role for part, role in _HELPERS.items() if part in command), "")
