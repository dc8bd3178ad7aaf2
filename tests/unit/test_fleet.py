"""Traces of many hosts as one: sums, hosts that cannot be read, and processes that die."""

from __future__ import annotations

import json
import logging
import signal
import time
from functools import partial
from itertools import chain
from multiprocessing import active_children
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import meantime
from meantime.cli import main
from meantime.errors import InputError, MeantimeError, UsageError
from meantime.fleet import Fleet, HostAnomaly
from meantime.history import History, HistoryBuilder
from meantime.model.clocks import Clock
from meantime.model.columns import Coded
from meantime.query.durations import span_statistics
from meantime.query.idle_time import idle_ns
from meantime.query.statistics import host_statistics, state_statistics
from meantime.shards import total
from meantime.testing import history_from_picture, history_from_samples, history_from_spans

if TYPE_CHECKING:
    from collections.abc import Iterator


STATES = ["idle", "user", "wait"]
LENGTH_NS = 1_000_000


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the histories of hosts whose clocks began at different times."""
    folder = tmp_path_factory.mktemp("hosts")
    paths = []
    for number in range(5):
        random = np.random.default_rng(number)
        clock = Clock("realtime", utc_at_origin_ns=number * 1000)
        builder = HistoryBuilder(folder / f"h{number}.mth", clock=clock)
        quarks = [builder.quark("CPUs", str(cpu), "Status") for cpu in range(2)]
        builder.lanes("CPUs/*/Status", label="CPU")
        times = np.sort(random.integers(0, LENGTH_NS, 400))
        codes = random.integers(0, 3, 400).astype(np.int32)
        names = STATES[number % 3 :] + STATES[: number % 3]
        builder.modify_many(times, np.array(quarks, np.int32)[codes % 2], Coded(codes, names))
        builder.close(LENGTH_NS)
        paths.append(folder / f"h{number}.mth")
    return paths


def test_answers_of_a_fleet_are_those_of_the_joined_history(hosts: list[Path]) -> None:
    fleet = Fleet(hosts, jobs=1)

    joined = fleet.join().result

    assert [host.name for host in fleet.build().result] == ["h0", "h1", "h2", "h3", "h4"]
    shares = fleet.shares(bins=7).result
    expected = joined.grouped_shares("Hosts/*/CPUs/*/Status", *joined.bounds, 7)
    assert shares.groups == expected.groups
    assert shares.edges_ns.tolist() == expected.edges_ns.tolist()
    assert shares.ns.tolist() == expected.ns.tolist()
    assert shares.value.to_list() == expected.value.to_list()
    by_path = fleet.shares(by="path").result
    assert by_path.groups == ["CPUs/0/Status", "CPUs/1/Status"]
    assert by_path.attributes_of.tolist() == [5, 5]
    statistics = fleet.statistics().result
    assert statistics.rows == state_statistics(joined).rows
    assert statistics.range_ns == joined.bounds
    assert {row.entity for row in fleet.statistics("host").result.rows} == {
        "h0", "h1", "h2", "h3", "h4"
    }  # fmt: skip
    part = fleet.statistics("entity", start=1_000, end=20_000, keep="sketch").result
    assert part.range_ns == (1_000, 20_000)
    assert part.is_sketch


def test_statistics_and_maps_of_a_joined_history_by_host_are_those_of_its_hosts(
    hosts: list[Path],
) -> None:
    fleet = Fleet(hosts, jobs=1)
    joined = fleet.join().result

    assert host_statistics(joined).rows == fleet.statistics("host").result.rows
    options: Any = {"period": 50_000, "rows": 5, "by": "host", "states": ["wait"]}
    both = meantime.heatmap(joined, **options).data, fleet.heatmap(**options).result.data
    by_host = [{name: each.value.tolist() for name, each in one.by.items()} for one in both]
    assert by_host[0] == by_host[1]
    assert [*by_host[0]] == ["h0", "h1", "h2", "h3", "h4"]


def test_the_commands_draw_hosts_in_one_map_and_report_those_that_cannot_be_read(
    hosts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone, pattern = str(tmp_path / "gone.mth"), str(hosts[0].parent / "*.mth")

    def run(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        return ended.value.code, *capsys.readouterr()

    status, _, err = run("statemap", "--hosts", pattern, gone, "-o", str(tmp_path / "map.json"))
    assert status == 0
    assert f"{gone}: there is no such file\n5 of 6 hosts: " in err
    (drawn,) = json.loads((tmp_path / "map.json").read_text())["maps"]
    assert [each["entity"] for each in drawn["rows"]][:3] == [
        "Hosts/h0/CPUs/0",
        "Hosts/h0/CPUs/1",
        "Hosts/h1/CPUs/0",
    ]
    assert run("statemap", "--hosts", pattern, gone, "--strict", "-n")[0] == 1
    page = str(tmp_path / "page.html")
    assert run("view", "--hosts", pattern, gone, "-o", page) == (
        0, "", f"{gone}: there is no such file\n"
    )  # fmt: skip
    lanes = Path(page).read_text().split('id="meantime-lanes-')
    assert len(lanes) == 2
    shown = json.loads(lanes[1].partition(">")[2].partition("</script>")[0])["name"]
    assert shown[:4] == ["CPU", "h0/CPUs/0", "h0/CPUs/1", "h1/CPUs/0"]
    assert len(shown) == 11
    cells = str(tmp_path / "cells.json")
    _, _, err = run("heatmap", "--hosts", pattern, gone, "--period", "100us", "-o", cells)
    assert "left out: gone: there is no such file" in err
    names = ["h0", "h1", "h2", "h3", "h4"]
    assert [*json.loads((tmp_path / "cells.json").read_text())["by"]] == names
    _, out, _ = run("stats", pattern, "--by", "host", "--json")
    found = json.loads(out)
    assert (found["by"], sorted({row["entity"] for row in found["rows"]})) == ("host", names)


def test_processes_give_the_same_as_one(hosts: list[Path]) -> None:
    progress: list[tuple[int, int]] = []
    alone, several = (
        Fleet([*hosts, "none.mth"], jobs=jobs, done=lambda *done: progress.append(done))
        for jobs in (1, 2)
    )

    built = [fleet.build() for fleet in (alone, several)]

    assert built[0] == built[1]
    assert built[0].anomalies[0].host == "none.mth"
    assert progress[-1] == (6, 6)


def test_a_host_that_cannot_be_read_is_an_anomaly_or_fails(
    hosts: list[Path], tmp_path: Path
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(b"\x00\x01 nothing that is read")
    empty = tmp_path / "empty.json"
    empty.write_text("[]")

    found = Fleet([bad, *hosts], jobs=1).shares()
    heatmap = Fleet([bad, *hosts], jobs=1).heatmap(period=100_000, rows=4)

    assert [each.host for each in found.anomalies] == [str(bad)]
    nothing = Fleet([empty, hosts[0]], jobs=1).build()
    assert [each.reason for each in nothing.anomalies] == ["is empty"]
    assert len(found.result.groups) == 10
    assert [each.host for each in heatmap.anomalies] == [str(bad)]
    assert len(heatmap.result.data.sources) == 5
    with pytest.raises(InputError, match=r"bad\.json"):
        Fleet([*hosts, bad], jobs=1, strict=True).shares()
    with pytest.raises(InputError, match=r"bad\.json"):
        Fleet([*hosts, bad], jobs=1, strict=True).heatmap(period=100_000)
    with pytest.raises(InputError, match=r"bad\.json"):
        Fleet([bad], jobs=1).build()


def test_a_host_with_an_unrelated_clock_is_only_in_answers_without_times() -> None:
    inputs = [history_from_picture(f"cpu0  {line}") for line in ("aabb", "abbb")]
    fleet = Fleet(inputs, names=["one", "two"])

    assert fleet.statistics().anomalies == ()
    found = fleet.shares()
    assert [each.host for each in found.anomalies] == ["two"]
    assert found.result.attributes_of.tolist() == [1]
    twice = Fleet(inputs, names=["x", "x"], offsets={1: 2}).shares(by="host")
    assert twice.result.groups == ["x", "x-2"]
    assert twice.anomalies == (HostAnomaly("x-2", "is numbered: another host has its name"),)
    assert Fleet(inputs, assume_aligned=True).shares(by="path").result.cell("cpu0", 0) == {
        "b": 5,
        "a": 3,
    }
    with pytest.raises(InputError, match="cannot be related"):
        Fleet(inputs, strict=True).shares()
    with pytest.raises(UsageError, match="2 hosts and 1 names"):
        Fleet(inputs, names=["x"])
    with pytest.raises(UsageError, match="at least one host"):
        Fleet([])


def test_spans_and_call_trees_of_hosts_add_up() -> None:
    inputs = [history_from_spans({"t": [("a", 0, 10), ("b", 2, 4 + i)]}) for i in range(3)]
    fleet = Fleet(inputs)

    tree, unit = fleet.tree().result
    assert (unit, tree.total.tolist(), tree.own.tolist()) == ("ns", [30, 9], [21, 9])
    whole = history_from_spans({f"t{i}": [("a", 0, 10), ("b", 2, 4 + i)] for i in range(3)})
    found = fleet.statistics("name").result
    assert found.median_ns.tolist() == span_statistics(whole).median_ns.tolist()
    mixed = Fleet([inputs[0], history_from_samples([(0, "t", ["a"], 2)])])
    with pytest.raises(UsageError, match="cannot be added"):
        mixed.tree()


def test_traces_are_built_into_the_cache_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    traces = []
    for number in range(2):
        traces.append(tmp_path / f"{number}.json")
        traces[-1].write_text('[{"ph": "X", "name": "f", "ts": 1, "dur": 5, "pid": 1, "tid": 1}]')

    built = Fleet(traces, jobs=1).build()

    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "meantime").glob("*/manifest*")}
    assert len(kept) == 2
    assert len(Fleet(traces, jobs=1).build().result) == len(built.result) == 2
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


KILL_ONCE = (
    "n if __import__('os').path.exists(path) or open(path, 'x').close() is not None"
    " else __import__('os').kill(__import__('os').getpid(), 9)"
)
KILL_ALWAYS = "n if n < 3 else __import__('os').kill(__import__('os').getpid(), 9)"


def test_a_task_whose_process_was_killed_is_repeated(tmp_path: Path) -> None:
    inputs = [{"n": number, "path": str(tmp_path / "killed")} for number in range(4)]

    found = total(partial(eval, KILL_ONCE), inputs, sum, jobs=2)

    assert (tmp_path / "killed").exists()
    assert (found.value, found.failures) == (6, ())


def test_a_task_whose_process_dies_each_time_is_a_failure() -> None:
    found = total(partial(eval, KILL_ALWAYS), [{"n": 1}, {"n": 3}], sum, jobs=2)

    assert found.value == 1
    assert [each.number for each in found.failures] == [1]
    assert "was killed" in str(found.failures[0].error)


BLOCKED = "[*__import__('signal').pthread_sigmask(0, [])]"


def test_no_process_of_a_task_sees_an_interrupt_which_ends_it_at_once() -> None:
    blocked = total(partial(eval, BLOCKED), [{}, {}], lambda parts: [*chain(*parts)], jobs=2).value
    assert blocked == [signal.SIGINT, signal.SIGINT]

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # not only after an hour
        total(time.sleep, [0, 3600, 3600], len, jobs=2, done=interrupt)
    assert not active_children()


@pytest.mark.parametrize("count", [1, 16, 17, 300])
def test_sums_are_in_the_order_of_the_inputs(count: int) -> None:
    def added(parts: Any) -> list[int]:
        return [each for part in parts for each in part]

    found = total(lambda number: [number], list(range(count)), added, jobs=1)

    assert found.value == list(range(count))


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason="the extra [fleet] is not installed")
    options = {"processes": False, "dashboard_address": ":0", "worker_dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, **options) as cluster,
        distributed.Client(cluster, set_as_default=False) as connected,
    ):
        yield connected


def test_workers_of_a_cluster_give_the_same_as_this_machine(hosts: list[Path], client: Any) -> None:
    here, there = (Fleet([*hosts, "none.mth"], each, jobs=1) for each in (None, client))

    assert there.statistics().result == here.statistics().result
    assert there.shares(bins=5).result.ns.tolist() == here.shares(bins=5).result.ns.tolist()
    assert there.shares().anomalies == here.shares().anomalies
    maps = [fleet.heatmap(period=50_000, rows=5).result.data for fleet in (here, there)]
    assert maps[0].total.value.tolist() == maps[1].total.value.tolist()
    assert [each.name for each in maps[0].sources] == [each.name for each in maps[1].sources]


def test_a_cluster_without_workers_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra [fleet] is not installed")
    monkeypatch.setattr("meantime.shards._ASK_S", 0.05)
    options = {"processes": False, "dashboard_address": ":0"}

    with (
        distributed.LocalCluster(n_workers=0, **options) as cluster,
        distributed.Client(cluster, set_as_default=False) as connected,
        pytest.raises(MeantimeError, match="has no workers any more"),
    ):
        total(str, [1, 2], "".join, client=connected)


def test_only_the_task_that_kills_its_workers_is_given_up(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra [fleet] is not installed")
    dask = pytest.importorskip("dask")
    # the scheduler gives up all that a worker was to do when it dies
    settings = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.deploy.lost-worker-timeout": "300s",
    }
    kill = "n if n != 2 else __import__('os').kill(__import__('os').getpid(), 9)"
    options = {"dashboard_address": None, "silence_logs": logging.CRITICAL}

    with (
        dask.config.set(settings),
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, **options) as cluster,
        distributed.Client(cluster, set_as_default=False) as connected,
    ):
        inputs = [{"n": number} for number in range(6)]
        found = total(partial(eval, kill), inputs, sum, client=connected)
        once = [{"n": 3, "path": str(tmp_path / "killed")}]
        alone = total(partial(eval, KILL_ONCE), once, sum, client=connected)

    assert (alone.value, alone.failures) == (3, ())
    assert found.value == 0 + 1 + 3 + 4 + 5
    assert [each.number for each in found.failures] == [2]


def test_a_scheduler_that_does_not_answer_is_reported() -> None:
    pytest.importorskip("distributed", reason="the extra [fleet] is not installed")

    with pytest.raises(MeantimeError, match="no dask scheduler answers there"):
        Fleet(["x"], client="nowhere")


def test_the_slow_host_is_found() -> None:
    inputs = []
    for number in range(6):
        line = "aab" * 40 if number != 4 else "aab" * 20 + "aaw" * 20
        # few of them go on for longer: of a joined history, too, where half have ended is the end
        inputs.append(history_from_picture(f"cpu0  {line}{'aab' * 9 * (number == 5)}"))

    found = Fleet(inputs, names=list("uvwxyz"), assume_aligned=True).compare(bins=60).result

    assert {row.host for row in found.unlike} == {"y"}
    assert 60 <= found.unlike[0].start_ns <= 62
    joined = meantime.join(inputs, list("uvwxyz"), offsets=dict.fromkeys(range(6), 0))
    assert Fleet([joined]).compare(bins=60).result == found
    slow = meantime.findings(joined)
    assert [(each.kind, each.rows) for each in slow] == [("unlike", ("Hosts/y/cpu0",))]
    assert "'w' for 34% of 58 ns; the median of 6 hosts is 0%" in slow[0].sentence
    steady = meantime.join(inputs[:4], list("uvwx"), offsets=dict.fromkeys(range(4), 0))
    assert meantime.findings(steady) == []


def ranks(seed: int, idle_ns: list[int]) -> list[meantime.History]:
    """Return training jobs: each step computes, communicates, and then idles for about so long."""
    random = np.random.default_rng(seed)
    made = []
    for least_ns in idle_ns:
        spans, time_ns = [], 0
        while time_ns < 60_000:
            for name, length_ns, gap_ns in (("compute", 600, 0), ("all_reduce", 300, least_ns)):
                end_ns = time_ns + length_ns + int(random.integers(0, 50))
                spans += [(name, time_ns, end_ns), ("kernel", time_ns, time_ns + 20)]
                time_ns = end_ns + gap_ns + int(random.integers(0, 50))
        made.append(history_from_spans({"main": spans}))
    return made


def test_a_rank_that_only_idles_more_is_found() -> None:
    compared = [
        Fleet(ranks(seed, idle_ns), names=list("uvwxyz"), assume_aligned=True).compare(bins=40)
        for seed, idle_ns in enumerate([[100] * 6, [100, 100, 100, 300, 100, 100]])
    ]

    alike, unlike = (each.result for each in compared)
    assert (alike.unlike, alike.stripes) == ([], [])
    assert {row.host for row in unlike.unlike} == {"x"}
    first = unlike.unlike[0]
    assert (first.state, first.unlike) == ("idle", "range")
    assert first.share > first.median + 0.05
    of_host = [row.share for row in unlike.rows if row.host == "x"]
    assert sum(of_host) == pytest.approx(1)


def test_time_between_spans_is_idle_except_where_events_were_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spans = {"main": [("a", 10, 20), ("b", 12, 15), ("a", 90, 100)], "other": [("a", 0, 30)]}
    hosts = [history_from_spans(spans) for _ in range(2)]
    # of the first one only, also when it is joined
    lost = {id(hosts[0]): [(15, 25), (40, 50), (45, 60), (85, 120)]}
    monkeypatch.setattr(History, "lost", property(lambda history: lost.get(id(history), [])))
    joined = meantime.join(hosts, ["one", "two"], offsets={0: 0, 1: 5})
    edges_ns = np.array([0, 50, 110])

    found = idle_ns(joined, joined.quarks("Hosts/*/**/Stack/0"), edges_ns, lambda path: path[1])

    assert {name: ns.tolist() for name, ns in found.items()} == {"one": [15, 25], "two": [25, 45]}
