"""Flow events as links: from the latest departure of a flow to each arrival.

Version 1: s begins a flow, t continues it, f ends it; flows are distinguished by category, name and
id. Version 2: a `bind_id` flows out of one span and into another. A flow binds to the thread and
time of its event; queries find the span there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels import gather
from meantime.kernels.chrome import FLOW_IN, FLOW_OUT
from meantime.model.trace import Flows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.model.columns import Int32s
    from meantime.model.trace import Batch
    from meantime.readers.chrome.records import Records

__all__ = ["read_flows"]


def read_flows(records: Records) -> Iterator[Batch]:
    """Yield the links of both versions."""
    steps = records.of("stf")
    if len(steps.time_ns):
        key, _ = gather.numbered_rows(steps.category, steps.name, steps.id)
        yield from _links(steps, key, steps.phase != ord("f"), steps.phase != ord("s"))
    bound = records.of("XB")
    if len(bound.time_ns):
        leaves = (bound.flags & FLOW_OUT) != 0
        arrives = (bound.flags & FLOW_IN) != 0
        yield from _links(bound, gather.numbered_rows(bound.id)[0], leaves, arrives)


def _links(
    records: Records,
    key: Int32s,
    leaves: npt.NDArray[np.bool_],
    arrives: npt.NDArray[np.bool_],
) -> Iterator[Batch]:
    # stable, so that the rows of a flow stay in order of time
    rows = gather.in_rows(key, int(key.max(initial=-1)) + 1)
    key, leaves, arrives = key[rows], leaves[rows], arrives[rows]
    # the latest departure before each row, without its own; the group's key is compared below
    latest = np.maximum.accumulate(np.where(leaves, np.arange(len(rows)), -1))
    before = np.concatenate([[-1], latest[:-1]])
    linked = arrives & (before >= 0)
    linked[linked] &= key[before[linked]] == key[linked]
    origin = before[linked]
    followed = np.zeros(len(rows), np.bool_)
    followed[origin] = True
    anomalies = records.trace.anomalies
    anomalies.add("flow_without_begin", int(np.count_nonzero(arrives & ~linked)))
    anomalies.add("flow_without_end", int(np.count_nonzero(leaves & ~followed & ~linked)))
    if linked.any():
        yield Flows(
            from_entity=records.entities.threads(records.thread[rows[origin]]),
            from_ns=records.time_ns[rows[origin]],
            to_entity=records.entities.threads(records.thread[rows[linked]]),
            to_ns=records.time_ns[rows[linked]],
            name=records.name[rows[linked]],
        )
