"""Building a history: changes go in, in any order across attributes; segments come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from meantime.history.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from types import TracebackType

    import numpy as np
    import numpy.typing as npt

    from meantime.anomalies import Anomalies
    from meantime.attributes import Attributes, Pattern
    from meantime.clocks import Clock
    from meantime.columns import Coded, Int32s, Int64s, Value
    from meantime.history.history import History
    from meantime.trace import LaneKind, State

__all__ = ["HistoryBuilder", "builder_over"]


class HistoryBuilder:
    """Takes changes and makes a `History` of them.

    A change says that from a time on an attribute has a value. The changes of one attribute must
    come in order of time; across attributes any order will do. An attribute has no state (None)
    until its first change. Its type is that of its first value.

    >>> builder = HistoryBuilder()
    >>> disk = builder.quark("disk0")
    >>> builder.modify(0, disk, "idle")
    >>> builder.modify(5, disk, "writing")
    >>> builder.close(8).state(disk, 6)
    Interval(quark=0, start_ns=5, end_ns=8, value='writing', tag=None, ongoing=False)

    Args:
        path: The directory to keep it in, `NAME.mth`; None keeps it in memory.
        start_ns: Where the history begins, if no change is earlier.
        origin_ns: UTC of the history's time 0, in nanoseconds since 1970, if known.
        reorder_ns: How late the changes of an attribute may come; they are held back that long.
        keep: `"ongoing"` keeps only the state that each attribute is in now: what was before cannot
            be asked for, and no events, spans and samples are kept.
        clock: Which clock its times count.
        resume: Go on with the unfinished history in the directory, if there is one.

    Raises:
        OutputError: If the directory exists, or cannot be written.
        InputError: If the history that is to go on is damaged.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        start_ns: int = 0,
        origin_ns: int | None = None,
        reorder_ns: int = 0,
        keep: Literal["everything", "ongoing"] = "everything",
        clock: Clock | None = None,
        resume: bool = False,
    ) -> None:
        self._engine = Engine(
            path,
            start_ns=start_ns,
            origin_ns=origin_ns,
            reorder_ns=reorder_ns,
            keep=keep,
            clock=clock,
            resume=resume,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._engine.closed:
            return
        if error is None:
            self.close()
        else:
            self.flush()

    @property
    def attributes(self) -> Attributes:
        """The attribute tree so far."""
        return self._engine.attributes

    @property
    def anomalies(self) -> Anomalies:
        """What was odd, to be counted; see `History.anomalies`."""
        return self._engine.anomalies

    @property
    def position(self) -> Any:
        """Where in the input you are: anything JSON can say, kept with the changes before it.

        After `resume=True` it is what it was when the last change that was kept came. Do again all
        that came after it was set: what was kept of that is skipped, and as long as it is `pop`
        returns None and `ongoing` what was kept last. To set it to the same once more before that
        is no harm. Where it was never set, go on with what is new.
        """
        return self._engine.position

    @position.setter
    def position(self, position: Any) -> None:
        self._engine.position = position

    def quark(self, *path: str, parent: int | None = None) -> int:
        """Return the quark of a path, creating what is missing of it.

        Raises:
            QuarkError: If the path is empty, or there is no such parent.
        """
        return self._engine.quark(*path, parent=parent)

    def modify(self, time_ns: int, quark: int, value: Value, tag: int | None = None) -> None:
        """Say that from `time_ns` on, an attribute has a value.

        The value and tag that it has already change nothing. A change at the time when its present
        state began replaces that state.

        Raises:
            QuarkError: If there is no such attribute.
            StateTypeError: If the value is not of the attribute's type.
            TimeOrderError: If the time is before the attribute's last change.
            TimeRangeError: If the time does not fit.
        """
        self._engine.modify(time_ns, quark, value, tag)

    def modify_many(
        self,
        times_ns: Sequence[int] | Int64s,
        quarks: Sequence[int] | Int32s,
        values: Coded | Sequence[Value] | Int64s | npt.NDArray[np.float64],
        tags: Sequence[int] | Int32s | None = None,
    ) -> None:
        """Do as `modify` for each row, much faster.

        Args:
            times_ns: When; in order for each attribute.
            quarks: Which attribute.
            values: A column of strings, an array of int64 or float64, or any sequence of values.
            tags: A tag per row, -1 for none.

        Raises:
            HistoryError: As `modify` does; the rows before the one at fault were taken.
        """
        self._engine.modify_many(times_ns, quarks, values, tags)

    def update_ongoing(self, quark: int, value: Value) -> None:
        """Replace the value that an attribute has now, from when it took it; its tag stays.

        Raises:
            QuarkError: If there is no such attribute.
            StateTypeError: If the value is not of the attribute's type.
        """
        self._engine.update_ongoing(quark, value)

    def push(self, time_ns: int, quark: int, value: Value) -> None:
        """Put a value on an attribute's stack: its depth goes up, child DEPTH takes the value.

        >>> builder = HistoryBuilder()
        >>> stack = builder.quark("stack")
        >>> builder.push(1, stack, "main")
        >>> builder.push(2, stack, "read")
        >>> builder.pop(3, stack), builder.ongoing(stack)
        ('read', 1)

        Raises:
            HistoryError: If the stack is 100,000 deep.
            StateTypeError: If the attribute holds something else than a depth.
        """
        self._engine.push(time_ns, quark, value)

    def pop(self, time_ns: int, quark: int) -> Value:
        """Take the top value off an attribute's stack and return it; None if there is none.

        Raises:
            StateTypeError: If the attribute holds something else than a depth.
        """
        return self._engine.pop(time_ns, quark)

    def increment(self, time_ns: int, quark: int, amount: float = 1) -> None:
        """Add to an attribute's number; no state counts as 0.

        Raises:
            StateTypeError: If the attribute does not hold a number of the amount's type.
        """
        self._engine.increment(time_ns, quark, amount)

    def remove(self, time_ns: int, quark: int) -> None:
        """Say that an attribute and all below it have no state from `time_ns` on."""
        self._engine.remove(time_ns, quark)

    def later(
        self,
        time_ns: int,
        quark: int,
        value: Value = None,
        *,
        action: Literal["modify", "push", "pop", "increment", "remove"] = "modify",
    ) -> None:
        """Do something once a change at or after `time_ns` comes, before it; or at the end.

        Those of one time are done in the order in which they were asked for. In a provider they
        wait for the next event at or after `time_ns`.

        Raises:
            QuarkError: If there is no such attribute.
            TimeRangeError: If the time does not fit.
            ValueError: If there is no such action.
        """
        self._engine.later(time_ns, quark, value, action=action)

    def advance(self, time_ns: int) -> None:
        """Do what `later` put off until this time, in order of time.

        Changes do that by themselves; in a provider, events do.
        """
        self._engine.advance(time_ns)

    def ongoing(self, quark: int) -> Value:
        """Return the value that an attribute has now.

        Raises:
            QuarkError: If there is no such attribute.
        """
        return self._engine.ongoing(quark)

    def ongoing_start(self, quark: int) -> int:
        """Return when an attribute took the value that it has now.

        Raises:
            QuarkError: If there is no such attribute.
        """
        return self._engine.ongoing_start(quark)

    def tag(self, fields: Mapping[str, Any], key: Any = None) -> int:
        """Return the tag that stands for a set of named fields; a key gives one tag always.

        Equal fields without a key are one tag.
        """
        return self._engine.tag(fields, key)

    def define_tag(self, tag: int, fields: Mapping[str, Any]) -> None:
        """Say what a tag stands for, for all its uses; a new one may be defined ahead."""
        self._engine.define_tag(tag, fields)

    def lanes(
        self,
        pattern: Pattern,
        *,
        kind: LaneKind = "state",
        entity_kind: str | None = None,
        label: str | None = None,
        states: Sequence[State] = (),
        unit: str | None = None,
    ) -> None:
        """Declare that the attributes of a pattern can be drawn; see `LaneDeclaration`."""
        self._engine.lanes(
            pattern, kind=kind, entity_kind=entity_kind, label=label, states=states, unit=unit
        )

    @property
    def history(self) -> History:
        """What is known so far, to be asked while it grows: each question sees all changes.

        It ends just after the latest change; the intervals that go on are marked `ongoing`. Changes
        held back because of `reorder_ns` are not in it yet.
        """
        return self._engine.history

    def flush(self) -> None:
        """See all changes so far on the disk; other processes that read it see them too.

        In a provider that is done at the next event.
        """
        self._engine.flush()

    def close(self, end_ns: int | None = None) -> History:
        """Return the finished history.

        It ends at `end_ns`, or just after the last change if that is later: no state is lost.

        Raises:
            HistoryClosedError: If it was closed before.
        """
        return self._engine.close(end_ns)


def builder_over(engine: Engine) -> HistoryBuilder:
    """Return the builder that an engine works for."""
    builder = HistoryBuilder.__new__(HistoryBuilder)
    builder._engine = engine  # noqa: SLF001 - its constructor would make another
    return builder
