"""The order in which operations take effect: scheduled changes, resumed builds, transactions.

A build that was killed is resumed by repeating every operation since the last `position`. The
journal counts operations, so that those whose effect is already on disk are skipped.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from meantime.errors import HistoryClosedError, HistoryError, OutputError, StateTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from meantime.model.columns import Int64s, Value

__all__ = ["Journal", "ScheduledChange"]

_INT64 = np.iinfo(np.int64)
# Scheduled changes are often due soon.
_FEW_ROWS = 64


class ScheduledChange(NamedTuple):
    """An action that takes effect once a change at or after its time comes."""

    time_ns: int
    quark: int
    value: Value
    action: str


class Journal:
    """Counts operations, and applies scheduled changes between them.

    Args:
        apply: Carries out an action (its name, time, attribute and value) on the history.

    Attributes:
        nested: Whether an operation is being carried out, so the changes that it makes are
            neither counted nor preceded by scheduled changes.
        scheduled: A heap of the scheduled changes; each has a serial number, which keeps those of
            one time in the order in which they were scheduled.
        failures: The errors of scheduled changes that are yet to be raised, and what failed.
    """

    def __init__(self, apply: Callable[[str, int, int, Value], Value]) -> None:
        self._apply = apply
        self.nested: bool = False
        self.scheduled: list[tuple[int, int, int, Value, str]] = []
        self._serial = count()
        self.failures: list[tuple[str, Exception]] = []
        self._position: Any = None
        self._provider_position: Callable[[], Any] | None = None
        # In a transaction, changes up to this time do not trigger scheduled ones: its event has.
        self._event_ns = _INT64.min
        self._done = 0
        self._batch_row: int | None = None
        self._skip_operations = 0
        self._skip_rows = 0
        self._resumed = False

    @property
    def position(self) -> Any:
        """The position in the input that counting begins from."""
        return self._position

    @position.setter
    def position(self, position: Any) -> None:
        # A resumed build sets its first position again, which must not reset the counts to skip.
        if self._resumed and position == self._position:
            return
        self._position = position
        self._done = self._skip_operations = self._skip_rows = 0

    def restore(
        self, position: Any, done: tuple[int, int], scheduled: Iterable[ScheduledChange]
    ) -> None:
        """Continue an unfinished build.

        Args:
            position: The position in the input that was saved last; None if none was.
            done: How many operations since then took effect, and how many rows of the next one.
            scheduled: The changes that were still scheduled.
        """
        self._position = position
        if position is not None:
            self._done = self._skip_operations = done[0]
            self._skip_rows = done[1]
            self._resumed = True
        for change in scheduled:
            self.schedule(*change)

    def begin_transactions(self, position: Callable[[], Any]) -> None:
        """Save positions only between events from now on, and stop counting operations.

        Args:
            position: Returns the position to be saved; called between two events.
        """
        self._provider_position = position

    @property
    def transactional(self) -> bool:
        """Whether changes come from a provider, an event at a time."""
        return self._provider_position is not None

    @property
    def only_counts(self) -> bool:
        """Whether the next operation has to be counted, and nothing else."""
        return not (
            self.nested or self._skip_operations or self._resumed or self._batch_row is not None
        )

    def close(self) -> None:
        """Refuse further actions, and drop the reference to the builder: both are freed at once."""
        self._apply = _refuse_action
        self._provider_position = None

    def saved_position(self) -> Any:
        """Return the position from which a build can be resumed now."""
        return self._position if self._provider_position is None else self._provider_position()

    def skip_operation(self) -> bool:
        """Return whether the operation that begins now took effect before the build was killed."""
        self._resumed = False
        if self._skip_operations:
            self._skip_operations -= 1
            return True
        self._batch_row = None
        return False

    def count_operations(self, operations: int) -> None:
        """Count operations that begin now, or took effect since the last that was counted."""
        self._done += operations

    def done(self, batch_rows: int) -> tuple[int, int]:
        """Return how many operations since `position` are done, and rows of the next, a batch.

        Args:
            batch_rows: How many rows of the current run were put into the store.
        """
        if self._batch_row is None:
            # Rows that will be skipped are done, though a resumed build has not reached them yet.
            return self._done, self._skip_rows
        return self._done - 1, self._batch_row + batch_rows

    def runs(self, times_ns: Int64s) -> Iterator[slice]:
        """Yield runs of a batch's rows, and apply scheduled changes before the row they precede."""
        # A batch has the same effect as its rows put one by one, so it is cut before each row that
        # scheduled changes precede.
        first, self._skip_rows = self._skip_rows, 0
        self._batch_row = first
        while self.scheduled:
            due_ns = max(self.scheduled[0][0], min(self._event_ns, _INT64.max - 1) + 1)
            row = _first_reaching(times_ns, due_ns, first)
            if row is None:
                break
            if row > first:
                yield slice(first, row)
            self.apply_scheduled(int(times_ns[row]))
            self._batch_row = first = row
        yield slice(first, None)
        self._batch_row = None

    def schedule(self, time_ns: int, quark: int, value: Value, action: str) -> None:
        """Schedule a change without counting it as an operation."""
        heappush(self.scheduled, (time_ns, next(self._serial), quark, value, action))

    def scheduled_changes(self) -> list[ScheduledChange]:
        """Return the scheduled changes in order."""
        return [
            ScheduledChange(time_ns, quark, value, action)
            for time_ns, _, quark, value, action in sorted(self.scheduled)
        ]

    def begin_event(self, time_ns: int) -> None:
        """Apply what is scheduled up to an event's time; its own changes then trigger nothing."""
        if self._provider_position is not None:
            self._event_ns = _INT64.max
        self.apply_scheduled(time_ns)
        self.raise_failure()

    def begin_event_batch(self, time_ns: int) -> None:
        """Let each change after this time trigger scheduled ones, for events in one batch."""
        self._event_ns = time_ns

    def apply_scheduled(self, time_ns: int) -> None:
        """Apply the changes scheduled up to a time, in order of time; keep their errors."""
        due = []
        while self.scheduled and self.scheduled[0][0] <= time_ns:
            due.append(heappop(self.scheduled))
        for due_ns, _, quark, value, action in due:
            try:
                self.perform(action, due_ns, quark, value)
            except OutputError:
                # The disk, not the change: continuing would only fail again.
                raise
            except (HistoryError, TypeError) as error:
                self.failures.append((f"later({due_ns}, ..., action={action!r})", error))

    def apply_before(self, time_ns: int) -> HistoryError | None:
        """Apply what is scheduled before a change; return the error of the first that failed."""
        if time_ns > self._event_ns:
            self.apply_scheduled(time_ns)
        return self._take_failure()

    def operate(self, action: str, time_ns: int, quark: int, value: Value) -> Value:
        """Carry out an action after the scheduled changes that precede it."""
        due = self.scheduled or self.failures
        if due and (failure := self.apply_before(time_ns)) is not None:
            self.raise_after(failure, lambda: self.perform(action, time_ns, quark, value))
        return self.perform(action, time_ns, quark, value)

    def perform(self, action: str, time_ns: int, quark: int, value: Value) -> Value:
        """Carry out all changes of an action as one operation."""
        self.nested = True
        try:
            return self._apply(action, time_ns, quark, value)
        finally:
            self.nested = False

    def raise_after(self, failure: HistoryError, operation: Callable[[], object]) -> NoReturn:
        """Raise a scheduled change's error once the operation that it preceded took effect."""
        # Nested, so that it is not counted again, and applies no scheduled changes.
        self.nested = True
        try:
            operation()
        except HistoryError as error:
            raise error from failure
        finally:
            self.nested = False
        raise failure

    def raise_failure(self) -> None:
        """Raise the error of the first scheduled change that failed, if any did."""
        if (failure := self._take_failure()) is not None:
            raise failure

    def _take_failure(self) -> HistoryError | None:
        if not self.failures:
            return None
        (what, error), *others = self.failures
        self.failures = []
        more = f" (and {len(others):,} more failed)" if others else ""
        sort = type(error) if isinstance(error, HistoryError) else StateTypeError
        failure = sort(f"{what}: {error}{more}")
        failure.__cause__ = error
        return failure


def _first_reaching(times_ns: Int64s, time_ns: int, first: int) -> int | None:
    """Return the first row from `first` on with this time or a later one; None if there is none."""
    rows = _FEW_ROWS
    while first < len(times_ns):
        due = times_ns[first : first + rows] >= time_ns
        found = int(due.argmax())
        if due[found]:
            return first + found
        # in growing parts, so that finding each of many costs no more than the rows before it
        first, rows = first + rows, 2 * rows
    return None


def _refuse_action(action: str, time_ns: int, quark: int, value: Value) -> NoReturn:
    del time_ns, quark, value
    raise HistoryClosedError(f"{action}: this history was closed: it takes no more changes")
