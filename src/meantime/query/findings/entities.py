"""Entities that spend their time unlike the others of their kind.

Of a kind with at least `_FEWEST` entities, the share of each state is compared among them. If, in
all states, nine in ten are within `_ALIKE` of the median, they are alike. One that is then further
from it than `_APART`, and than `_DEVIATIONS` robust standard deviations, is unlike them. Such a
deviation is 1.4826 times the median absolute deviation; for a single value, 3.5 is a common limit
(Iglewicz and Hoaglin, 1993), and 10 allows for many values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.columns import named
from meantime.query.findings.finding import Finding
from meantime.query.sampled_states import has_sampled_states, with_sampled_states
from meantime.query.scope import Scope
from meantime.query.sentences import FILE, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.query.scope import Kind

__all__ = ["unlike_entities"]

_FEWEST, _MOST = 10, 2**18
_MOST_SAMPLES = 2**20
_ALIKE, _APART = 0.1, 0.3
_DEVIATIONS = 10.0
_NORMAL = 1.4826
# A share says something about an entity only if it changed this often.
_FEWEST_CHANGES = 20


def unlike_entities(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each state of which a few entities have much more or less."""
    history = scope.history
    if has_sampled_states(history) and len(history.samples()) <= _MOST_SAMPLES:
        # of sampled threads, only the samples show what each was doing
        scope = Scope(with_sampled_states(history), (scope.start_ns, scope.end_ns))
    for kind in scope.kinds:
        if not kind.short_lived and _FEWEST <= len(kind.quarks) <= _MOST:
            yield from _of_kind(scope, kind)


def _of_kind(scope: Scope, kind: Kind) -> Iterator[Finding]:
    shares = scope.history.shares(kind.quarks, scope.start_ns, scope.end_ns)
    value = named(shares.value)
    changes = np.zeros(len(kind.quarks), np.int64)
    changes[np.searchsorted(kind.quarks, shares.changes_quark)] = shares.changes
    if float(np.median(changes)) < _FEWEST_CHANGES:
        return
    row = np.searchsorted(kind.quarks, shares.quark)
    best: tuple[float, Finding] | None = None
    for code, name in enumerate(value.names):
        share = np.zeros(len(kind.quarks))
        of_state = value.codes == code
        share[row[of_state]] = shares.ns[of_state] / scope.length_ns
        median = float(np.median(share))
        apart = share - median
        spread = _NORMAL * float(np.median(np.abs(apart)))
        if np.count_nonzero(np.abs(apart) <= _ALIKE) < 0.9 * len(share):
            # this kind consists of different things
            return
        unlike = np.flatnonzero(np.abs(apart) > max(_APART, _DEVIATIONS * spread))
        if not len(unlike):
            # this kind consists of different things
            return
        unlike = unlike[np.argsort(-np.abs(apart[unlike]), kind="stable")]
        lost = float(np.abs(apart[unlike]).max())
        first = int(unlike[0])
        names = listed([scope.called(int(kind.quarks[index]), kind) for index in unlike.tolist()])
        plural = len(unlike) > 1
        text = (
            f"{names} {'were' if plural else 'was'} in state {name!r}"
            f" {'up to ' if plural and apart[first] > 0 else ''}{share[first]:.0%} of the time;"
            f" the other {len(share) - len(unlike):,} about {median:.0%}"
        )
        finding = Finding(
            "unlike",
            text,
            int(lost * scope.length_ns),
            ((scope.start_ns, scope.end_ns),),
            len(unlike),
            tuple(scope.path(int(kind.quarks[index])) for index in unlike[:100].tolist()),
            arguments=("stats", FILE, "--by", "entity", *scope.options()),
        )
        if best is None or lost > best[0]:
            best = lost, finding
    # more of one state is less of another: only the state that differs most is reported
    if best is not None:
        yield best[1]
