"""`meantime flame`: a flame graph or chart."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING

import click

from meantime.cli.convert import report
from meantime.cli.inputs import load, resolve
from meantime.cli.options import once
from meantime.errors import InputError, TimeRangeError, UsageError
from meantime.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meantime.history.history import History
    from meantime.history.samples import SampleTable
    from meantime.query.stacks import CallTree, Difference

__all__ = ["command"]

_IN_TIME = {"wall", "cpu-clock", "task-clock", "on-cpu", "off-cpu"}
_SUFFIXES = (".svg", ".json", ".txt", ".folded")


@click.command(
    "flame", epilog="Example:  meantime flame trace.json.gz --from 1s --to 2s -o out.svg"
)
@click.argument("file", metavar="FILE")
@once("-o", "--output", metavar="OUT", help="The result: .svg, .json or .txt.")
@once("--from", "from_", metavar="TIME", help="Where the range begins.")
@once("--to", "to", metavar="TIME", help="Where the range ends.")
@once("--against", metavar="FROM..TO", help="Colour by the change of share since this range.")
@click.option("--elided", is_flag=True, help="Only what is in the range of --against and now gone.")
@once("--offset", metavar="FROM..TO", help="Only samples at these offsets of every period.")
@once("--period", metavar="TIME", default="1s", help="The period of --offset.  [1s]")
@once("--event", metavar="NAME", help="Only samples of this event.")
@click.option("--chart", is_flag=True, help="Draw the spans of each thread in the order of time.")
@click.option("--lenient", is_flag=True, help="Skip and count what cannot be read.")
def command(
    *,
    file: str,
    output: str | None,
    from_: str | None,
    to: str | None,
    against: str | None,
    elided: bool,
    offset: str | None,
    period: str,
    event: str | None,
    chart: bool,
    lenient: bool,
) -> None:
    """Draw where the time went: a flame graph, or with --chart a flame chart."""
    suffix = _suffix(output, chart=chart)
    compared_to = _against(against, suffix, elided=elided, chart=chart)
    assert output is not None
    band_ns, period_ns = _band(offset), parse_duration(period)
    from meantime.cli.output import write  # noqa: PLC0415 - only once the command line is sound
    from meantime.query.stacks import difference, gone  # noqa: PLC0415 - NumPy, not for --help

    _, history = load(file, lenient=lenient)
    if not len(history.spans()) and not len(history.samples()):
        raise InputError(file, "there are no spans and no samples to draw")
    start_ns, end_ns = _range(history, from_, to)
    title = history.title or PurePath(file).name
    if chart:
        if not len(history.spans()):
            raise InputError(file, "there are no spans, which a chart draws; leave out --chart")
        write(output, [_drawn_chart(history, title, start_ns, end_ns)])
        return

    def part(start_ns: int, end_ns: int) -> tuple[CallTree, str]:
        if band_ns is None and event is None:
            return _tree(history, start_ns, end_ns)
        samples = history.samples(start_ns=start_ns, end_ns=end_ns)
        return _sampled(file, samples, band_ns, period_ns, event)

    tree, unit = part(start_ns, end_ns)
    lost: Counter[str] = Counter()
    if compared_to is None:
        write(output, _written(tree, unit, title, suffix, lost))
    else:
        before, unit_before = part(*_range(history, *compared_to))
        if unit != unit_before and len(tree) and len(before):
            raise UsageError(f"the ranges count {unit} and {unit_before}; choose with --event")
        both = difference(before, tree)
        if elided:
            write(output, _written(gone(both), unit, f"{title}: gone", suffix, lost))
        else:
            write(output, _compared(both, unit, title, suffix, lost))
    report(lost)


def _suffix(output: str | None, *, chart: bool) -> str:
    """Return what kind of file is to be written.

    Raises:
        UsageError: If its name does not say it, or it cannot hold a chart.
    """
    if output is None:
        raise UsageError("say with -o where the output goes: a name in .svg, .json or .txt")
    suffix = PurePath(output).suffix
    if suffix not in _SUFFIXES:
        raise UsageError(f"{output!r} must end in one of {', '.join(_SUFFIXES)}")
    if chart and suffix != ".svg":
        raise UsageError("--chart draws .svg; meantime convert writes the spans of a trace")
    return suffix


def _against(text: str | None, suffix: str, *, elided: bool, chart: bool) -> tuple[str, str] | None:
    """Return the two times of the range that is compared against.

    Raises:
        UsageError: If it is not two times, or what is asked for cannot show a comparison.
    """
    if text is None:
        if elided:
            raise UsageError("--elided needs --against FROM..TO, the range that is looked into")
        return None
    if chart:
        raise UsageError("--against compares flame graphs; leave out --chart")
    if suffix == ".json" and not elided:
        raise UsageError("a comparison is written as .svg, .txt or .folded; or add --elided")
    first, dots, last = text.partition("..")
    if not (dots and first and last):
        raise UsageError(f"--against {text!r}: write two times, such as 10s..20s")
    return first, last


def _range(history: History, from_: str | None, to: str | None) -> tuple[int, int]:
    """Return the range that two times mean; where one is missing, the history's own bound.

    Raises:
        TimeRangeError: If it is empty.
    """
    start_ns, end_ns = history.bounds
    if from_ is not None:
        start_ns = resolve(from_, history.clock) or 0
    if to is not None:
        end_ns = resolve(to, history.clock) or 0
    if start_ns >= end_ns:
        raise TimeRangeError(f"the range from {start_ns} ns to {end_ns} ns is empty")
    return start_ns, end_ns


def _compared(
    both: Difference, unit: str, title: str, suffix: str, lost: Counter[str]
) -> Iterable[bytes]:
    if suffix == ".svg":
        from meantime.views.flame import svg  # noqa: PLC0415 - as above
        from meantime.views.flame.data import compared  # noqa: PLC0415 - as above

        return [svg.render(compared(both, title=title, unit=unit))]
    from meantime.views.export.folded import compared_lines  # noqa: PLC0415 - as above

    return compared_lines(both, lost)


def _tree(history: History, start_ns: int, end_ns: int) -> tuple[CallTree, str]:
    from meantime.query.stacks import sample_tree, span_tree  # noqa: PLC0415 - NumPy, not for --help
    from meantime.query.threads import thread_quarks  # noqa: PLC0415 - as above

    spans = history.spans(thread_quarks(history), start_ns=start_ns, end_ns=end_ns)
    if len(history.spans()):
        return span_tree(spans, start_ns=start_ns, end_ns=end_ns), "ns"
    samples = history.samples(start_ns=start_ns, end_ns=end_ns)
    return sample_tree(samples), _unit(samples)


def _unit(samples: SampleTable) -> str:
    events = set(samples.event.to_list())
    # perf writes how precise it was asked to be after the event: cpu-clock:ppp
    in_time = {str(event).partition(":")[0] for event in events} <= _IN_TIME
    return "ns" if in_time else "/".join(sorted(map(str, events)))


def _band(text: str | None) -> tuple[int, int] | None:
    """Return the offsets that FROM..TO means.

    Raises:
        UsageError: If it is not two times.
    """
    if text is None:
        return None
    low, dots, high = text.partition("..")
    if not dots:
        raise UsageError(f"--offset {text!r}: write two times, such as 0.25s..0.28s")
    return parse_duration(low), parse_duration(high)


def _sampled(
    file: str,
    samples: SampleTable,
    band_ns: tuple[int, int] | None,
    period_ns: int,
    event: str | None,
) -> tuple[CallTree, str]:
    """Return the tree of some of the samples, and what they count.

    Raises:
        InputError: If there are none.
    """
    from meantime.query.offsets import samples_in_band, samples_of_event  # noqa: PLC0415 - as above
    from meantime.query.stacks import sample_tree  # noqa: PLC0415 - as above

    if event is not None:
        samples = samples_of_event(samples, event)
    if band_ns is not None:
        samples = samples_in_band(samples, band_ns, period_ns)
    if not len(samples):
        raise InputError(file, "there are no samples in this part of it")
    return sample_tree(samples), _unit(samples)


def _drawn_chart(history: History, title: str, start_ns: int, end_ns: int) -> bytes:
    from meantime.views.flame import svg  # noqa: PLC0415 - as above
    from meantime.views.flame.data import chart  # noqa: PLC0415 - as above

    return svg.render(chart(history, title=title, start_ns=start_ns, end_ns=end_ns))


def _written(
    tree: CallTree, unit: str, title: str, suffix: str, lost: Counter[str]
) -> Iterable[bytes]:
    if suffix == ".svg":
        from meantime.views.flame import svg  # noqa: PLC0415 - as above
        from meantime.views.flame.data import graph  # noqa: PLC0415 - as above

        return [svg.render(graph(tree, title=title, unit=unit))]
    if suffix == ".json":
        return _speedscope(tree, unit, title)
    from meantime.views.export.folded import folded_lines  # noqa: PLC0415 - as above

    return folded_lines(tree, lost)


def _speedscope(tree: CallTree, unit: str, title: str) -> Iterator[bytes]:
    """Yield the tree as one sampled profile, a sample per stack."""
    rows = [row for row, own in enumerate(tree.own.tolist()) if own > 0]
    frames: dict[str, int] = {}
    samples = [
        [frames.setdefault(name, len(frames)) for name in tree.stacks.frames_of(row)]
        for row in rows
    ]
    weights = [int(tree.own[row]) for row in rows]
    profile = {
        "type": "sampled",
        "name": title,
        "unit": "nanoseconds" if unit == "ns" else "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": title,
        "exporter": "meantime",
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": [profile],
    }
    yield json.dumps(document).encode() + b"\n"
