"""`meantime flame`: a flame graph or chart."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING

import click

from meantime.cli.convert import report
from meantime.cli.inputs import load
from meantime.cli.options import once
from meantime.cli.parts import against as compared_with
from meantime.cli.parts import part_of, thread_option
from meantime.errors import InputError, UsageError
from meantime.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meantime.cli.parts import Against, Part
    from meantime.history.samples import SampleTable
    from meantime.query.stacks import CallTree, Difference

__all__ = ["command"]

_SUFFIXES = (".svg", ".json", ".txt", ".folded")


@click.command(
    "flame", epilog="Example:  meantime flame trace.json.gz --from 1s --to 2s -o out.svg"
)
@click.argument("file", metavar="FILE")
@once("-o", "--output", metavar="OUT", help="The result: .svg, .json or .txt.")
@once("--from", "from_", metavar="TIME", help="Where the range begins.")
@once("--to", "to", metavar="TIME", help="Where the range ends.")
@thread_option
@click.option("--whole", is_flag=True, help="Count spans whole that stick out of the range.")
@once(
    "--against",
    metavar="FROM..TO|FILE",
    help="Colour by the change of share since this range, or since another trace.",
)
@click.option("--elided", is_flag=True, help="Only what --against has and is gone here.")
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
    threads: tuple[str, ...],
    whole: bool,
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
    from meantime.query.threads import thread_quarks  # noqa: PLC0415 - as above
    from meantime.query.trees import call_tree  # noqa: PLC0415 - as above

    _, history = load(file, lenient=lenient)
    if not len(history.spans()) and not len(history.samples()):
        raise InputError(file, "there are no spans and no samples to draw")
    asked = part_of(history, from_, to, threads)
    title = history.title or PurePath(file).name
    if chart:
        if not len(history.spans()):
            raise InputError(file, "there are no spans, which a chart draws; leave out --chart")
        write(output, [_drawn_chart(asked, title)])
        return

    def counted(part: Part) -> tuple[CallTree, str]:
        if band_ns is not None or event is not None:
            return _sampled(file, part, band_ns, period_ns, event)
        start_ns, end_ns = part.start_ns, part.end_ns
        return call_tree(part.history, part.threads, start_ns=start_ns, end_ns=end_ns, whole=whole)

    if not len(thread_quarks(history)) and not len(history.samples()):
        raise InputError(
            file, "all spans are of async operations: no flame graph holds those, --chart does"
        )
    tree, unit = counted(asked)
    lost: Counter[str] = Counter()
    if compared_to is None:
        write(output, _written(tree, unit, title, suffix, lost))
    else:
        before, unit_before = counted(compared_to.part(history, threads, lenient=lenient))
        if unit != unit_before and len(tree) and len(before):
            raise UsageError(f"they count {unit} and {unit_before}; choose with --event")
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


def _against(text: str | None, suffix: str, *, elided: bool, chart: bool) -> Against | None:
    """Return what is compared against.

    Raises:
        UsageError: If that is not clear, or what is asked for cannot show a comparison.
    """
    if text is None:
        if elided:
            raise UsageError("--elided needs --against, the range or trace that is looked into")
        return None
    if chart:
        raise UsageError("--against compares flame graphs; leave out --chart")
    if suffix == ".json" and not elided:
        raise UsageError("a comparison is written as .svg, .txt or .folded; or add --elided")
    return compared_with(text)


def _compared(
    both: Difference, unit: str, title: str, suffix: str, lost: Counter[str]
) -> Iterable[bytes]:
    if suffix == ".svg":
        from meantime.views.flame import svg  # noqa: PLC0415 - as above
        from meantime.views.flame.data import compared  # noqa: PLC0415 - as above

        return [svg.render(compared(both, title=title, unit=unit))]
    from meantime.views.export.folded import compared_lines  # noqa: PLC0415 - as above

    return compared_lines(both, lost)


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
    part: Part,
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
    from meantime.query.trees import sample_unit  # noqa: PLC0415 - as above

    samples: SampleTable = part.history.samples(
        part.threads, start_ns=part.start_ns, end_ns=part.end_ns
    )
    if event is not None:
        samples = samples_of_event(samples, event)
    if band_ns is not None:
        samples = samples_in_band(samples, band_ns, period_ns)
    if not len(samples):
        raise InputError(file, "there are no samples in this part of it")
    return sample_tree(samples), sample_unit(samples)


def _drawn_chart(part: Part, title: str) -> bytes:
    from meantime.views.flame import svg  # noqa: PLC0415 - as above
    from meantime.views.flame.data import chart  # noqa: PLC0415 - as above

    history, start_ns, end_ns, threads = part
    drawn = chart(history, threads, title=title, start_ns=start_ns, end_ns=end_ns)
    return svg.render(drawn)


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
    from meantime.query.stacks import refuse_endless  # noqa: PLC0415 - as above

    refuse_endless(tree)
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
