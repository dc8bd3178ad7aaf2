"""What a provider is: a state machine that events go into, and state changes come out of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meantime.events import Event, Events
    from meantime.history import HistoryBuilder

__all__ = ["StateProvider"]


class StateProvider:
    """Turns events into state changes; a subclass overrides `handle`, or `handle_batch` for speed.

    A provider reads no file and no clock: the same events make the same history. What it has to
    remember beside the states themselves it keeps in itself, and tells with `save`.

    >>> import meantime
    >>> from meantime.events import Event
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
        name: What the provider is called in messages and histories: its class's name as a rule.
        version: Another one once the provider makes other changes of the same events: a history
            that was made by another version is not used again.
        definition: What tells its code from any other; None takes the source of its class. One
            that was made by other code is not used again either.
    """

    name: str = "StateProvider"
    version: int | str = 1
    definition: str | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    @property
    def takes_batches(self) -> bool:
        """Whether `handle_batch` is overridden: it is given columns then, not single events."""
        return type(self).handle_batch is not StateProvider.handle_batch

    def begin(self, state: HistoryBuilder) -> None:
        """Be told that a history begins, before its first event: the place to declare lanes."""

    def handle(self, event: Event, state: HistoryBuilder) -> None:
        """Change the state as an event says.

        Events come in order of time. Before each of them, what `state.later` put off until its time
        or an earlier one is done, in order of time, that of one time in the order in which it was
        asked for; what is left is done at the end.
        """
        raise NotImplementedError(f"{self.name} has neither handle nor handle_batch")

    def handle_batch(self, columns: Events, state: HistoryBuilder) -> None:
        """Change the state as each of these events says; overridden, `handle` is not called.

        What was put off is done before the first of them; after that, `modify_many` does it in
        between, and so does `state.advance`.
        """
        for event in columns:
            state.advance(event.time_ns)
            self.handle(event, state)

    def save(self) -> Any:
        """Return what the provider must know to go on, as JSON; None if it cannot go on."""
        return None

    def restore(self, saved: Any) -> None:
        """Know what `save` returned, in place of what the provider knows."""
