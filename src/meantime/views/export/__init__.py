"""Histories in other formats: each module writes one, and counts what it cannot represent.

Installed packages add formats by entry points of the group `meantime.views`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from meantime.additions import VIEWS, additions, warn_about

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from meantime.history.history import History
    from meantime.history.spans import SpanTable
    from meantime.query.counting import Exported

__all__ = ["TARGETS", "Target", "Writer", "added", "export", "nothing_for"]


class Target(NamedTuple):
    """A format that can be written.

    Attributes:
        suffix: The suffix of its files.
        module: The module that writes it, below this package.
        version: The version of the format, if there are several.
        has_states: Whether states are not made into spans: it has them, or leaves them out.
        only_adds: Whether it adds up all spans of a stack, so that states beside spans or samples
            would count the same time twice.
    """

    suffix: str
    module: str
    version: int = 0
    has_states: bool = False
    only_adds: bool = False


TARGETS = {
    "chrome": Target(".trace.json", "chrome"),
    "spall": Target(".spall", "spall", 3),
    "spall1": Target(".spall", "spall", 1),
    "speedscope": Target(".speedscope.json", "speedscope", only_adds=True),
    "folded": Target(".folded", "folded", only_adds=True),
    "pprof": Target(".pb.gz", "pprof", only_adds=True),
    "perfetto": Target(".pftrace", "perfetto"),
    "otlp": Target(".otlp.json", "otlp", has_states=True),
    "firefox": Target(".firefox.json", "firefox"),
    "statemap": Target(".statemap", "statemap", has_states=True),
    "tasks": Target(".statemap", "tokio", 1, has_states=True),
    "workers": Target(".statemap", "tokio", 2, has_states=True),
}


class Writer(Protocol):
    """An entry point of the group `meantime.views`: a module, or another object.

    The entry point's name is that of the format.

    Attributes:
        SUFFIX: The suffix of its files.
    """

    SUFFIX: str

    def write(self, history: History, lost: Counter[str]) -> Iterator[bytes]:
        """Yield the file of a history, and count in `lost` what it cannot represent, by kind."""


def added() -> dict[str, Writer]:
    """Return the formats that installed packages add to `TARGETS`, by name.

    An addition with the name of another format is skipped, with a warning.
    """
    found: dict[str, Writer] = {}
    for addition in additions(VIEWS, _is_writer):
        if addition.name in TARGETS or addition.name in found:
            warn_about(addition, VIEWS, "has the name of another format")
        else:
            found[addition.name] = addition.value
    return found


def _is_writer(value: Any) -> bool:
    suffix = getattr(value, "SUFFIX", None)
    return isinstance(suffix, str) and bool(suffix) and callable(getattr(value, "write", None))


def nothing_for(history: History, target: str, of: Exported | None = None) -> str | None:
    """Return why a file in this format would be empty; None if it would not."""
    if of is not None and not getattr(_Contents(history), of):
        return f"there are no {of} to write"
    return _nothing_at_all(history, target)


def _nothing_at_all(history: History, target: str) -> str | None:
    if target in {"tasks", "workers"}:
        is_recording = len(history.quarks("Tasks/*/*")) + len(history.quarks("Loops/*"))
        return None if is_recording else "there are no tasks and no event loops: not a recording"
    if target not in TARGETS or target == "chrome":
        return None
    found = _Contents(history)
    match target:
        case "statemap":
            from meantime.views.export.statemap import drawn_quarks  # noqa: PLC0415 - not for --help

            has_any = len(drawn_quarks(history)) > 0
            reason = "there are no states and no spans of threads that last, and statemap data"
            reason += " contain only those"
        case "otlp":
            has_any = found.spans
            reason = "there are no spans, and OpenTelemetry's traces contain only those"
        case "folded":
            has_any = found.states or found.stacks or found.spans_that_last
            reason = "there are no spans of threads, samples with stacks or states to write as"
            reason += " folded stacks"
        case "spall" | "spall1":
            has_any = found.states or found.spans_of_threads
            reason = f"there are no spans of threads and no states to write as {target}"
        case "perfetto":
            has_any = found.states or found.spans or found.others
            reason = f"there are no spans, points, counters or states to write as {target}"
        case "firefox":
            has_any = found.states or found.spans or found.samples or found.others
            reason = f"there are no spans, samples, points or states to write as {target}"
        case "pprof":
            has_any = found.states or found.spans_of_threads or found.samples
            reason = f"there are no spans of threads, samples or states to write as {target}"
        case _:
            has_any = found.states or found.spans or found.samples
            reason = f"there are no spans, samples or states to write as {target}"
    return None if has_any else reason


class _Contents:
    """What a history has; `others` are points and counters."""

    def __init__(self, history: History) -> None:
        self._history = history

    @property
    def states(self) -> bool:
        from meantime.query.statistics import state_quarks  # noqa: PLC0415 - as above

        stored = self._history.without_derived()
        return bool(stored.has_values(state_quarks(stored)).any())

    @property
    def spans(self) -> bool:
        return len(self._history.spans()) > 0

    @property
    def spans_of_threads(self) -> bool:
        return len(self._of_threads()) > 0

    @property
    def spans_that_last(self) -> bool:
        spans = self._of_threads()
        return bool((spans.end_ns > spans.start_ns).any())

    def _of_threads(self) -> SpanTable:
        from meantime.query.threads import thread_quarks  # noqa: PLC0415 - as above

        return self._history.spans(thread_quarks(self._history))

    @property
    def samples(self) -> bool:
        return len(self._history.samples()) > 0

    @property
    def stacks(self) -> bool:
        return bool((self._history.samples().stack >= 0).any())

    @property
    def others(self) -> bool:
        counters = (each.declaration.kind == "counter" for each in self._history.lanes)
        return any(counters) or len(self._history.points()) > 0


class _Writer(Protocol):
    def write(self, history: History, lost: Counter[str], *, version: int) -> Iterator[bytes]: ...


def export(
    history: History, target: str, lost: Counter[str], of: Exported | None = None
) -> Iterator[bytes]:
    """Yield the file of a history in a format of `TARGETS`, or of those that were added.

    States become spans where the format has none. One that only adds up has them if there are
    neither spans nor samples, or if `of` is `states`.

    Args:
        history: The history to write.
        target: The format's name.
        lost: Counts what the format cannot represent, by kind; complete at the end.
        of: Only `spans`, `samples` or `states`; the others are counted as lost.
    """
    from meantime.views.export.states import (  # noqa: PLC0415 - for those that need it
        only,
        with_states_as_spans,
    )

    stored = history.without_derived()
    if of is not None:
        history = only(stored, of, lost)
    if target not in TARGETS:
        return added()[target].write(history, lost)
    chosen = TARGETS[target]
    writer = cast("_Writer", import_module(f"{__name__}.{chosen.module}"))
    if not chosen.has_states and of in {None, "states"}:
        # the spans themselves are written, not the attributes derived from them
        found = _Contents(stored)
        are_kept = of == "states" or not (chosen.only_adds and (found.spans or found.samples))
        history = with_states_as_spans(history if of else stored, lost, are_kept=are_kept)
    return writer.write(history, lost, version=chosen.version)
