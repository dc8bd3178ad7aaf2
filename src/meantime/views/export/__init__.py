"""Histories in the formats of others: each module writes one, and counts what it cannot hold."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from meantime.history.history import History

__all__ = ["TARGETS", "Target", "export"]


class Target(NamedTuple):
    """A format that can be written.

    Attributes:
        suffix: What its files' names end in.
        module: Where it is written, below this package.
        version: Which version of the format, where there are several.
    """

    suffix: str
    module: str
    version: int = 0


TARGETS = {
    "chrome": Target(".chrome.json", "chrome"),
    "spall": Target(".spall", "spall", 3),
    "spall1": Target(".spall", "spall", 1),
    "speedscope": Target(".speedscope.json", "speedscope"),
    "folded": Target(".folded", "folded"),
    "tasks": Target(".statemap", "tokio", 1),
    "workers": Target(".statemap", "tokio", 2),
}


class _Writer(Protocol):
    def write(self, history: History, lost: Counter[str], *, version: int) -> Iterator[bytes]: ...


def export(history: History, target: str, lost: Counter[str]) -> Iterator[bytes]:
    """Yield the file of a history in a format of `TARGETS`.

    Args:
        history: What is written.
        target: The format's name.
        lost: Counts what the format cannot hold, by what it is; final when all was yielded.
    """
    _, module, version = TARGETS[target]
    writer = cast("_Writer", import_module(f"{__name__}.{module}"))
    return writer.write(history, lost, version=version)
