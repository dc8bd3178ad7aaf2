"""Which hosts are unlike the rest: faults that are put in are found, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from meantime.cli import main
from meantime.errors import UsageError
from meantime.history.grouped_shares import GroupedShares
from meantime.query.hosts import compare_hosts
from meantime.testing import history_from_picture

if TYPE_CHECKING:
    from pathlib import Path

BINS, BIN_NS = 120, 10**9
STATES = ("idle", "user", "system", "wait")
SHARES = (0.5, 0.3, 0.15, 0.05)


def steady(seed: int, hosts: int) -> np.ndarray:
    """Return shares by host, bin and state that differ only by chance."""
    random = np.random.default_rng(seed)
    return random.dirichlet(np.array(SHARES) * 20, size=(hosts, BINS))


def with_more(shares: np.ndarray, host: int | slice, bins: slice, state: str, by: float) -> None:
    """Give a host more of a state in some bins, and less of all others."""
    shares[host, bins] *= 1 - by
    shares[host, bins, STATES.index(state)] += by


def grouped(shares: np.ndarray) -> GroupedShares:
    ns = np.round(shares * BIN_NS).astype(np.int64)
    group, part, code = (each.astype(np.int32) for each in np.nonzero(ns))
    return GroupedShares(
        np.arange(BINS + 1) * BIN_NS,
        [f"h{host:03}" for host in range(len(ns))],
        np.ones(len(ns), np.int64),
        group,
        part,
        code,
        [(1, state) for state in STATES],
        ns[group, part, code],
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("hosts", [4, 20])
def test_nothing_is_reported_of_steady_hosts(seed: int, hosts: int) -> None:
    found = compare_hosts({"cpu": grouped(steady(seed, hosts))})

    assert (found.unlike, found.stripes, found.hosts) == ([], [], hosts)
    assert len(found.rows) == hosts * len(STATES)


@pytest.mark.parametrize(
    ("bins", "by", "state"),
    [
        (slice(0, BINS), 0.1, "wait"),
        (slice(70, BINS), 0.15, "wait"),
        (slice(40, 46), 0.9, "system"),
    ],
)
def test_a_host_that_is_unlike_the_others_is_found_with_its_stretch(
    bins: slice, by: float, state: str
) -> None:
    shares = steady(7, 20)
    with_more(shares, 11, bins, state, by)

    found = compare_hosts({"cpu": grouped(shares)})

    assert {row.host for row in found.unlike} == {"h011"}
    assert found.stripes == []
    first = found.unlike[0]
    assert (first.kind, first.state) == ("cpu", state)
    assert first.deviation > 6
    assert abs(first.start_ns - bins.start * BIN_NS) <= 2 * BIN_NS
    assert abs(first.end_ns - bins.stop * BIN_NS) <= 2 * BIN_NS
    assert first.stretch_share - first.stretch_median > by / 2


def test_a_stripe_of_all_hosts_makes_none_of_them_unlike_the_others() -> None:
    shares = steady(3, 20)
    with_more(shares, slice(None), slice(30, 36), "wait", 0.6)
    with_more(shares, 5, slice(80, 100), "system", 0.5)

    found = compare_hosts({"cpu": grouped(shares)})

    assert {row.host for row in found.unlike} == {"h005"}
    stripe = found.stripes[0]
    assert (stripe.state, stripe.hosts) == ("wait", 20)
    assert (stripe.start_ns, stripe.end_ns) == (30 * BIN_NS, 36 * BIN_NS)
    assert stripe.share > 0.5 > stripe.usual


def test_equal_hosts_have_a_spread_so_that_one_unlike_them_has_a_finite_deviation() -> None:
    lines = [*(f"h{host}  {'ab' * 60}" for host in range(9)), f"h9  {'ab' * 30}{'ac' * 30}"]
    shares = history_from_picture("\n".join(lines)).shares("*", bins=60).grouped()

    found = compare_hosts({"": shares})

    assert {(row.host, row.state) for row in found.unlike} == {("h9", "b"), ("h9", "c")}
    assert all(row.start_ns == 60 and abs(row.deviation) < 1000 for row in found.unlike)
    assert all(row.deviation == 0 for row in found.rows if row.host != "h9")
    assert {"host", "deviation"} < found.columns().keys()


def test_hosts_that_were_not_recorded_all_the_time_are_compared_where_they_were() -> None:
    line = "aaabbbbbcc" * 12
    lines = [f"h{host}  {line}" for host in range(7)]
    lines[3] = f"h3  {'.' * 60}{line[60:]}"
    lines[4] = f"h4  {line[:60]}{'.' * 60}"
    shares = history_from_picture("\n".join(lines)).shares("*", bins=60).grouped()

    assert compare_hosts({"": shares}).unlike == []


def test_two_hosts_cannot_be_compared() -> None:
    shares = history_from_picture("a  xxyy\nb  yyxx").shares("*", bins=4).grouped()

    with pytest.raises(UsageError, match="at least 3 hosts with states; there are 2"):
        compare_hosts({"": shares})


def test_the_command_prints_the_slow_host_and_the_hosts_that_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for host in range(5):
        lines = ["aab" * 20 + ("aab" if host != 3 else "aaw") * 20]
        changes = [
            f'{{"time": "{time}", "entity": "disk", "state": {"abw".index(letter)}}}'
            for time, letter in enumerate(lines[0])
        ]
        head = (
            '{"start": [1700000000, 0], "title": "t", "host": "web", "states": {"a": {"value": 0},'
            ' "b": {"value": 1}, "w": {"value": 2}}}'
        )
        (tmp_path / f"h{host}.statemap").write_text("\n".join([head, *changes]))
    (tmp_path / "bad.statemap").write_bytes(b"\x00")
    files = sorted(map(str, tmp_path.glob("*.statemap")))

    with pytest.raises(SystemExit):
        main(["hosts", "--bins", "60", *files])

    printed = capsys.readouterr()
    assert "1 of 5 hosts is unlike the rest" in printed.out
    assert "h3" in printed.out
    assert "not compared" in printed.err
    assert "bad.statemap" in printed.err
    with pytest.raises(SystemExit):
        main(["hosts", "--json", *files[1:4]])
    document = json.loads(capsys.readouterr().out)
    assert (document["hosts"], document["unlike"]) == (3, [])
    with pytest.raises(SystemExit):
        main(["hosts", "--strict", *files])
    assert "bad.statemap" in capsys.readouterr().err
