"""Providers: what events mean. A provider is a `StateProvider`, or is declared in a TOML file.

A `StateProvider` receives events, one by one or as `Events`, and changes a `HistoryBuilder`: that
is what users write. A declared one is compiled to a single Python function, whose loop has the
fields of a batch as local variables; `HistoryBuilder.direct` lets it change the open end of the
history without the layers between, except for what that refuses: a new string, a type that does
not fit, a full tail.

Two providers receive columns and return columns, because their events never exist as objects:
`sched.thread_states` takes the switches that the kernel `perf` has read, and `tasks.task_states`
returns the state machine that processes the records of a recording. As single events, the 28
million records a second of a recording would be 300,000; and `meantime top`, which only adds up
states, needs no builder. Such a provider does not know the trace: threads are numbers to it, not
paths, and it returns lost ranges beside the states. Its reader assigns entities and tags.

The names of states and the transitions between them are decided in the provider; the kernel
`tasks` receives a state for each kind of record, and the times that the rules need. `waits`
classifies what a task waits for. There is no common base class, since nothing uses the two
interchangeably. Readers may import providers, not the reverse.
"""

from meantime.providers.base import StateProvider
from meantime.providers.loading import load_provider

__all__ = ["StateProvider", "load_provider"]
