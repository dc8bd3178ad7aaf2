"""That twice the input takes twice the time, whatever it consists of.

Times are CPU times of this process, compared with each other, the best of several. Where the time
grows with the square, each doubling takes four times as long, so the sizes are such that nothing
else counts; a busy machine makes single rounds slower, so one round that is linear is enough.
"""

from __future__ import annotations

import gc
import math
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest
from corpus import jfr_chunk
from large_inputs import flight_recording, nsight, varint

import meantime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST_GROWTH = 2.6
ROUNDS = 5


class Shape(NamedTuple):
    suffix: str
    first: int
    content: Callable[[int], bytes]


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def pprof(types: int, samples: int, labels: int = 0) -> bytes:
    texts = [b"", *(b"t%d" % each for each in range(max(types, samples, labels)))]
    parts = [field(1, field(1, each + 1) + field(2, 0)) for each in range(types)]
    for each in range(samples):
        label = field(3, field(1, each % labels + 1) + field(2, 1)) if labels else b""
        parts.append(
            field(2, field(1, varint(each + 1)) + field(2, varint(1) * types) + label)
            + field(4, field(1, each + 1) + field(4, field(1, each + 1)))
            + field(5, field(1, each + 1) + field(2, each + 1))
        )
    return b"".join([*parts, *(field(6, text) for text in texts)])


def lines(head: str, line: str, count: int) -> bytes:
    return (head + "".join(line.format(n=n, t=n * 1000) for n in range(count))).encode()


def chrome(event: str, count: int) -> bytes:
    return b"[" + b",".join(event.replace("%", str(n)).encode() for n in range(count)) + b"]"


def statemap(states: int) -> bytes:
    names = ",".join(f'"s{n}":{{"value":{n}}}' for n in range(states))
    rows = "".join(f'{{"time":"{n}","entity":"a","state":{n}}}\n' for n in range(states))
    return f'{{"start":[0,0],"title":"t","states":{{{names}}}}}\n{rows}'.encode()


def zipkin(services: int) -> bytes:
    spans = (
        f'{{"traceId":"1","id":"{n:x}","name":"f","timestamp":{n + 1},"duration":1,'
        f'"localEndpoint":{{"serviceName":"s{n}"}}}}'
        for n in range(1, services + 1)
    )
    return f"[{','.join(spans)}]".encode()


def chain(spans: int, *, circle: bool = False) -> bytes:
    parts = ",".join(
        f'{{"traceId":"1","id":"{n + 1:x}","parentId":"{(n or spans * circle or 2**40):x}",'
        f'"name":"f","timestamp":{n + 1},"duration":{spans},"localEndpoint":{{"serviceName":"s"}}}}'
        for n in range(spans)
    )
    return f"[{parts}]".encode()


def speedscope(frames: int) -> bytes:
    names = ",".join(f'{{"name":"f{n}"}}' for n in range(frames))
    stacks = ",".join(f"[{n},{n // 2}]" for n in range(frames))
    weights = ",".join("1" for _ in range(frames))
    schema = "https://www.speedscope.app/file-format-schema.json"
    return (
        f'{{"$schema":"{schema}","shared":{{"frames":[{names}]}},"profiles":[{{"type":"sampled",'
        f'"name":"t","unit":"none","startValue":0,"endValue":{frames},"samples":[{stacks}],'
        f'"weights":[{weights}]}}]}}'
    ).encode()


def cpuprofile(nodes: int) -> bytes:
    parts = ",".join(
        f'{{"id":{n},"callFrame":{{"functionName":"f{n}"}},"children":[{n + 1}]}}'
        for n in range(1, nodes)
    )
    last = f'{{"id":{nodes},"callFrame":{{"functionName":"g"}}}}'
    samples = ",".join(str(n) for n in range(1, nodes))
    return (
        f'{{"nodes":[{parts},{last}],"startTime":0,"endTime":{nodes},"samples":[{samples}],'
        f'"timeDeltas":[{",".join("1" for _ in range(1, nodes))}]}}'
    ).encode()


def jaeger(spans: int) -> bytes:
    parts = ",".join(
        f'{{"traceID":"1","spanID":"{n:x}","operationName":"o{n}","startTime":{n},"duration":9,'
        f'"references":[{{"refType":"CHILD_OF","traceID":"1","spanID":"{n // 2:x}"}}],'
        f'"processID":"p{n}"}}'
        for n in range(1, spans)
    )
    processes = ",".join(f'"p{n}":{{"serviceName":"s{n}"}}' for n in range(1, spans))
    trace = f'{{"traceID":"1","spans":[{parts}],"processes":{{{processes}}}}}'
    return f'{{"data":[{trace}]}}'.encode()


def callgrind(functions: int) -> bytes:
    calls = "".join(f"fn=(1)\ncfn=({n})\ncalls=1 1\n1 {n}\n" for n in range(2, functions))
    names = "".join(f"fn=({n}) f{n}\n1 {n}\n" for n in range(1, functions))
    return f"# callgrind format\nversion: 1\nevents: Ir\n{names}{calls}".encode()


SWITCH = (
    "  t{n}-{n} [000] {t}.000000: sched_switch: prev_comm=t{n} prev_pid={n} prev_prio=120"
    " prev_state=S ==> next_comm=u next_pid=1 next_prio=120\n"
)
SHAPES = {
    "types of pprof": Shape(".pb", 3_000, lambda n: pprof(n, 1)),
    "samples of pprof": Shape(".pb", 20_000, lambda n: pprof(1, n)),
    "labels of pprof": Shape(".pb", 6000, lambda n: pprof(1, n, n)),
    "samples of a flight recording": Shape(".jfr", 20_000, lambda n: flight_recording(n, 0)),
    "threads of a flight recording": Shape(".jfr", 4_000, lambda n: flight_recording(n, n)),
    "chunks of a flight recording": Shape(".jfr", 40, lambda n: jfr_chunk() * n),
    "names of Nsight": Shape(".sqlite", 10_000, nsight),
    "names of folded stacks": Shape(".folded", 8_000, lambda n: lines("", "a;f{n} 1\n", n)),
    "depth of folded stacks": Shape(
        ".folded", 20_000, lambda n: (";".join(f"f{each}" for each in range(n)) + " 1\n").encode()
    ),
    "states of a statemap": Shape(".statemap", 5000, statemap),
    "tasks of ftrace": Shape(".ftrace", 3000, lambda n: lines("# tracer: nop\n", SWITCH, n)),
    "services of Zipkin": Shape(".json", 600, zipkin),
    "nested spans of Chrome": Shape(
        ".json",
        50_000,
        lambda n: chrome('{"ph":"B","name":"f%","pid":1,"tid":1,"ts":%}', n),
    ),
    "threads of Chrome": Shape(
        ".json", 30_000, lambda n: chrome('{"ph":"X","name":"f","pid":1,"tid":%,"ts":%,"dur":1}', n)
    ),
    "processes of Chrome": Shape(
        ".json", 20_000, lambda n: chrome('{"ph":"X","name":"f","pid":%,"tid":%,"ts":%,"dur":1}', n)
    ),
    "counters of Chrome": Shape(
        ".json", 4000, lambda n: chrome('{"ph":"C","name":"c%","pid":1,"ts":%,"args":{"v":1}}', n)
    ),
    "async spans of Chrome": Shape(
        ".json",
        30_000,
        lambda n: chrome('{"ph":"b","cat":"c","id":%,"name":"f","pid":1,"tid":1,"ts":%}', n),
    ),
    "entities of a table": Shape(
        ".csv", 20_000, lambda n: lines("start_ns,end_ns,entity,state\n", "{n},{t},e{n},s\n", n)
    ),
    "overlapping rows of a table": Shape(
        ".csv", 40_000, lambda n: lines("start_ns,end_ns,entity,state\n", "{n},1{t},e,s\n", n)
    ),
    "columns of a table": Shape(
        ".csv",
        6000,
        lambda n: (
            (
                "start_ns,end_ns," + ",".join(f"c{each}" for each in range(n)) + "\n1,2" + ",x" * n
            ).encode()
            + b"\n"
        ),
    ),
    "names of lines of JSON": Shape(
        ".jsonl", 20_000, lambda n: lines("", '{{"time_ns":{n},"name":"e{n}","x":{n}}}\n', n)
    ),
    "overlapping spans of Chrome": Shape(
        ".json",
        20_000,
        lambda n: chrome('{"ph":"X","name":"f","pid":1,"tid":1,"ts":%,"dur":9e9}', n),
    ),
    "flows of Chrome": Shape(
        ".json",
        10_000,
        lambda n: chrome(
            '{"ph":"X","name":"f","pid":1,"tid":1,"ts":%,"dur":1},'
            '{"ph":"s","name":"f","cat":"c","id":1,"pid":1,"tid":1,"ts":%},'
            '{"ph":"f","name":"f","cat":"c","id":1,"pid":1,"tid":1,"ts":%}',
            n,
        ),
    ),
    "chain of parents of Zipkin": Shape(".json", 3_000, chain),
    "circle of parents of Zipkin": Shape(".json", 3_000, lambda n: chain(n, circle=True)),
    "depth of JUnit": Shape(
        ".xml",
        5_000,
        lambda n: (
            "<testsuites>"
            + '<testsuite name="s"><testcase name="c" time="1"/>' * n
            + "</testsuite>" * n
            + "</testsuites>"
        ).encode(),
    ),
    "frames of speedscope": Shape(".json", 10_000, speedscope),
    "depth of a cpuprofile": Shape(".cpuprofile", 5_000, cpuprofile),
    "services of Jaeger": Shape(".json", 600, jaeger),
    "functions of callgrind": Shape(".out", 8_000, callgrind),
    "suites of JUnit": Shape(
        ".xml",
        6_000,
        lambda n: (
            "<testsuites>"
            + "".join(
                f'<testsuite name="s{each}"><testcase name="c" time="1"/></testsuite>'
                for each in range(n)
            )
            + "</testsuites>"
        ).encode(),
    ),
    "targets of ninja": Shape(
        ".ninja_log", 10_000, lambda n: lines("# ninja log v5\n", "{n}\t{t}\t0\tt{n}\t{n:x}\n", n)
    ),
    "processes of strace": Shape(
        ".strace",
        6_000,
        lambda n: lines("", '{n} 1700000000.{n:06} read(3, "", 1) = 0 <0.000001>\n', n),
    ),
    "names of a log": Shape(
        ".log",
        10_000,
        lambda n: lines("", "2024-01-02 03:04:05,006 INFO app.m{n}: message {n}\n", n),
    ),
    "tracks of Perfetto": Shape(
        ".pftrace",
        6_000,
        lambda n: b"".join(
            field(1, field(60, field(1, each) + field(2, b"t%d" % each)))
            + field(1, field(8, each) + field(11, field(9, 1) + field(11, each) + field(23, b"a")))
            + field(1, field(8, each + 9) + field(11, field(9, 2) + field(11, each)))
            for each in range(1, n)
        ),
    ),
}


def taken_s(path: Path) -> float:
    gc.collect()
    # it also looks at what the other tests left
    gc.disable()
    try:
        begin = time.process_time()
        meantime.open(path)
        return time.process_time() - begin
    finally:
        gc.enable()


@pytest.mark.parametrize("name", SHAPES)
def test_twice_the_input_takes_twice_the_time(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    small, large = tmp_path / f"small{shape.suffix}", tmp_path / f"large{shape.suffix}"
    small.write_bytes(shape.content(shape.first))
    large.write_bytes(shape.content(4 * shape.first))
    taken_s(small)  # imports its reader

    growth, best_small, best_large = 0.0, float("inf"), float("inf")
    for _ in range(ROUNDS):
        best_small = min(best_small, taken_s(small))
        best_large = min(best_large, taken_s(large))
        # over two doublings, which are unequal where data leave a cache
        growth = math.sqrt(best_large / best_small)
        if growth <= MOST_GROWTH:
            break

    assert growth <= MOST_GROWTH
