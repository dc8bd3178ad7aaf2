"""What experts conclude from real traces, worked out without meantime."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.query.explain import explain
from meantime.query.explain.lanes import TimeClass

if TYPE_CHECKING:
    from meantime.query.explain import Conclusion, Explanation

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT.parent / "shared" / "data"
KINETO = "chrome-json/kineto/"


@cache
def _explained(path: str, activity: str | None = None) -> Explanation:
    where = ROOT if path.startswith("examples/") else RECORDINGS
    return explain(meantime.open(where / path), activity)


def _measure(found: Explanation, name: str) -> Conclusion:
    return next(each for each in found.measures if each.id == name)


def _parts(path: str, name: str) -> dict[str, Any]:
    return _measure(_explained(path), name).parts


def _notable(path: str) -> set[str]:
    return {each.id for each in _explained(path).measures if each.is_notable}


def _of_class(found: Explanation, kind: TimeClass, label: str | None = None) -> int:
    return sum(
        row.total_ns for row in found.budget.rows if row.kind is kind and label in {None, row.label}
    )


def _by(parts: dict[str, Any]) -> dict[str, int]:
    return {each["name"]: each["ns"] for each in parts["by"]}


def _us(time_ns: float) -> float:
    return time_ns / 1000


def test_how_long_a_gpu_is_idle_and_why() -> None:
    idle = _measure(_explained(KINETO + "nccl_data.json.gz"), "gpu.idle")
    begin, end = idle.parts["range_ns"]
    assert idle.value_ns is not None
    assert _us(idle.value_ns) == pytest.approx(503050.9, rel=0.005)
    assert _us(end - begin) == pytest.approx(660551.0, rel=0.005)
    assert _us(idle.parts["host_not_launched"]) == pytest.approx(471913.0, rel=0.01)
    assert _us(idle.parts["in_the_launch_call"]) == pytest.approx(25466.6, rel=0.01)
    assert _us(idle.parts["launched_not_begun"]) == pytest.approx(5671.4, rel=0.01)
    assert {
        name: [round(_us(value)) for value in values]
        for name, values in idle.parts["steps"].items()
    } == {
        "ProfilerStep#4": [173003, 222442],
        "ProfilerStep#5": [169998, 219727],
        "ProfilerStep#6": [166604, 224936],
    }


def test_how_much_communication_is_exposed() -> None:
    parts = _parts(KINETO + "nccl_data.json.gz", "gpu.exposed_communication")
    assert _us(parts["communication_ns"]) == pytest.approx(46876.5, rel=0.01)
    assert _us(parts["overlapped_ns"]) == pytest.approx(7317.0, rel=0.01)
    assert _us(parts["exposed_ns"]) == pytest.approx(39559.5, rel=0.01)
    parts = _parts(KINETO + "sampled_rank-0.json.gz", "gpu.exposed_communication")
    assert _us(parts["exposed_ns"]) == pytest.approx(336983, rel=0.01)
    assert _us(parts["communication_ns"]) == pytest.approx(396199, rel=0.01)


def test_how_many_kernels_are_short() -> None:
    parts = _parts(KINETO + "nccl_data.json.gz", "gpu.short_kernels")
    assert (parts["short"], parts["all"]) == (2208, 3774)


def test_a_gpu_that_is_fed_is_the_limit() -> None:
    path = KINETO + "rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"
    found = _explained(path)
    idle = _measure(found, "gpu.idle")
    assert idle.value_ns is not None
    assert _us(idle.value_ns) == pytest.approx(7566.8, rel=0.01)
    assert _us(idle.parts["launched_not_begun"]) == pytest.approx(5827.8, rel=0.01)
    waits = _measure(found, "host.waits_for_gpu")
    assert waits.value_ns is not None
    assert _us(waits.value_ns) == pytest.approx(89171.6, rel=0.01)
    assert "cudaDeviceSynchronize" in waits.sentence
    assert _notable(path) == {"gpu.full"}


def test_the_first_launch_is_told_from_an_idle_gpu() -> None:
    found = _explained(KINETO + "benchmark_result_493459_1694039959_trace.json.gz")
    idle, launch = _measure(found, "gpu.idle"), _measure(found, "host.longest_launch")
    assert idle.value_ns is not None
    assert _us(idle.value_ns) == pytest.approx(15975817, rel=0.005)
    assert launch.is_notable
    assert launch.value_ns == pytest.approx(4.22e9, rel=0.005)


def test_copies_from_pageable_memory() -> None:
    parts = _parts(KINETO + "benchmark_result_2869224_1695835535_trace.json.gz", "gpu.copies")
    assert _us(parts["pageable_ns"]) == pytest.approx(55503, rel=0.01)
    assert _us(parts["busy_ns"]) == pytest.approx(66141, rel=0.01)


def test_the_longest_idle_time_of_a_gpu() -> None:
    longest = _measure(
        _explained(KINETO + "mi250_minitoy_train_ROCm6_2_kineto.json.gz"), "gpu.longest_idle"
    )
    assert longest.value_ns is not None
    assert _us(longest.value_ns) == pytest.approx(6633, rel=0.01)
    assert "vectorized_elementwise" in longest.sentence
    assert "in the call that launched it" in longest.sentence


def test_a_gpu_that_waits_for_the_first_launch() -> None:
    idle = _measure(_explained(KINETO + "event_sync_trace.json.gz"), "gpu.idle")
    assert idle.value_ns is not None
    assert _us(idle.value_ns) == pytest.approx(19134, rel=0.01)
    assert _us(idle.value_ns - idle.parts["host_not_launched"]) == pytest.approx(89, abs=1)


def test_saturated_cpus() -> None:
    for path, run_s, mean in (
        ("examples/sched.perf.gz", 0.8, 10.7),
        ("perf-script/recorded/multi.txt.gz", 6.055, 11.2),
    ):
        full = _measure(_explained(path), "cpu.full")
        assert full.is_notable
        assert full.parts["capacity"] == 2
        assert full.parts["busy_ns"] == pytest.approx(run_s * 1e9, rel=0.01)
        assert full.parts["ready_mean"] == pytest.approx(mean, rel=0.05)


def test_the_longest_time_from_ready_to_running() -> None:
    longest = _parts("perf-script/recorded/multi.txt.gz", "cpu.latency")["longest"]
    assert longest["name"] == "apt-cache (9111)"
    assert longest["ns"] == pytest.approx(139.77e6, rel=0.01)


def test_the_budget_of_a_thread() -> None:
    found = _explained("examples/sched.perf.gz", "5951")
    assert _of_class(found, TimeClass.WORK) == pytest.approx(130.1e6, rel=0.005)
    assert _of_class(found, TimeClass.READY) == pytest.approx(269.9e6, rel=0.005)


def test_a_thread_on_a_cpu_does_not_wait() -> None:
    found = _explained("examples/lock.ftrace.gz")
    assert not [each for each in found.sentences if "in state" in each or "CPU 1" in each]


def test_what_threads_wait_for() -> None:
    found = _explained("examples/postgres.statemap.gz")
    assert _of_class(found, TimeClass.IDLE, "poll") == pytest.approx(4.975e9, rel=0.005)
    assert _of_class(found, TimeClass.READY, "CPU") == pytest.approx(1.932e9, rel=0.005)
    assert _of_class(found, TimeClass.WORK) == pytest.approx(1.147e9, rel=0.005)
    assert _of_class(found, TimeClass.WAIT, "lock") == pytest.approx(0.241e9, rel=0.005)
    assert _of_class(found, TimeClass.WAIT, "disk") == pytest.approx(0.208e9, rel=0.005)


def test_waits_for_a_disk() -> None:
    parts = _parts("statemap/recorded/pg-threads.statemap.gz", "disk.waits")
    assert parts["total_ns"] == pytest.approx(0.918e9, rel=0.01)
    assert parts["somebody_waits"] == pytest.approx(0.208, abs=0.002)
    assert parts["longest"]["ns"] == pytest.approx(2.9e6, rel=0.01)
    assert parts["most_at_once"] == 5


def test_a_disk_with_two_requests_is_not_saturated() -> None:
    found = _explained("statemap/recorded/block.statemap")
    assert found.conclusions == ()
    shares = {row.label: row.share for row in found.budget.rows}
    known = found.budget.total_ns
    at_most_2 = 1 - sum(shares.get(name, 0) for name in ("3 I/Os", "4-7 I/Os", "8-15 I/Os"))
    assert known > 0
    assert at_most_2 == pytest.approx(0.96, abs=0.01)


def test_a_cpu_that_is_idle_a_third_of_the_time_is_not_full() -> None:
    found = _explained("statemap/recorded/cpu-idle.statemap.gz")
    (cpu,) = found.resources
    assert cpu.utilisation == pytest.approx(0.645, abs=0.002)
    assert found.conclusions == ()


def test_the_critical_path_of_requests() -> None:
    path = "inputs/zipkin/recorded/shop.zipkin.json.gz"
    parts = _parts(path, "services.path")
    assert (parts["request"], parts["requests"]) == ("GET /order/2", 22)
    assert parts["total_ns"] == pytest.approx(1485.066e6, rel=0.005)
    by: dict[str, int] = {}
    for name, time_ns in _by(parts).items():
        own = name.partition(" (")[0]
        by[own] = by.get(own, 0) + time_ns
    assert by["orders GET /reserve"] == pytest.approx(1077.339e6, rel=0.005)
    assert by["orders SELECT orders"] == pytest.approx(113.532e6, rel=0.005)
    assert by["gateway GET /orders/2"] == pytest.approx(68.753e6, rel=0.005)


def test_why_the_slowest_request_was_slow() -> None:
    slow = _measure(_explained("inputs/zipkin/recorded/shop.zipkin.json.gz"), "services.slow")
    assert slow.sentence == (
        "The slowest GET /order/2 took 1.04 s, usually 22.1 ms: 1.02 s more waiting for orders GET"
        " /reserve (connecting or queueing)."
    )


def test_critical_paths_add_up() -> None:
    jaeger = "inputs/jaeger/jaeger-ui/"
    by = _by(_parts(jaeger + "genaiTestTrace.json", "services.path"))
    assert by["graphql-gateway graphql.execution"] == pytest.approx(42.999e9, rel=0.01)
    assert by["api-edge POST /api/graphql"] == pytest.approx(1e9, rel=0.01)
    assert sum(by.values()) == 44 * 10**9
    by = _by(_parts("inputs/zipkin/zipkin-lens/ascend.json", "services.path"))
    gateway = sum(time_ns for name, time_ns in by.items() if name.startswith("mobile-gateway get"))
    assert gateway == pytest.approx(22.905e6, rel=0.01)
    assert by["content-service get"] == pytest.approx(8.965e6, rel=0.01)
    assert by["content-service get /content/personal"] == pytest.approx(6.06e6, rel=0.01)
    assert by["content-service hystrix"] == pytest.approx(0.863e6, rel=0.01)
    by = _by(_parts(jaeger + "traceWithThreeShortOverlappingChildren.json", "services.path"))
    assert by == {"service-one send": 30_000, "service-two overlapping child 3": 6_000}


@pytest.mark.parametrize(
    ("file", "total", "front", "back"),
    [
        ("json_01.clang.json", 8.521, 5.733, 2.722),
        ("fmt_00.clang.json.gz", 13.439, 5.015, 8.385),
    ],
)
def test_phases_of_a_compiler(file: str, total: float, front: float, back: float) -> None:
    parts = _parts(f"chrome-json/recorded/{file}", "compile.phases")
    assert parts["total_ns"] == pytest.approx(total * 1e9, rel=0.01)
    assert parts["frontend_ns"] == pytest.approx(front * 1e9, rel=0.01)
    assert parts["backend_ns"] == pytest.approx(back * 1e9, rel=0.01)


def test_headers_and_templates() -> None:
    found = _explained("chrome-json/recorded/json_01.clang.json")
    header, template = _measure(found, "compile.header"), _measure(found, "compile.template")
    assert "nlohmann/json.hpp" in header.sentence
    assert header.value_ns == pytest.approx(2850e6, rel=0.01)
    assert "basic_json<>::parse<const char *>" in template.sentence
    assert template.value_ns == pytest.approx(1682e6, rel=0.01)
    header = _measure(_explained("chrome-json/recorded/graph_02.clang.json"), "compile.header")
    assert "boost/graph/adjacency_list.hpp" in header.sentence
    assert header.value_ns == pytest.approx(5985e6, rel=0.01)


def test_whether_more_jobs_help() -> None:
    jobs = _measure(_explained("inputs/bazel/local-jobs-4.json.gz"), "build.jobs")
    assert jobs.is_notable
    assert jobs.bound_ns == pytest.approx(2.0e9, rel=0.01)
    assert jobs.share == pytest.approx(0.22, abs=0.005)
    (job,) = _explained("inputs/bazel/local-jobs-4.json.gz").resources
    assert job.capacity == 4
    assert job.busy_ns / job.length_ns == pytest.approx(3.08, rel=0.01)


def test_what_the_critical_path_of_a_build_consists_of() -> None:
    found = _explained("inputs/bazel/bazel-profile-with_queuing.json.gz")
    path, queue = _measure(found, "build.critical_path"), _measure(found, "build.queue")
    assert path.value_ns == pytest.approx(291.464e9, rel=0.005)
    assert path.parts["execution_ns"] == pytest.approx(300.251e9, rel=0.005)
    assert len(path.parts["actions"]) == 9
    longest = max(path.parts["actions"], key=lambda each: each["ns"])
    assert "ios_framework" in longest["name"]
    assert longest["ns"] == pytest.approx(120.329e9, rel=0.005)
    assert queue.value_ns == pytest.approx(41.715e9, rel=0.005)
    assert queue.parts["on_path_ns"] == queue.value_ns
    assert queue.parts["remote_ns"] == pytest.approx(43.503e9, rel=0.005)
    by = _by(path.parts)
    assert by["subprocesses"] == pytest.approx(131.5e9, rel=0.02)
    assert by["fetching inputs"] == pytest.approx(50.7e9, rel=0.02)
    assert by["completing actions"] == pytest.approx(58.4e9, rel=0.02)
    assert by["remote executors"] == pytest.approx(41.7e9, rel=0.02)


def test_the_chains_at_the_ends_of_builds() -> None:
    parts = _parts("inputs/ninja/zlib.ninja_log", "build.parallelism")
    assert parts["work_ns"] == pytest.approx(1396e6, rel=0.01)
    assert parts["parallelism"] == pytest.approx(2.0, rel=0.01)
    assert [Path(name).name for name in parts["chain"]] == ["inflate.c.o", "libz.a"]
    parts = _parts("build/recorded/ninja_log", "build.parallelism.1")
    assert parts["work_ns"] == pytest.approx(36839e6, rel=0.01)
    assert parts["wall_ns"] == pytest.approx(13621e6, rel=0.01)
    assert (parts["slots"], round(parts["parallelism"], 2)) == (3, 2.7)
    assert [Path(name).stem for name in parts["chain"]] == [
        *("fmt_05", "json_06", "json_16", "libx", "prog")
    ]


def test_how_busy_workers_are() -> None:
    path = "inputs/dask/task-stream.json.gz"
    parts = _parts(path, "workers.idle")
    assert (parts["threads"], round(parts["busy_share"], 3)) == (4, 0.711)
    assert _by(parts)["load"] == pytest.approx(0.628e9, rel=0.01)
    assert _by(parts)["total"] == pytest.approx(0.258e9, rel=0.01)
    assert _measure(_explained(path), "workers.nobody").share == pytest.approx(0.063, abs=0.001)
    assert _parts(path, "tasks.failed")["failed"] == 1


def test_which_tests_take_the_time() -> None:
    path = "inputs/junit/pytest-xunit1.xml"
    found = _explained(path)
    slowest = _measure(found, "tests.slowest")
    assert slowest.share == pytest.approx(0.49, abs=0.01)
    assert "test_param[0] took 101 ms" in slowest.sentence
    assert _measure(found, "tests.outside").value_ns == 59_000_000
    failed = _parts(path, "tests.failed")
    assert (failed["failure"], failed["error"], failed["skipped"]) == (1, 2, 2)


def test_why_a_job_failed() -> None:
    found = _explained("inputs/github-actions/completed.failure.with-organization.json")
    assert found.sentences[0] == "The step 'Run yarn run format-check' failed after 1 s."
    queued = _measure(found, "ci.queued").parts
    assert (queued["queued_ns"], queued["ran_ns"]) == (60 * 10**9, 198 * 10**9)
    assert "before it begins, so they cannot be parts of it" in found.missing[0]


def test_long_tasks_of_a_page() -> None:
    parts = _parts("chrome-json/recorded/chromium-devtools.json.gz", "page.long_tasks")
    assert [round(each / 1e6, 1) for each in parts["durations_ns"]] == [63.3, 108.4, 61.4, 62.3]
    assert parts["blocking_ns"] == pytest.approx(95.3e6, rel=0.01)
    path = "chrome-json/speedscope/chrome65-simple-timeline.json"
    assert _parts(path, "page.long_tasks")["longest_ns"] == pytest.approx(33.4e6, rel=0.01)
    assert not _notable(path)


def test_where_system_calls_take_their_time() -> None:
    path = "inputs/strace/recorded/make-j2.ttt-T.txt.gz"
    waits, work = _by(_parts(path, "calls.waits")), _by(_parts(path, "calls.work"))
    assert waits["wait4"] == pytest.approx(0.5678e9, rel=0.02)
    assert waits["pselect6"] == pytest.approx(0.0933e9, rel=0.02)
    assert work["brk"] == pytest.approx(0.0274e9, rel=0.02)
    assert work["mmap"] == pytest.approx(0.0186e9, rel=0.02)
    rows = {
        each["name"]: each
        for each in _parts("inputs/strace/recorded/multi.ttt-T.txt.gz", "calls.work")["by"]
    }
    assert rows["openat"]["ns"] == pytest.approx(30.2e6, rel=0.02)
    assert (rows["openat"]["calls"], rows["openat"]["failed"]) == (341, 46)
    assert rows["fsync"]["ns"] == pytest.approx(14.0e6, rel=0.02)
    assert rows["fsync"]["calls"] == 90


def test_what_is_on_top_of_stacks() -> None:
    folder = "perf-script/flamegraph/"

    def shares(path: str, name: str) -> dict[str, float]:
        return {each["name"]: each["share"] for each in _parts(folder + path, name)["by"]}

    own = shares("perf-numa-stacks-01.txt", "samples.own")
    # of the work: 37.2 % of all samples are of idle CPUs
    assert own["xen_hypercall_event_channel_op"] == pytest.approx(0.452 / 0.628, abs=0.008)
    assert "native_safe_halt" not in own
    within = shares("perf-numa-stacks-01.txt", "samples.within")
    assert within["page_fault"] == pytest.approx(0.492 / 0.628, abs=0.008)
    own = shares("perf-iperf-stacks-pidtid-01.txt", "samples.own")
    assert own["xen_hypercall_xen_version"] == pytest.approx(0.335, abs=0.005)
    assert own["copy_user_enhanced_fast_string"] == pytest.approx(0.22, abs=0.005)


def test_whether_processors_of_go_are_short() -> None:
    path = "inputs/go-trace/server.go119.trace"
    parts = _parts(path, "processor.full")
    assert parts["processors"] == 2
    assert parts["full_share"] == pytest.approx(0.893, rel=0.02)
    assert parts["running_ns"] == pytest.approx(0.58e9, rel=0.02)
    assert parts["runnable_ns"] == pytest.approx(0.558e9, rel=0.02)
    assist = _measure(_explained(path), "gc.assist")
    assert assist.value_ns == pytest.approx(0.0565e9, rel=0.02)


def test_threads_that_are_blocked_on_monitors() -> None:
    parts = _parts("inputs/jfr/recorded/app.jfr", "lock.waits")
    assert parts["total_ns"] == pytest.approx(2.549e9, rel=0.01)
    assert parts["waits"] == 208
    assert parts["median_ns"] == pytest.approx(11.3e6, rel=0.01)
    assert parts["longest_ns"] == pytest.approx(46.5e6, rel=0.01)
    threads = [each["ns"] / 1e9 for each in parts["threads"]]
    assert (round(min(threads), 2), round(max(threads), 2)) == (0.6, 0.71)


def test_traces_of_which_nothing_is_wrong_get_no_conclusion() -> None:
    silent = [
        "statemap/recorded/cpu-idle.statemap.gz",
        "chrome-json/speedscope/chrome65-simple-timeline.json",
        "chrome-json/catapult/webview.json.gz",
        "chrome-json/catapult/x_event_trace.json",
        "inputs/jfr/grafana-jfr-parser/object-allocation-sample.jfr.gz",
        "inputs/jfr/grafana-jfr-parser/dd-trace-java.jfr.gz",
        "ftrace/catapult/systrace/atrace_data_raw",
        "inputs/perfetto/android/gc-pauses-after.pftrace.zst",
    ]
    assert {path: _notable(path) for path in silent} == {path: set() for path in silent}


@pytest.mark.parametrize(
    "path",
    [
        "chrome-json/catapult/tcmalloc_trace.json.gz",
        "chrome-json/catapult/webview.json.gz",
        "chrome-json/catapult/x_event_trace.json",
        "chrome-json/firefox-profiler/test.chrome-unchunked.json",
        "chrome-json/kineto/backward_thread.json",
        "chrome-json/kineto/triton_example.json.gz",
        "chrome-json/spall/cuik_c_compiler.json",
        "chrome-json/speedscope/chrome65-simple-timeline.json",
        "ftrace/catapult/android_systrace.txt",
        "ftrace/catapult/systrace/atrace_data_raw",
        "ftrace/catapult/systrace/atrace_missing_tgids",
        "ftrace/tracecompass/trace-android-sched",
        "ftrace/tracecompass/trace-critical-path",
        "heatmap/recorded/beat-ground-truth.tsv",
        "heatmap/recorded/beat3-ground-truth.tsv",
        "inputs/jfr/grafana-jfr-parser/cpool-uint64-constant-index.jfr.gz",
        "inputs/jfr/grafana-jfr-parser/dd-trace-java.jfr.gz",
        "inputs/jfr/grafana-jfr-parser/object-allocation-sample.jfr.gz",
        "inputs/other-profilers/speedscope/Chrome-116-Trace-20230603T221323.json.gz",
        "inputs/perfetto/android/app-startup-after.pftrace.zst",
        "inputs/perfetto/android/gc-pauses-after.pftrace.zst",
        "inputs/perfetto/android/main-thread-io-before.pftrace.zst",
        "perf-script/recorded/quiet-missing-idle-exits.txt",
        "statemap/recorded/block.statemap",
        "statemap/recorded/cpu-idle.statemap.gz",
        "statemap/recorded/cpu-idle-unordered.statemap.gz",
        "statemap/upstream-tst/tst.tag_basic.in",
    ],
)
def test_nothing_limits_a_trace_in_which_nothing_is_short(path: str) -> None:
    found = _explained(path)

    assert found.conclusions == ()
    assert found.budget.rows


@pytest.mark.parametrize(
    "path",
    [
        KINETO + "nccl_data.json.gz",
        KINETO + "event_sync_trace.json.gz",
        "inputs/bazel/local-jobs-4.json.gz",
        "inputs/dask/task-stream.json.gz",
        "inputs/jfr/recorded/app.jfr",
        "inputs/json-logs/structlog.jsonl.gz",
        "inputs/nsys/nsys-ai/mock.sqlite.zst",
        "inputs/strace/recorded/git-commit.r-T.txt",
        "ftrace/tracecompass/trace-android-sched-irq-syscall",
        "chrome-json/catapult/main_thread_has_unclosed_slices.json",
    ],
)
def test_any_range_is_explained_by_what_is_in_it(path: str) -> None:
    history = meantime.open(RECORDINGS / path)
    low, high = history.bounds
    middle = (low + high) // 2
    for start, end in [
        *[(low, high), (low, middle), (middle, high)],
        *[(middle, middle + 1), (low, low + 1), (high - 1, high)],
    ]:
        found = explain(history, start=start, end=end)
        assert sum(row.total_ns for row in found.budget.rows) == found.budget.total_ns
        assert all(row.total_ns > 0 for row in found.budget.rows)
        assert all((each.value_ns or 0) >= 0 for each in found.measures)
        assert all(0 <= each.utilisation <= 1 for each in found.resources)
        json.dumps(found.as_json(path), allow_nan=False)
