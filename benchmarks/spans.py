"""What opening span traces, asking them and drawing them costs.

python benchmarks/spans.py --spans 1000000

Opening is measured in a process of its own, less what the same process costs for an empty trace;
memory too. The traces are made here: nested calls on 8 threads, 200 names, 1 span in 8 with
arguments.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import struct
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import measure
import numpy as np

import meantime
from meantime.model.columns import Coded
from meantime.opening.history_from_path import open_history
from meantime.query.durations import span_statistics
from meantime.query.stacks import left_heavy, span_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meantime.history.history import History

THREADS, NAMES, KINETO_ARGUMENTS_BYTES = 8, 200, 700
OPEN = "import sys, meantime; meantime.open(sys.argv[1]).spans()"
MEANTIME = [sys.executable, "-m", "meantime"]
ERRORS = 87_000


def main() -> None:
    """Print the figures for one number of spans."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=1_000_000)
    count = parser.parse_args().spans
    print(measure.header("spans"))
    with tempfile.TemporaryDirectory() as folder:
        started(Path(folder))
        for name, chunks in files(count).items():
            path = Path(folder) / name
            with path.open("wb") as file:
                file.writelines(chunks)
            opened(path, count)
        whole = Path(folder) / "X.json"
        asked(whole)
        flame = measure.run([*MEANTIME, "flame", str(whole), "-o", f"{folder}/x.svg"])
        print(f"flame graph of X.json: {flame.cpu_s:.3f} s")
        built(whole, Path(folder) / "x.mth")
        for source in (whole, Path(folder) / "BE.json"):
            converted(source)
        compressed(Path(folder) / "BE.json")
        for name, chunks in corners(count).items():
            corner(Path(folder) / name, chunks)
    near()
    ranges(count)


def opened(path: Path, count: int) -> None:
    """Print what opening a file costs beyond opening an empty one."""
    empty = path.with_suffix(".empty.json")
    empty.write_text("[]")
    base = measure.run([sys.executable, "-c", OPEN, str(empty)])
    run = measure.run([sys.executable, "-c", OPEN, str(path)])
    cpu_s = run.cpu_s - base.cpu_s
    print(
        f"open {path.name}: {path.stat().st_size / 1e6:.0f} MB, {cpu_s:.3f} s,"
        f" {count / cpu_s / 1e6:.1f} M spans/s, {(run.peak_bytes - base.peak_bytes) / count:.0f}"
        f" bytes a span at most; whole process {run.cpu_s:.3f} s, {run.peak_bytes / 1e6:.0f} MB"
        f"; {limit(path)}"
    )


def limit(path: Path) -> str:
    """Return what finding no byte in a file costs: the least that any reader of it can take."""
    content, absent = path.read_bytes().replace(b"\xfe", b" "), b"\xfe"
    return f"memchr of it {measure.best_cpu_s(lambda: content.find(absent)) * 1e3:.0f} ms"


def started(folder: Path) -> None:
    """Print what commands cost before they read anything to speak of."""
    path = folder / "empty.json"
    path.write_text("[]")
    for what, command in {
        "import of NumPy": [sys.executable, "-c", "import numpy"],
        "meantime.open of an empty trace": [sys.executable, "-c", OPEN, str(path)],
        "info of an empty trace": [*MEANTIME, "info", str(path)],
    }.items():
        print(f"{what}: {measure.run(command, times=5).cpu_s:.3f} s")


def asked(path: Path) -> None:
    """Print what questions to an open history cost."""
    history = open_history(str(path))
    spans = history.spans()
    print(f"statistics per name: {measure.best_cpu_s(lambda: span_statistics(history)):.3f} s")
    print(f"call tree: {measure.best_cpu_s(lambda: left_heavy(span_tree(spans))):.3f} s")
    print(f"findings: {measure.best_cpu_s(lambda: meantime.findings(history)):.3f} s")


def built(trace: Path, path: Path) -> None:
    """Print what building a history on disk costs, opening it, and asking it for a part."""
    read = measure.run([*MEANTIME, "info", str(trace)])
    build = measure.run([*MEANTIME, "build", str(trace), "-o", str(path)], times=1)
    print(
        f"build X.json: {build.cpu_s:.3f} s, {build.peak_bytes / 1e6:.0f} MB;"
        f" info: {read.cpu_s:.3f} s, {read.peak_bytes / 1e6:.0f} MB"
    )
    opened = measure.best_cpu_s(lambda: meantime.open(path))
    print(f"open the history: {opened * 1e3:.2f} ms")
    print(f"statistics per name of the history as opened: {first(path, span_statistics):.3f} s")
    print(f"call tree of the history as opened: {first(path, whole_tree):.3f} s")
    history = meantime.open(path)
    begin_ns, finish_ns = history.bounds
    middle_ns, part_ns = (begin_ns + finish_ns) // 2, (finish_ns - begin_ns) // 100
    thread = int(history.spans().threads[0])
    questions: dict[str, Callable[[], object]] = {
        "spans of 1 us": lambda: history.spans(start_ns=middle_ns, end_ns=middle_ns + 1000),
        "spans of a thread": lambda: history.spans([thread]),
        "statistics of 1 %": lambda: span_statistics(
            history, start_ns=middle_ns, end_ns=middle_ns + part_ns
        ),
        "statistics of all": lambda: span_statistics(history),
    }
    for name, question in questions.items():
        print(f"{name}: {measure.best_cpu_s(question) * 1e3:.2f} ms")


def first(path: Path, ask: Callable[[History], object]) -> float:
    """Return the CPU time of the first question to a history, which reads and checks columns."""
    histories = [meantime.open(path) for _ in range(3)]
    return measure.best_cpu_s(lambda: ask(histories.pop()), times=len(histories))


def whole_tree(history: History) -> list[int]:
    """Return the stacks of all spans."""
    return left_heavy(span_tree(history.spans()))


def converted(path: Path) -> None:
    """Print what converting a trace costs."""
    read = measure.run([*MEANTIME, "info", str(path)])
    print(f"reading {path.name} for these: {read.cpu_s:.3f} s; {limit(path)}")
    for name in ("x.spall", "x.chrome.json", "x.folded"):
        command = [*MEANTIME, "convert", str(path), str(path.parent / f"{path.stem}-{name}")]
        run = measure.run(command, times=1)
        print(f"convert {path.name} to {name}: {run.cpu_s:.3f} s, {run.peak_bytes / 1e6:.0f} MB")


def compressed(path: Path) -> None:
    """Print what statistics of a compressed trace cost, and decompressing it alone."""
    packed = path.with_suffix(".json.gz")
    with path.open("rb") as file, gzip.open(packed, "wb", compresslevel=1) as out:
        shutil.copyfileobj(file, out, 1 << 20)
    alone = measure.run([sys.executable, "-m", "gzip", "-d", str(packed)], times=1)
    run = measure.run([*MEANTIME, "stats", str(packed)], times=1)
    print(
        f"stats of {packed.name}: {run.cpu_s:.3f} s, {run.peak_bytes / 1e6:.0f} MB;"
        f" Python's gzip alone: {alone.cpu_s:.3f} s"
    )


def corner(path: Path, chunks: Iterator[bytes]) -> None:
    """Print what statistics, the summary and a conversion of an unusual trace cost."""
    with path.open("wb") as file:
        file.writelines(chunks)
    costs = []
    # Chrome JSON also has asynchronous operations
    converted_to = path.with_suffix(".chrome.json")
    for what, to in (
        (["stats"], []),
        (["info"], []),
        (["info", "--json"], []),
        (["convert"], [str(converted_to)]),
    ):
        run = measure.run([*MEANTIME, *what, str(path), *to], times=1)
        costs.append(f"{' '.join(what)} {run.cpu_s:.3f} s, {run.peak_bytes / 1e6:.0f} MB")
    print(f"{path.name}: {'; '.join(costs)}; {limit(path)}")
    converted_to.unlink()
    path.unlink()


def corners(count: int) -> dict[str, Iterator[bytes]]:
    """Return traces of which one number is large, by name."""
    span = b'{"ph":"X","pid":1,"tid":%d,"ts":%d,"dur":%d,"name":"f%d"},\n'
    step = b'{"ph":"%c","pid":1,"tid":1,"ts":%d,"id":%d,"cat":"c","name":"f%d"},\n'
    hex_step = b'{"ph":"%c","pid":1,"tid":%d,"ts":%d,"id":"%#x","cat":"c","name":"f%d"},\n'
    return {
        "threads.json": listed(span % (i, i, 1, i % 100) for i in range(count)),
        "overlaps.json": listed(span % (1, i, count + 5, i % 100) for i in range(count)),
        "names.json": listed(span % (1, 2 * i, 1, i) for i in range(count)),
        "operations.json": listed(
            step % (b"be"[i % 2], i, i // 2 % 5000, i // 2 % 100) for i in range(count)
        ),
        "ids.json": listed(step % (b"be"[i % 2], i, i // 2, i // 2 % 100) for i in range(count)),
        # each second operation is in another one of its id, and each ends on another thread
        "nested.json": listed(
            hex_step % (b"bbee"[i % 4], i % 7, i, i // 4, (i % 4 in {1, 2}) + i // 4 % 50 * 2)
            for i in range(count)
        ),
        "flows.json": listed(step % (b"sf"[i % 2], i, i // 2, i // 2 % 100) for i in range(count)),
    }


def listed(events: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a trace of events."""
    yield b"[\n"
    yield from events
    yield b"{}]\n"


def near() -> None:
    """Print what finding the only error among many states costs."""
    builder = meantime.history.HistoryBuilder()
    quark = builder.quark("state")
    names = np.arange(ERRORS) % 5
    names[-2] = 5
    texts = ["error" if name == 5 else f"state {name}" for name in names.tolist()]
    builder.modify_many(np.arange(ERRORS) * 10, np.full(ERRORS, quark), texts)
    history = builder.close()
    cost = measure.best_cpu_s(lambda: history.following(quark, 0, value="error"))
    print(f"the next error among {ERRORS:,} states: {cost * 1e3:.2f} ms")


def ranges(count: int) -> None:
    """Print what small ranges of the spans of a growing history cost."""
    builder = meantime.history.HistoryBuilder()
    threads = [builder.quark(f"thread {index}") for index in range(THREADS)]
    thread, names = np.resize(np.array(threads, np.int32), count), ["a", "b", "c"]
    name = Coded(np.resize(np.arange(3, dtype=np.int32), count), names)
    starts_ns = np.arange(count) * 10
    builder.add_spans(thread, name, starts_ns, starts_ns + 60)
    history = builder.history
    first_ns = range(5 * count, 5 * count + 200_000, 1000)

    def select() -> None:
        for start_ns in first_ns:
            history.spans(start_ns=start_ns, end_ns=start_ns + 1000)

    cost_us = measure.best_cpu_s(select) / len(first_ns) * 1e6
    print(f"the 100 spans of a small range of {count:,} that grow: {cost_us:.0f} us")


def files(count: int) -> dict[str, Iterator[bytes]]:
    """Return the traces to be measured, by name."""
    return {
        "X.json": chrome(count, "X"),
        "BE.json": chrome(count, "BE"),
        "kineto.json": chrome(count, "X", b'"' + b"x" * KINETO_ARGUMENTS_BYTES + b'"'),
        "v1.spall": spall(count, 1),
        "v3.spall": spall(count, 3),
    }


def steps(count: int) -> Iterator[tuple[int, int, list[tuple[bool, int, int, int]]]]:
    """Yield pid, tid and begins and ends (begins, time, name, duration) of 8 threads."""
    random = np.random.default_rng(1)
    for thread in range(THREADS):
        walk: list[tuple[bool, int, int, int]] = []
        now, number = 0, 0
        while number < count // THREADS:
            now += 20
            inner = int(random.integers(0, 12))
            names = random.integers(0, NAMES, inner + 1).tolist()
            duration = 100 * inner + 50
            walk.append((True, now, names[0], duration))
            for child in range(inner):
                begin = now + 10 + 100 * child
                walk += ((True, begin, names[child + 1], 60), (False, begin + 60, 0, 0))
            now += duration
            walk.append((False, now, 0, 0))
            number += inner + 1
        yield 100 + thread % 2, 1000 + thread, walk


def chrome(count: int, phases: str, arguments: bytes = b"") -> Iterator[bytes]:
    """Yield Chrome JSON, parents first, times with three decimals."""
    yield b'{"displayTimeUnit":"ns","traceEvents":[\n'
    number = 0
    for pid, tid, walk in steps(count):
        ids = b'"pid":%d,"tid":%d' % (pid, tid)
        for begins, now, name, duration in walk:
            number += 1
            at = b"%d.%03d" % divmod(now, 1000)
            chosen = arguments or (b"%d" % number if number % 8 == 0 else b"")
            more = b',"args":{"i":%s}' % chosen if chosen else b""
            if begins and phases == "X":
                yield (
                    b'{"ph":"X",%s,"ts":%s,"dur":%d.%03d,"cat":"c","name":"ns::Class::method_%d"%s},\n'
                    % (ids, at, *divmod(duration, 1000), name, more)
                )
            elif begins:
                yield b'{"ph":"B",%s,"ts":%s,"cat":"c","name":"ns::Class::method_%d"%s},\n' % (
                    ids, at, name, more,
                )  # fmt: skip
            elif phases == "BE":
                yield b'{"ph":"E",%s,"ts":%s},\n' % (ids, at)
    yield b"]}\n"


def spall(count: int, version: int) -> Iterator[bytes]:
    """Yield .spall, thread by thread."""
    yield struct.pack("<QQdQ", 0x0BADF00D, version, 1.0 if version == 3 else 0.001, 0)
    for pid, tid, walk in steps(count):
        records = bytearray()
        for begins, now, name, _ in walk:
            text = b"ns::Class::method_%d" % name
            if version == 1 and begins:
                records += struct.pack("<BBIIdBB", 3, 0, pid, tid, now, len(text), 0) + text
            elif version == 1:
                records += struct.pack("<BIId", 4, pid, tid, now)
            elif begins:
                records += struct.pack("<BQBB", 3, now, len(text), 0) + text
            else:
                records += struct.pack("<BQ", 4, now)
        if version == 3:
            yield struct.pack("<IIIQ", len(records), tid, pid, 0)
        yield bytes(records)


if __name__ == "__main__":
    main()
