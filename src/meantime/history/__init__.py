"""The history: the intervals of all attributes, how it is built, kept and queried.

Each submodule is imported when a name of it is first used: a query needs nothing that builds.

- `history`: `History`, the queries that views and users call, each answered from a snapshot.
- `snapshot`: one unchanging moment: a source of intervals, names, types, event tables, metadata.
- `live`: the states of a growing history now, found in the changes that wait, so that a change and
  a `state()` after it take microseconds; all other questions go to a snapshot.
- `source`: what can be asked about intervals. `sealed`, `span_attributes` and `checkpoints` are
  the sources of one history; `shifted`, `partitioned` and `made_source` are made of others.
- `builder`: `HistoryBuilder`, the operations; checks arguments, then changes the contents.
- `contents`: everything that was put in so far: changes (`store` checks and adds them, `sealer`
  seals them and merges the `late` ones, `chain` has the segments), event tables (`events`, whose
  rows are `event_rows`), names and metadata (`catalogue`); it makes snapshots.
- `adding`: the columns that a program adds to event tables, checked.
- `journal`: when operations take effect: scheduled changes, operations that a resumed build skips,
  transactions of a provider.
- `ingest`, `provider_runner`: put the batches of a trace, or its events through a provider, into a
  builder.
- `directory/`: a history on disk.
- `lanes`, `finishing`: which lanes can be drawn; from the contents to the finished history.
- `segment`, `pyramid`, `late`, `reorder`: the layout of changes, and changes that arrive out of
  order.
- `joined`, `joined_tables`, `retimed`: several histories as one, and one whose clock drifts.
- `extremes`: the least and the greatest integer of each attribute, from which lanes follow without
  reading changes.
- `overview`: the sums of wide bins, as a segment.
- `shares`, `grouped_shares`, `numeric_stats`, `attribute_queries`, `searching`: queries that need
  more than a gather; `interval_filter` has the value and the tag that a search is for.
- `state_lengths`: states whose lengths are counted where they are kept, without making intervals;
  `added_lengths` adds up those that segments keep of earlier questions, `segment_lengths`.
- `spans`, `samples`, `results`, `tables`: the event tables; `merging` makes one of blocks of rows,
  some at a time; `argument_texts` reads the arguments of many rows in windows of their source.
- `damage`: replaces a segment that cannot be read by what is known of it: the next intact one says
  which attributes have changed, and the rest has no state.

`HistoryBuilder` is one class under its public name, and no other class forwards to it. Operations
that only readers and providers need (`put_codes`, `end_states`, `begin_event`) are methods that
the reference omits, or belong to its parts `contents` and `journal`. The journal knows neither the
store nor the directory, so scheduled changes and resuming can be understood separately.

A finished history has no reference to its builder, and a closed builder is in no reference cycle:
its buffers are larger than most histories, and the garbage collector counts objects, not bytes, so
it would let them accumulate.

No module imports itself through others, not even for types or inside functions. Where two modules
need each other, the lower one declares a protocol of what it needs: `Source`, `Sink`,
`structures.Building`, `attribute_queries.StateQueries`.
"""

from typing import TYPE_CHECKING

from meantime.lazy_names import imported_on_use

if TYPE_CHECKING:
    from meantime.history.builder import HistoryBuilder
    from meantime.history.history import History
    from meantime.history.ingest import build
    from meantime.history.lanes import Lane
    from meantime.history.results import (
        Flows,
        Interval,
        IntervalBatches,
        Intervals,
        Points,
        Sample,
    )
    from meantime.history.shares import Shares
    from meantime.history.structures import AttributePool, AttributeQueue
    from meantime.history.tiles import CounterTile, StateTile

__all__ = [
    "AttributePool",
    "AttributeQueue",
    "CounterTile",
    "Flows",
    "History",
    "HistoryBuilder",
    "Interval",
    "IntervalBatches",
    "Intervals",
    "Lane",
    "Points",
    "Sample",
    "Shares",
    "StateTile",
    "build",
]

_HOMES = {
    "AttributePool": "structures",
    "AttributeQueue": "structures",
    "CounterTile": "tiles",
    "Flows": "results",
    "History": "history",
    "HistoryBuilder": "builder",
    "Interval": "results",
    "IntervalBatches": "results",
    "Intervals": "results",
    "Lane": "lanes",
    "Points": "results",
    "Sample": "results",
    "Shares": "shares",
    "StateTile": "tiles",
    "build": "ingest",
}


if not TYPE_CHECKING:
    # Hidden from type checkers: they would accept any name as an attribute of this module.
    __getattr__ = imported_on_use(__name__, _HOMES)
