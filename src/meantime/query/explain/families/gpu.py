"""GPU training and inference: whether the GPU works, and what it waits for.

Work of a GPU are kernels, copies and sets on its streams, as PyTorch's profiler (Kineto), Nsight
Systems and others record them. A GPU is idle where none of its streams does any of them: the union,
not the sum. What idles it follows from the call that launched what ends the idle time.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.kernels.activity_paths import stretches
from meantime.model.units import rounded_ns
from meantime.query.explain.budget import Budget
from meantime.query.explain.conclusion import Conclusion, Evidence, Explanation, importance
from meantime.query.explain.lanes import (
    Meaning,
    Meanings,
    TimeClass,
    in_order,
    lanes_of_spans,
)
from meantime.query.explain.resources import resource_use
from meantime.query.sentences import FILE, counted, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s
    from meantime.query.explain.resources import Resource
    from meantime.query.explain.subject import Subject
    from meantime.query.ranges import Range

__all__ = ["Gpu", "explain_gpus", "gpus_of"]

# Categories of work on a GPU, in lower case: Kineto's of all versions.
_KERNEL, _COPY, _SET = {"kernel"}, {"gpu_memcpy", "memcpy"}, {"gpu_memset", "memset"}
_CALLS = {"cuda_runtime", "cuda_driver", "runtime", "driver", "hip_runtime", "cuda api"}
_COMMUNICATION = re.compile(r"nccl|rccl|oneccl|\bhccl", re.IGNORECASE)
_PAGEABLE = re.compile(r"pageable", re.IGNORECASE)
_SYNC = re.compile(
    r"(?:cuda|hip|cu|xpu)\w*synchronize\w*|cudaStreamWaitEvent|cuEventSynchronize", re.IGNORECASE
)
_STEP = re.compile(r"^(?:ProfilerStep#\d+|.*\bstep[ #_]*\d+)$", re.IGNORECASE)
_LAUNCHES = {"ac2g", "launch"}
_CORRELATION = re.compile(r'"correlation"\s*:\s*(\d+)')

_FULL_SAID = 0.9
_IDLE_SAID, _EXPOSED_SAID, _COPIES_SAID, _SYNC_SAID = 0.1, 0.05, 0.1, 0.2
_SHORT_NS, _SHORT_SAID = 10_000, 0.5
_FIRST_LAUNCH_NS = 10**8
_MOST_STEPS = 100
# A trace of less GPU time says nothing.
_LEAST_NS = 10**6


class Gpu(NamedTuple):
    """The work of one GPU.

    Attributes:
        name: What it is called.
        quark: The attribute of its process.
        start_ns: int64, by kernel, copy or set: where it begins, ascending.
        end_ns: int64, where it ends.
        row: int32, its row in the table of spans.
        is_kernel: Whether it is a kernel.
        is_copy: Whether it is a copy.
        is_communication: Whether it is a collective.
        launch: int32, the row of the call that launched it; -1 if that is not known.
    """

    name: str
    quark: int
    start_ns: Int64s
    end_ns: Int64s
    row: Int32s
    is_kernel: npt.NDArray[np.bool_]
    is_copy: npt.NDArray[np.bool_]
    is_communication: npt.NDArray[np.bool_]
    launch: Int32s

    @property
    def range_ns(self) -> Range:
        """From its first work to the end of its last."""
        return int(self.start_ns[0]), int(self.end_ns.max())

    def union(self, which: npt.NDArray[np.bool_] | None = None) -> tuple[Int64s, Int64s]:
        """Return where it does anything, or some of it: begins and ends, in order."""
        start_ns, end_ns = self.start_ns, self.end_ns
        if which is not None:
            start_ns, end_ns = start_ns[which], end_ns[which]
        return stretches(*in_order(start_ns, end_ns), 1)


class _Idle(NamedTuple):
    """The idle times of a GPU, by cause; each adds up to the idle time.

    Attributes:
        start_ns: int64, where each begins.
        end_ns: int64.
        ended_by: Index of the work that ends it.
        host_ns: int64, for how long the host had not launched that.
        call_ns: int64, for how long it was in the call.
        launched_ns: int64, for how long it was launched and had not begun.
        unknown_ns: int64, all of it, if the launch is not known.
    """

    start_ns: Int64s
    end_ns: Int64s
    ended_by: Int64s
    host_ns: Int64s
    call_ns: Int64s
    launched_ns: Int64s
    unknown_ns: Int64s

    @property
    def total_ns(self) -> int:
        """The idle time."""
        return int((self.end_ns - self.start_ns).sum())


def gpus_of(subject: Subject) -> list[Gpu]:
    """Return the GPUs of a trace that did anything in the range."""
    return _Device(subject).gpus


def _name(history: History, quark: int) -> str:
    """Return what a GPU is called, by its process or its path."""
    path = history.attributes.path(quark)
    if path[0] == "GPUs" and len(path) > 1:
        return f"GPU {path[1]}"
    label = history.descriptions.get(quark, "")
    return label if label.upper().startswith("GPU") else "GPU"


class _Device:
    """The spans of a trace by what they are on a GPU, or to it."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.spans: SpanTable = subject.spans
        names = self.spans.category.names
        kinds = [(name or "").lower() for name in names]
        self._code_of = {
            what: [code for code, kind in enumerate(kinds) if kind in wanted]
            for what, wanted in (
                ("kernel", _KERNEL),
                ("copy", _COPY),
                ("set", _SET),
                ("call", _CALLS),
            )
        }

    def of(self, what: str) -> npt.NDArray[np.bool_]:
        """Return which spans are of a category."""
        found: npt.NDArray[np.bool_] = np.isin(self.spans.category.codes, self._code_of[what])
        return found

    def named(self, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
        """Return which spans have a name that contains a match."""
        codes = [code for code, name in enumerate(self.spans.name.names) if pattern.search(name)]
        found: npt.NDArray[np.bool_] = np.isin(self.spans.name.codes, codes)
        return found

    @cached_property
    def gpus(self) -> list[Gpu]:
        """The GPUs, in order of their names."""
        if not self._code_of["kernel"]:
            return []
        spans, history = self.spans, self.subject.history
        is_kernel, is_copy = self.of("kernel"), self.of("copy")
        rows = np.flatnonzero(is_kernel | is_copy | self.of("set"))
        rows = rows[spans.end_ns[rows] > spans.start_ns[rows]]
        if not len(rows):
            return []
        thread = np.searchsorted(spans.offsets, rows, side="right") - 1
        parents = history.attributes.parents(history.attributes.parents(spans.threads))
        process = parents[thread]
        launch = self._launches(rows, thread)
        is_communication = self.named(_COMMUNICATION)
        found = []
        for quark in np.unique(process).tolist():
            own = np.flatnonzero(process == quark)
            own = own[np.argsort(spans.start_ns[rows[own]], kind="stable")]
            chosen = rows[own]
            found.append(
                Gpu(
                    _name(history, quark),
                    quark,
                    spans.start_ns[chosen],
                    spans.end_ns[chosen],
                    chosen.astype(np.int32),
                    is_kernel[chosen],
                    is_copy[chosen],
                    is_communication[chosen] & is_kernel[chosen],
                    launch[own],
                )
            )
        return sorted(found, key=lambda gpu: gpu.name)

    def _launches(self, rows: Int64s, thread: Int64s) -> Int32s:
        """Return the rows of the calls that launched work of GPUs, or -1."""
        found = np.full(len(rows), -1, np.int32)
        flows = self.subject.history.flows()
        codes = [code for code, name in enumerate(flows.name.names) if name in _LAUNCHES]
        which = np.flatnonzero(np.isin(flows.name.codes, codes))
        if len(which):
            self._by_flows(found, rows, thread, which)
        else:
            self._by_correlation(found, rows)
        return found

    def _by_flows(self, found: Int32s, rows: Int64s, thread: Int64s, which: Int64s) -> None:
        """Write the innermost span that is open where the flow to each work begins."""
        spans, flows = self.spans, self.subject.history.flows()
        calls = lanes_of_spans(
            spans,
            (int(spans.start_ns.min()), int(spans.end_ns.max()) + 1),
            Meanings(np.zeros(len(spans), np.int8), spans.name),
            between=Meaning(TimeClass.IDLE, ""),
        )
        source = calls.numbers(flows.from_quark[which])
        target = calls.numbers(flows.to_quark[which])
        which = which[(source >= 0) & (target >= 0)]
        source, target = (
            calls.numbers(flows.from_quark[which]),
            calls.numbers(flows.to_quark[which]),
        )
        part = calls.searched.parts_before(source, flows.from_ns[which] + 1)
        call = np.append(calls.tag, np.int32(-1))[part]
        for lane in np.unique(target).tolist():
            # rows of a thread are adjacent, in order of their begins
            own = np.flatnonzero(thread == lane)
            begins = spans.start_ns[rows[own]]
            mine = np.flatnonzero(target == lane)
            times = flows.to_ns[which[mine]]
            at = np.searchsorted(begins, times)
            fits = at < len(own)
            fits[fits] = begins[at[fits]] == times[fits]
            found[own[at[fits]]] = call[mine[fits]]

    def _by_correlation(self, found: Int32s, rows: Int64s) -> None:
        """Write the call whose arguments have the same correlation id, within one process."""
        calls = np.flatnonzero(self.of("call"))
        by_id = {}
        for row in calls.tolist():
            if (number := self._correlation(row)) is not None:
                by_id[number] = row
        if by_id:
            for index, row in enumerate(rows.tolist()):
                if (number := self._correlation(row)) is not None:
                    found[index] = by_id.get(number, -1)

    def _correlation(self, row: int) -> int | None:
        text = self.spans.arguments(row)
        number = _CORRELATION.search(text) if text else None
        return int(number[1]) if number else None

    def steps(self) -> list[int]:
        """Return the rows of the steps of the host, in order of time."""
        rows = np.flatnonzero(self.named(_STEP))
        if not len(rows):
            return []
        spans = self.spans
        category = [spans.category[row] or "" for row in rows.tolist()]
        # Kineto repeats the annotations of the host on the GPU
        on_host = [
            row for row, name in zip(rows.tolist(), category, strict=True) if "gpu" not in name
        ]
        return sorted(on_host, key=lambda row: int(spans.start_ns[row]))


def _idle(gpu: Gpu, spans: SpanTable, range_ns: Range) -> _Idle:
    """Return the idle times of a GPU in a range, and what ended each."""
    begins, ends = gpu.union()
    low, high = range_ns
    start_ns = np.maximum(np.append(low, ends), low)
    end_ns = np.minimum(np.append(begins, high), high)
    is_gap = end_ns > start_ns
    start_ns, end_ns = start_ns[is_gap], end_ns[is_gap]
    # a gap that goes on at the end of the range ends with the work after it, if there is any
    ended_by = np.searchsorted(gpu.start_ns, end_ns)
    known = np.minimum(ended_by, len(gpu.start_ns) - 1)
    launch = np.where(ended_by < len(gpu.start_ns), gpu.launch[known], -1)
    is_known = launch >= 0
    call_begin = np.where(is_known, spans.start_ns[launch], 0)
    call_end = np.where(is_known, spans.end_ns[launch], 0)
    call_begin = np.clip(call_begin, start_ns, end_ns)
    call_end = np.clip(call_end, call_begin, end_ns)
    zero = np.zeros(len(start_ns), np.int64)
    return _Idle(
        start_ns,
        end_ns,
        ended_by,
        np.where(is_known, call_begin - start_ns, zero),
        np.where(is_known, call_end - call_begin, zero),
        np.where(is_known, end_ns - call_end, zero),
        np.where(is_known, zero, end_ns - start_ns),
    )


def explain_gpus(subject: Subject) -> Explanation | None:
    """Return whether the GPUs of a trace work, and what they wait for; None if it has none."""
    device = _Device(subject)
    if not device.gpus:
        return None
    steps = device.steps()
    measures: list[Conclusion] = []
    resources: list[Resource] = []
    rows: list[tuple[TimeClass, str, int]] = []
    for gpu in device.gpus:
        idle = _idle(gpu, device.spans, gpu.range_ns)
        measures += _of_gpu(subject, device, gpu, idle, steps)
        rows += _budget(gpu, idle)
        resources.append(
            resource_use(
                gpu.name,
                gpu.range_ns,
                busy=gpu.union(),
                ready=(np.empty(0, np.int64), np.empty(0, np.int64)),
                capacity=1,
            )
        )
    measures += _of_host(subject, device)
    measures = _worst(measures)
    return Explanation(
        "gpu",
        "step" if steps else "GPU",
        len(steps) or len(device.gpus),
        subject.range_ns,
        tuple(sorted(measures, key=importance)),
        Budget.of_rows(rows),
        tuple(resources),
    )


def _worst(measures: list[Conclusion]) -> list[Conclusion]:
    """Return the worst of each kind, where there are several GPUs; the others are its parts."""
    found: dict[str, list[Conclusion]] = {}
    for each in measures:
        found.setdefault(each.id, []).append(each)
    chosen = []
    for alike in found.values():
        alike.sort(key=lambda each: -(each.value_ns or 0))
        if len(alike) > 1:
            alike[0].parts["others"] = [
                {"sentence": each.sentence, "value_ns": each.value_ns} for each in alike[1:]
            ]
        chosen.append(alike[0])
    return chosen


def _budget(gpu: Gpu, idle: _Idle) -> Iterator[tuple[TimeClass, str, int]]:
    """Yield what the time of a GPU was spent on, each moment once: kernels before all else."""
    compute = gpu.union(gpu.is_kernel & ~gpu.is_communication)
    communication = gpu.union(gpu.is_communication)
    copies = gpu.union(gpu.is_copy)
    everything = gpu.union()
    computed_ns = _length(compute)
    communicated_ns = _length(_union(compute, communication)) - computed_ns
    copied_ns = (
        _length(_union(_union(compute, communication), copies)) - computed_ns - communicated_ns
    )
    yield TimeClass.WORK, "kernels", computed_ns
    yield TimeClass.WORK, "communication, not overlapped", communicated_ns
    yield TimeClass.WORK, "copies, not overlapped", copied_ns
    rest_ns = _length(everything) - computed_ns - communicated_ns - copied_ns
    yield TimeClass.WORK, "sets, not overlapped", rest_ns
    yield TimeClass.WAIT, "the host, which had not launched the next work", int(idle.host_ns.sum())
    yield TimeClass.WAIT, "the call that launched it", int(idle.call_ns.sum())
    yield TimeClass.HAND_OFF, "launched, not begun", int(idle.launched_ns.sum())
    yield TimeClass.UNKNOWN, "", int(idle.unknown_ns.sum())


def _length(ranges: tuple[Int64s, Int64s]) -> int:
    return int((ranges[1] - ranges[0]).sum())


def _union(first: tuple[Int64s, Int64s], second: tuple[Int64s, Int64s]) -> tuple[Int64s, Int64s]:
    return stretches(
        np.sort(np.concatenate([first[0], second[0]])),
        np.sort(np.concatenate([first[1], second[1]])),
        1,
    )


def _of_gpu(
    subject: Subject, device: _Device, gpu: Gpu, idle: _Idle, steps: list[int]
) -> Iterator[Conclusion]:
    low, high = gpu.range_ns
    whole_ns = high - low
    flame = subject.command("flame", FILE, "--chart", "-o", "chart.svg", around=gpu.range_ns)
    yield _idle_of(device, gpu, idle, whole_ns, steps, flame)
    busy_ns = whole_ns - idle.total_ns
    exposed = _exposed(gpu, whole_ns, flame) if gpu.is_communication.any() else None
    communicates = exposed is not None and exposed.is_notable
    yield Conclusion(
        "gpu.full",
        f"{_the(gpu)} was busy for {percent(busy_ns / whole_ns)} of {rounded_ns(whole_ns)}: it is"
        " what limits the work, not the host.",
        busy_ns,
        busy_ns / whole_ns,
        evidence=(subject.command("stats", FILE, "--by", "name"),),
        # while it waits for other ranks, it is busy too
        is_notable=busy_ns >= _FULL_SAID * whole_ns and whole_ns >= _LEAST_NS and not communicates,
    )
    if len(idle.start_ns):
        yield _longest_idle(subject, device, gpu, idle, whole_ns)
    if exposed is not None:
        yield exposed
    if gpu.is_kernel.any():
        yield _short_kernels(subject, gpu, is_idle=idle.total_ns > _IDLE_SAID * whole_ns)
    if gpu.is_copy.any():
        yield _copies(subject, device, gpu)


def _idle_of(  # noqa: PLR0917 - what is known of a GPU
    device: _Device, gpu: Gpu, idle: _Idle, whole_ns: int, steps: list[int], flame: Evidence
) -> Conclusion:
    causes = {
        "host_not_launched": int(idle.host_ns.sum()),
        "in_the_launch_call": int(idle.call_ns.sum()),
        "launched_not_begun": int(idle.launched_ns.sum()),
        "unknown": int(idle.unknown_ns.sum()),
    }
    share = idle.total_ns / whole_ns
    text = (
        f"{_the(gpu)} was idle for {rounded_ns(idle.total_ns)} of {rounded_ns(whole_ns)}"
        f" ({percent(share)})"
    )
    most = max(causes, key=lambda name: causes[name])
    if idle.total_ns:
        time = rounded_ns(causes[most])
        text += {
            "host_not_launched": f": in {time} of that the host had not launched the next kernel",
            "in_the_launch_call": f": in {time} of that it waited for the call that launches",
            "launched_not_begun": f": in {time} of that the next kernel was launched and had not"
            " begun",
            "unknown": "; what launched the work was not recorded",
        }[most]
    longest = np.argsort(idle.start_ns - idle.end_ns, kind="stable")[:_MOST_STEPS]
    parts: dict[str, Any] = dict(causes)
    parts["range_ns"] = list(gpu.range_ns)
    parts["steps"] = {
        str(spans_name): [idle_ns, length_ns]
        for spans_name, idle_ns, length_ns in _idle_of_steps(device, gpu, steps)
    }
    return Conclusion(
        "gpu.idle",
        f"{text}.",
        idle.total_ns,
        share,
        idle.total_ns,
        evidence=(flame,),
        ranges=tuple((int(idle.start_ns[row]), int(idle.end_ns[row])) for row in longest.tolist()),
        parts=parts,
        is_notable=share > _IDLE_SAID,
    )


def _idle_of_steps(
    device: _Device, gpu: Gpu, steps: list[int]
) -> Iterator[tuple[str | None, int, int]]:
    spans = device.spans
    for row in steps[:_MOST_STEPS]:
        range_ns = int(spans.start_ns[row]), int(spans.end_ns[row])
        if range_ns[0] < range_ns[1]:
            idle = _idle(gpu, spans, range_ns)
            yield spans.name[row], idle.total_ns, range_ns[1] - range_ns[0]


def _the(gpu: Gpu) -> str:
    return "The GPU" if gpu.name == "GPU" else gpu.name


def _of(gpu: Gpu) -> str:
    return "the GPU" if gpu.name == "GPU" else gpu.name


def _longest_idle(
    subject: Subject, device: _Device, gpu: Gpu, idle: _Idle, whole_ns: int
) -> Conclusion:
    row = int(np.argmax(idle.end_ns - idle.start_ns))
    length_ns = int(idle.end_ns[row] - idle.start_ns[row])
    after = int(idle.ended_by[row])
    spans = device.spans
    next_name = spans.name[int(gpu.row[after])] if after < len(gpu.row) else None
    by_cause = {
        "before the host launched it": int(idle.host_ns[row]),
        "in the call that launched it": int(idle.call_ns[row]),
        "after it was launched": int(idle.launched_ns[row]),
    }
    most = max(by_cause, key=lambda name: by_cause[name])
    text = f"{_the(gpu)} was idle longest, for {rounded_ns(length_ns)}"
    launch = int(gpu.launch[after]) if after < len(gpu.launch) else -1
    if next_name is not None:
        text += f", before {_short(next_name)}"
        if launch >= 0:
            text += f": {rounded_ns(by_cause[most])} of it {most}"
            if most.startswith("in the call"):
                text += f" ({spans.name[launch]})"
    range_ns = int(idle.start_ns[row]), int(idle.end_ns[row])
    is_first = most.startswith("in the call") and by_cause[most] >= _FIRST_LAUNCH_NS
    return Conclusion(
        "gpu.longest_idle",
        f"{text}.",
        length_ns,
        length_ns / whole_ns,
        length_ns,
        evidence=(subject.command("flame", FILE, "--chart", "-o", "chart.svg", around=range_ns),),
        ranges=(range_ns,),
        parts={
            "before": next_name,
            "host_not_launched": int(idle.host_ns[row]),
            "in_the_launch_call": int(idle.call_ns[row]),
            "launched_not_begun": int(idle.launched_ns[row]),
        },
        is_notable=is_first or length_ns > _IDLE_SAID * whole_ns,
    )


def _short(name: str) -> str:
    """Return the name of a kernel without the arguments of its templates."""
    name = re.sub(r"^void ", "", name)
    return re.split(r"[<(]", name)[0].rpartition("::")[2].strip() or name[:60]


def _exposed(gpu: Gpu, whole_ns: int, flame: Evidence) -> Conclusion:
    communication = gpu.union(gpu.is_communication)
    compute = gpu.union(gpu.is_kernel & ~gpu.is_communication)
    total_ns = _length(communication)
    exposed_ns = _length(_union(communication, compute)) - _length(compute)
    share = exposed_ns / whole_ns
    return Conclusion(
        "gpu.exposed_communication",
        f"{rounded_ns(exposed_ns)} ({percent(share)}) of the time of {_of(gpu)}"
        f" was communication that no computation overlapped, of {rounded_ns(total_ns)} of"
        " communication.",
        exposed_ns,
        share,
        exposed_ns,
        "bound",
        evidence=(flame,),
        parts={
            "communication_ns": total_ns,
            "overlapped_ns": total_ns - exposed_ns,
            "exposed_ns": exposed_ns,
        },
        is_notable=share > _EXPOSED_SAID,
    )


def _short_kernels(subject: Subject, gpu: Gpu, *, is_idle: bool) -> Conclusion:
    # copies and sets are launched one by one too
    duration_ns = gpu.end_ns - gpu.start_ns
    short = duration_ns < _SHORT_NS
    count = int(short.sum())
    share = count / len(duration_ns)
    return Conclusion(
        "gpu.short_kernels",
        f"{percent(share)} of the kernels, copies and sets of {_of(gpu)} took"
        f" less than {rounded_ns(_SHORT_NS)} ({count:,} of {len(duration_ns):,}): launching them"
        " takes as long.",
        int(duration_ns[short].sum()),
        share,
        certainty="inferred",
        evidence=(subject.command("stats", FILE, "--by", "name"),),
        parts={"short": count, "all": len(duration_ns)},
        # a GPU that is never idle hides how long launches take
        is_notable=share > _SHORT_SAID and is_idle,
    )


def _copies(subject: Subject, device: _Device, gpu: Gpu) -> Conclusion:
    busy_ns = _length(gpu.union())
    copied_ns = _length(gpu.union(gpu.is_copy))
    pageable = device.named(_PAGEABLE)[gpu.row] & gpu.is_copy
    pageable_ns = _length(gpu.union(pageable))
    share = copied_ns / busy_ns if busy_ns else 0.0
    text = (
        f"{rounded_ns(copied_ns)} ({percent(share)}) of the {rounded_ns(busy_ns)} that"
        f" {_of(gpu)} worked were copies"
    )
    if pageable_ns > copied_ns / 2:
        text += f", {rounded_ns(pageable_ns)} of them from or to pageable memory: pinned memory is"
        text += " copied faster"
    return Conclusion(
        "gpu.copies",
        f"{text}.",
        copied_ns,
        share,
        evidence=(subject.command("stats", FILE, "--by", "name"),),
        parts={"pageable_ns": pageable_ns, "busy_ns": busy_ns},
        is_notable=share > _COPIES_SAID,
    )


def _of_host(subject: Subject, device: _Device) -> Iterator[Conclusion]:
    """Yield how long the host waited for GPUs, and which call took longest."""
    spans = device.spans
    calls = device.of("call")
    waits = np.flatnonzero(calls & device.named(_SYNC))
    low = min(gpu.range_ns[0] for gpu in device.gpus)
    high = max(gpu.range_ns[1] for gpu in device.gpus)
    whole_ns = high - low
    duration_ns = spans.end_ns - spans.start_ns
    if len(waits) and whole_ns >= _LEAST_NS:
        # what the host waits for before the first and after the last work is not the GPU
        begins = np.clip(spans.start_ns[waits], low, high)
        ends = np.clip(spans.end_ns[waits], low, high)
        # threads that wait at once are one host that waits
        total_ns = _length(stretches(*in_order(begins, ends), 1))
        worst = int(waits[np.argmax(duration_ns[waits])])
        name = str(spans.name[worst])
        share = total_ns / whole_ns
        yield Conclusion(
            "host.waits_for_gpu",
            f"The host waited {rounded_ns(total_ns)} ({percent(share)}) for the GPU in"
            f" {counted(len(waits), 'call')}, most in {name}: there the host is not the limit.",
            total_ns,
            share,
            evidence=(Evidence(f"span {int(spans.rows[worst])}", ("stats", FILE, "--by", "name")),),
            ranges=((int(spans.start_ns[worst]), int(spans.end_ns[worst])),),
            parts={"calls": len(waits)},
            is_notable=share > _SYNC_SAID,
        )
    launches = np.unique(np.concatenate([gpu.launch[gpu.launch >= 0] for gpu in device.gpus]))
    if len(launches):
        worst = int(launches[np.argmax(duration_ns[launches])])
        length_ns = int(duration_ns[worst])
        yield Conclusion(
            "host.longest_launch",
            f"A call of {spans.name[worst]} took {rounded_ns(length_ns)}, as the first launch may,"
            " which loads the code of kernels.",
            length_ns,
            length_ns / whole_ns,
            certainty="inferred",
            evidence=(
                subject.command(
                    "flame",
                    FILE,
                    "--chart",
                    "-o",
                    "chart.svg",
                    around=(int(spans.start_ns[worst]), int(spans.end_ns[worst])),
                    handle=f"span {int(spans.rows[worst])}",
                ),
            ),
            ranges=((int(spans.start_ns[worst]), int(spans.end_ns[worst])),),
            is_notable=length_ns >= _FIRST_LAUNCH_NS and length_ns > _IDLE_SAID * whole_ns,
        )
