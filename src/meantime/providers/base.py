"""The base class of providers: state machines that turn events into state changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meantime.history import HistoryBuilder
    from meantime.model.events import Event, Events

__all__ = ["StateProvider"]


class StateProvider:
    """Turns events into state changes; a subclass overrides `handle`, or `handle_batch` for speed.

    A provider reads no file and no clock: the same events produce the same history. What it has to
    remember besides the states is kept in its own attributes, and returned by `save`.

    >>> import meantime
    >>> from meantime.model.events import Event
    >>> class Files(meantime.StateProvider):
    ...     def handle(self, event, state):
    ...         file = state.quark("Files", str(event["fd"]))
    ...         state.modify(event.time_ns, file, None if event.name == "close" else event.name)
    >>> names = {1: "open", 4: "read", 9: "close"}
    >>> events = [Event(time_ns, name, {"fd": 3}) for time_ns, name in names.items()]
    >>> history = meantime.build(events, Files())
    >>> [interval.value for interval in history.iterate(history.quark("Files", "3"), 1)]
    ['open', 'read', None]

    Attributes:
        name: The provider's name in messages and histories; by default its class's name.
        version: Increase whenever the same events would produce different changes: a history that
            another version produced is not used again.
        reorder_ns: How late the changes of an attribute may come: those of events that say what
            began before them. They are delayed by that long, and such a build is not resumed.
        definition: Identifies its code; None uses the source of its class. A history that other
            code produced is not used again either.
    """

    name: str = "StateProvider"
    version: int | str = 1
    reorder_ns: int = 0
    definition: str | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    @property
    def takes_batches(self) -> bool:
        """Whether `handle_batch` is overridden, which gets columns instead of single events."""
        return type(self).handle_batch is not StateProvider.handle_batch

    def begin(self, state: HistoryBuilder) -> None:
        """Prepare for a history, before its first event; lanes are declared here."""

    def handle(self, event: Event, state: HistoryBuilder) -> None:
        """Apply the changes that follow from an event.

        Events come in order of time. Before each of them, the changes that `state.later` scheduled
        for its time or an earlier one are applied, in order of time, those of one time in the order
        of scheduling; the remaining ones are applied at the end.
        """
        raise NotImplementedError(f"{self.name} has neither handle nor handle_batch")

    def handle_batch(self, columns: Events, state: HistoryBuilder) -> None:
        """Change the state for each of these events; if overridden, `handle` is not called.

        Scheduled changes are applied before the first of them; after that, `modify_many` and
        `state.advance` apply those that are due.
        """
        for event in columns:
            state.advance(event.time_ns)
            self.handle(event, state)

    def save(self) -> Any:
        """Return as JSON what the provider needs to resume; None if it cannot resume."""
        return None

    def restore(self, saved: Any) -> None:
        """Replace what the provider remembers with what `save` returned."""
