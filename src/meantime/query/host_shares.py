"""Shares of the time of hosts in states, by kind of entity: what hosts are compared by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.history.grouped_shares import added_shares
from meantime.model.attribute_paths import HOSTS, host_and_path
from meantime.query.idle_time import IDLE, idle_ns
from meantime.query.sampled_states import with_sampled_states

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.grouped_shares import GroupedShares
    from meantime.history.history import History
    from meantime.history.lanes import Lane
    from meantime.model.attributes import Path
    from meantime.model.columns import Int32s

__all__ = ["common_range", "shares_of_hosts"]

_ON_ANY_HOST = f"{HOSTS}/*/"


def common_range(bounds: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the range from where half of the hosts have begun to where half of them have ended.

    >>> common_range([(0, 90), (10, 100), (20, 100)])
    (10, 100)

    Args:
        bounds: The range that each host covers, at least one.
    """
    middle = (len(bounds) - 1) // 2
    first_ns = sorted(start for start, _ in bounds)[middle]
    last_ns = sorted(end for _, end in bounds)[middle]
    return first_ns, max(last_ns, first_ns + 1)


def shares_of_hosts(
    history: History, name: str, range_ns: tuple[int, int], bins: int
) -> dict[str, GroupedShares]:
    """Return the shares of each kind of entity, of which a host is a group.

    Of a joined history each of its hosts is one. Without states the outermost spans count, by their
    names, and the time between the spans of a lane is `idle`. Without these, too, there are none.

    Args:
        history: The history.
        name: The name of the host that it is of, if it is not joined.
        range_ns: The range, in its times.
        bins: The number of bins.
    """
    history = with_sampled_states(history)
    found: dict[str, list[GroupedShares]] = {}

    def key(path: Path) -> str:
        return host_and_path(path)[0] or name

    for declaration, quarks in _compared(history):
        for kind, own in _kinds(history, declaration.name, quarks).items():
            shares = history.grouped_shares(own, *range_ns, bins, key)
            if declaration.kind == "stack":
                idle = idle_ns(history, own, shares.edges_ns, key)
                shares = shares.with_state(IDLE, np.array([idle[name] for name in shares.groups]))
            found.setdefault(kind, []).append(shares)
    return {kind: added_shares(parts) for kind, parts in found.items()}


def _compared(history: History) -> list[Lane]:
    """Return the lanes of states; without any, those of spans, with their outermost attributes."""
    lanes = [each for each in history.lanes if len(each.quarks)]
    states = [each for each in lanes if each.declaration.kind == "state"]
    if states:
        return states
    spans = []
    for each in lanes:
        if each.declaration.kind == "stack":
            found = [history.attributes.find("0", parent=quark) for quark in each.quarks.tolist()]
            outermost = [quark for quark in found if quark is not None]
            spans.append(each._replace(quarks=np.array(outermost, np.int32)))
    return spans


def _kinds(history: History, name: str, quarks: Int32s) -> dict[str, Int32s]:
    """Return attributes by kind: of a joined history, what their lanes are called on a host."""
    while name.startswith(_ON_ANY_HOST):  # the lane has no other name than its pattern
        name = name.removeprefix(_ON_ANY_HOST)
    kinds: dict[str, list[int]] = {}
    for quark in quarks.tolist():
        host, _ = host_and_path(history.attributes.path(quark))
        kind = name.removesuffix(", not aligned").removesuffix(f" of {host}") if host else name
        kinds.setdefault(kind, []).append(quark)
    return {kind: np.array(own, np.int32) for kind, own in kinds.items()}
