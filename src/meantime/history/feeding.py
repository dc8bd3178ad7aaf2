"""Events into state changes: a provider is given a trace's events, one step at a time."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from meantime.errors import MeantimeError, ProviderError
from meantime.history.builder import builder_over

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.events import Event, Events
    from meantime.history.builder import HistoryBuilder
    from meantime.history.engine import Engine

__all__ = ["Feeder", "Provider"]


class Provider(Protocol):
    """What turns events into changes; see `StateProvider`."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def version(self) -> int | str:
        """Another one once it makes other changes of the same events."""

    @property
    def takes_batches(self) -> bool:
        """Whether it wants columns, not one event after the other."""

    def begin(self, state: HistoryBuilder) -> None:
        """Be told that a history begins."""

    def handle(self, event: Event, state: HistoryBuilder) -> None:
        """Change the state as an event says."""

    def handle_batch(self, columns: Events, state: HistoryBuilder) -> None:
        """Do as `handle` for each event."""

    def save(self) -> Any:
        """Return what it knows, as JSON; None if it cannot."""

    def restore(self, saved: Any) -> None:
        """Know what `save` returned."""


class Feeder:
    """Gives events to a provider, and knows at any time where a build may go on.

    Args:
        engine: Takes the changes; it may be one that goes on.
        provider: Makes them.
        after: Called after each batch.

    Attributes:
        begun: Whether the provider has begun a history.
        saves: Whether the build may go on where it is: not if the input is past its first batch and
            does not say where it is, nor if it holds more than events.
    """

    def __init__(
        self,
        engine: Engine,
        provider: Provider,
        *,
        after: Callable[[Feeder], None] | None = None,
    ) -> None:
        self._engine = engine
        self._builder = builder_over(engine)
        self._after = after
        self._provider = provider
        self._skip_events = 0
        self.begun = False
        # The position of the batch before, and how many events of this one are done.
        self._position: Any = None
        self._events = 0
        self.saves = True
        if (kept := engine.position) is not None:
            self._position, self._skip_events = kept["input"], kept["events"]
            self.begun = True
            provider.restore(kept["provider"])
        engine.drive(self.where)

    def where(self) -> Any:
        """Return where the build may go on: the input, the events done since, the provider.

        None if it cannot.
        """
        if not self.begun or not self.saves or (saved := self._provider.save()) is None:
            return None
        return {"input": self._position, "events": self._events, "provider": saved}

    def take(self, batch: Events) -> None:
        """Give the provider a batch of events.

        Raises:
            ProviderError: If the provider fails.
        """
        engine, builder, provider = self._engine, self._builder, self._provider
        if not self.begun:
            engine.catalogue.start_ns = int(batch.time_ns[0])
            self._guarded(None, provider.begin, builder)
            self.begun = True
        self._events, self._skip_events = self._skip_events, 0
        if provider.takes_batches:
            engine.step(int(batch.time_ns[0]))
            engine.open_batch(int(batch.time_ns[0]))
            self._guarded(None, provider.handle_batch, batch, builder)
        else:
            self._take_each(batch)
        self._position, self._events = batch.position, 0
        if batch.position is None:
            self.saves = False
        if self._after is not None:
            self._after(self)

    def _take_each(self, batch: Events) -> None:
        handle, builder, step = self._provider.handle, self._builder, self._engine.step
        done = self._events
        for row, event in enumerate(batch):
            if row < done:
                continue
            self._events = row
            step(event.time_ns)
            try:
                handle(event, builder)
            except Exception as error:
                raise self._told(error, event) from error

    def _guarded(self, event: Event | None, function: Any, *arguments: Any) -> None:
        try:
            function(*arguments)
        except Exception as error:
            raise self._told(error, event) from error

    def _told(self, error: Exception, event: Event | None) -> MeantimeError:
        """Return a provider's error with the place where it comes from and the event."""
        at = "" if event is None else f" (at the event {event.name!r}, {event.time_ns} ns)"
        if isinstance(error, ProviderError):
            return error
        place = ""
        if not isinstance(error, MeantimeError):
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(last.filename).name}:{last.lineno}: {type(error).__name__}: "
        return ProviderError(f"{self._provider.name}: {place}{error}{at}")
