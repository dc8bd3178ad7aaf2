"""Running a provider over the events of a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from meantime.errors import MeantimeError, ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.history.builder import HistoryBuilder
    from meantime.model.events import Event, Events

__all__ = ["Provider", "ProviderRunner", "located"]


class Provider(Protocol):
    """What turns events into changes; see `StateProvider`."""

    @property
    def name(self) -> str:
        """The provider's name."""

    @property
    def version(self) -> int | str:
        """Differs whenever the same events would produce different changes; invalidates caches."""

    @property
    def takes_batches(self) -> bool:
        """Whether it processes columns instead of one event at a time."""

    def begin(self, state: HistoryBuilder) -> None:
        """Initialise the state when a history begins."""

    def handle(self, event: Event, state: HistoryBuilder) -> None:
        """Update the state for an event."""

    def handle_batch(self, columns: Events, state: HistoryBuilder) -> None:
        """Do as `handle` for each event."""

    def save(self) -> Any:
        """Return the provider's own state as JSON; None if it cannot be saved."""

    def restore(self, saved: Any) -> None:
        """Restore what `save` returned."""


class ProviderRunner:
    """Passes events to a provider, and can name the position from which to resume at any time.

    Args:
        builder: Receives the changes; may be a resumed one.
        provider: Produces them.
        after: Called after each batch.

    Attributes:
        begun: Whether the provider has begun a history.
        saves: Whether the build can be resumed from here: not if the input is past its first batch
            and has no positions, nor if it holds more than events.
    """

    def __init__(
        self,
        builder: HistoryBuilder,
        provider: Provider,
        *,
        after: Callable[[ProviderRunner], None] | None = None,
    ) -> None:
        self._builder = builder
        self._after = after
        self._provider = provider
        self._skip_events = 0
        self.begun: bool = False
        # The position of the batch before, and how many events of this one are done.
        self._position: Any = None
        self._events = 0
        self.saves: bool = True
        if (kept := builder.position) is not None:
            self._position, self._skip_events = kept["input"], kept["events"]
            self.begun = True
            provider.restore(kept["provider"])
        builder.begin_transactions(self.position)

    def position(self) -> Any:
        """Return where the build can be resumed: input, events done since, provider.

        None if it cannot be resumed.
        """
        if not self.begun or not self.saves or (saved := self._provider.save()) is None:
            return None
        return {"input": self._position, "events": self._events, "provider": saved}

    def run(self, batch: Events) -> None:
        """Process a batch of events.

        Raises:
            ProviderError: If the provider fails.
        """
        builder, provider = self._builder, self._provider
        if not self.begun:
            builder.contents.catalogue.start_ns = int(batch.time_ns[0])
            self._guarded(None, provider.begin, builder)
            self.begun = True
        self._events, self._skip_events = self._skip_events, 0
        if provider.takes_batches:
            builder.begin_event(int(batch.time_ns[0]))
            builder.journal.begin_event_batch(int(batch.time_ns[0]))
            self._guarded(None, provider.handle_batch, batch, builder)
        else:
            self._take_each(batch)
        self._position, self._events = batch.position, 0
        if batch.position is None:
            self.saves = False
        if self._after is not None:
            self._after(self)

    def _take_each(self, batch: Events) -> None:
        handle, builder = self._provider.handle, self._builder
        begin_event, scheduled = builder.begin_event, builder.journal.scheduled
        done = self._events
        # in memory, the beginning of an event matters to scheduled changes only
        begins = True
        for row, event in enumerate(batch):
            if row < done:
                continue
            self._events = row
            if begins or scheduled:
                begin_event(event.time_ns)
                begins = builder.on_disk
            try:
                handle(event, builder)
            except Exception as error:
                raise self._located(error, event) from error

    def _guarded(self, event: Event | None, function: Any, *arguments: Any) -> None:
        try:
            function(*arguments)
        except Exception as error:
            raise self._located(error, event) from error

    def _located(self, error: Exception, event: Event | None) -> MeantimeError:
        at = (None, None) if event is None else (event.name, event.time_ns)
        return located(self._provider.name, error, *at)


def located(
    provider: str, error: Exception, event: str | None, time_ns: int | None
) -> MeantimeError:
    """Return a provider's error with its code location, and the name and the time of the event."""
    if isinstance(error, ProviderError):
        return error
    at = "" if event is None else f" (at the event {event!r}, {time_ns} ns)"
    location = ""
    if not isinstance(error, MeantimeError):
        import traceback  # noqa: PLC0415 - 5 ms, and only for errors

        last = traceback.extract_tb(error.__traceback__)[-1]
        location = f"{Path(last.filename).name}:{last.lineno}: {type(error).__name__}: "
    return ProviderError(f"{provider}: {location}{error}{at}")
