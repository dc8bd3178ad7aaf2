"""Samples with the name of their process or thread as the outermost frame of their stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.history.samples import SampleTable
from meantime.model.columns import Coded, Interner, distinct
from meantime.model.stacks import NO_STACK, StackTable
from meantime.query.threads import thread_of

if TYPE_CHECKING:
    from meantime.history.history import History
    from meantime.model.columns import Int64s

__all__ = ["sample_names", "with_roots"]


def sample_names(history: History, samples: SampleTable) -> Coded:
    """Return the name of each sample's thread at that time, otherwise of the thread or process.

    The code of a sample is -1 if none of these has a name.
    """
    names: list[str] = []
    code = Interner(names).code
    own = samples.name
    code_of = np.full(len(own.names) + 1, -1, np.int32)
    for used in distinct(own.codes[own.codes >= 0]).tolist():
        code_of[used] = code(own.names[used])
    codes = code_of[own.codes]
    nameless = own.codes < 0
    threads, at = np.unique(samples.thread[nameless], return_inverse=True)
    code_of_thread = np.full(len(threads), -1, np.int32)
    for index, quark in enumerate(threads.tolist()):
        whose = thread_of(history, quark)
        name = whose.name or whose.process
        if name:
            code_of_thread[index] = code(name)
    codes[nameless] = code_of_thread[at]
    return Coded(codes, names)


def with_roots(samples: SampleTable, roots: Coded) -> SampleTable:
    """Return samples whose stacks begin with a name; a sample without a stack is in it alone.

    >>> from meantime.testing import history_from_samples
    >>> history = history_from_samples([(0, "t", ["a"], 2), (1, "t", ["a", "b"], 3)])
    >>> roots = Coded(np.array([0, 1], np.int32), ["x", "y"])
    >>> found = with_roots(history.samples(), roots)
    >>> [found.stacks.frames_of(stack) for stack in found.stack.tolist()]
    [['x', 'a'], ['y', 'a', 'b']]

    Args:
        samples: The samples.
        roots: The name of each; stacks of samples with code -1 are unchanged.
    """
    table = samples.stacks
    # A node is a stack below a name: `name * width + stack + 1`, and + 0 for the name alone.
    width = len(table) + 1
    name = np.where(roots.codes < 0, len(roots.names), roots.codes).astype(np.int64)
    leaf = name * width + samples.stack + 1
    nodes = _with_callers(distinct(leaf), table, width)
    whose, stack = np.divmod(nodes, width)
    stack -= 1
    # Samples without a name and without a stack are in no node.
    is_node = (whose < len(roots.names)) | (stack >= 0)
    nodes, whose, stack = nodes[is_node], whose[is_node], stack[is_node]
    is_named = stack < 0
    caller = np.append(table.parent, NO_STACK)[stack]
    parent = np.searchsorted(nodes, whose * width + caller + 1)
    parent[is_named | ((caller < 0) & (whose == len(roots.names)))] = NO_STACK
    frame = np.where(is_named, whose + len(table.frames), np.append(table.frame, 0)[stack])
    row = np.searchsorted(nodes, leaf)
    row[(roots.codes < 0) & (samples.stack < 0)] = NO_STACK
    return SampleTable(
        time_ns=samples.time_ns,
        thread=samples.thread,
        stack=row.astype(np.int32),
        weight=samples.weight,
        event=samples.event,
        name=samples.name,
        cpu=samples.cpu,
        stacks=StackTable(
            parent.astype(np.int32), frame.astype(np.int32), [*table.frames, *roots.names]
        ),
        units=samples.units,
    )


def _with_callers(nodes: Int64s, table: StackTable, width: int) -> Int64s:
    """Return nodes and those of all their callers, ascending, so that callers come first."""
    parents = table.parent.tolist()
    found: set[int] = set()
    for leaf in nodes.tolist():
        node = leaf
        first, stack = node - node % width, node % width
        while node not in found:
            found.add(node)
            if not stack:
                break
            stack = parents[stack - 1] + 1
            node = first + stack
    return np.array(sorted(found), np.int64)
