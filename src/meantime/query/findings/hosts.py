"""Hosts of a joined history that are unlike the rest, by the test of `meantime.query.hosts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.history.host_parts import host_parts
from meantime.model.attribute_paths import host_and_path
from meantime.model.units import rounded_ns
from meantime.query import HOST_BINS
from meantime.query.findings.finding import Finding
from meantime.query.host_shares import common_range, shares_of_hosts
from meantime.query.hosts import LEAST_HOSTS, compare_hosts
from meantime.query.sentences import FILE, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.query.hosts import HostShare
    from meantime.query.scope import Scope

__all__ = ["unlike_hosts"]

_MOST_ROWS = 100


def unlike_hosts(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each host that is unlike the others: the state that costs it most."""
    common = common_range([part.bounds for part in host_parts(scope.history)])
    first_ns, last_ns = max(scope.start_ns, common[0]), min(scope.end_ns, common[1])
    if first_ns >= last_ns:
        return
    shares = shares_of_hosts(scope.history, "", (first_ns, last_ns), HOST_BINS)
    hosts = {host for each in shares.values() for host in each.groups}
    if len(hosts) < LEAST_HOSTS:
        return
    worst: dict[str, HostShare] = {}
    for row in compare_hosts(shares).unlike:
        known = worst.get(row.host)
        if known is None or _more_ns(row) > _more_ns(known):
            worst[row.host] = row
    rows = _rows(scope, {*worst})
    for host, row in worst.items():
        more_ns = _more_ns(row)
        yield Finding(
            "unlike",
            f"{host} was in state {row.state!r} for {row.stretch_share:.0%} of"
            f" {rounded_ns(row.end_ns - row.start_ns)}; the median of"
            f" {counted(len(hosts), 'host')} is {row.stretch_median:.0%}",
            abs(more_ns),
            ((row.start_ns, row.end_ns),),
            1,
            tuple(rows.get(host, ())),
            arguments=("hosts", FILE, *scope.options()),
        )


def _more_ns(row: HostShare) -> int:
    """Return how much longer than the median a host was in a state in its stretch."""
    return round((row.stretch_share - row.stretch_median) * (row.end_ns - row.start_ns))


def _rows(scope: Scope, hosts: set[str]) -> dict[str, list[str]]:
    """Return the first paths with states of some hosts."""
    found: dict[str, list[str]] = {}
    for kind in scope.kinds:
        for quark in kind.quarks.tolist():
            host = host_and_path(scope.history.attributes.path(quark))[0]
            if host in hosts and len(found.setdefault(host, [])) < _MOST_ROWS:
                found[host].append(scope.path(quark))
    return found
