"""`meantime heatmap`: activity by its offset in each second."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.inputs import expanded, import_numpy, mapped, notify, offsets_of
from meantime.cli.options import (
    Documented,
    file_argument,
    given,
    hosts_options,
    input_options,
    json_option,
    once,
    options_of,
    output_option,
    reject,
    zone_option,
)
from meantime.cli.output import write
from meantime.cli.progress import count_bar, progress_bar
from meantime.cli.tables import Column, print_table
from meantime.cli.terminal import is_styled
from meantime.errors import UsageError
from meantime.model.anomalies import check_strictness
from meantime.model.units import format_ns
from meantime.view_functions.heatmap_options import HeatmapArguments
from meantime.views.heatmap import refuse_ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from meantime.query.offsets import Finding
    from meantime.query.offsets.box import Against
    from meantime.views.heatmap.view import HeatmapView

__all__ = ["command"]

_FORMATS = ("svg", "html", "png", "json")
_PAGES = ("svg", "html")
# Options that have no effect on an output: .json has every name and no colours.
_SELECTING = ("highlight", "isolate", "exclude", "decompose")
_COLOURING = ("color", "palette", "hues", "scale", "title")
_NOT_OF_TABLES = ("to_format", "stacks", "idle", *_SELECTING, *_COLOURING)
_UNUSED = {
    "json": ("highlight", "decompose", "stacks", *_COLOURING),
    "png": ("stacks",),
    "terminal": ("title", "scale", "stacks"),
    "findings": _NOT_OF_TABLES,
    "comparison": _NOT_OF_TABLES,
}
_OUTPUTS = {
    "json": ".json",
    "png": ".png",
    "terminal": "the terminal",
    "findings": "--find without -o",
    "comparison": "--during and --between without -o",
}
_SEVERAL = ("assume_aligned", "jobs", "client")


@click.command(
    "heatmap",
    epilog="Example:  meantime heatmap perf.txt.gz --highlight tick1s,tick2s -o perf.svg",
)
@input_options
@file_argument("inputs", "INPUT...", nargs=-1, required=True)
@output_option(
    "FILE",
    "Output file: .svg, .html, .png or .json.  [the terminal]",
    more="`.svg` and `.html` are pages, `.json` has [every cell](json.md), `.png` needs Pillow:"
    " `meantime[png]`.",
)
@once(
    "--to-format",
    "to_format",
    type=click.Choice(_FORMATS),
    help="Output format.  [the suffix of FILE]",
)
@options_of(HeatmapArguments)
@click.option("--weight", is_flag=True, help="Same as --value weight: perf's sample period.")
@zone_option
@hosts_options
@click.option(
    "--hosts",
    cls=Documented,
    is_flag=True,
    help="Inputs are hosts: group by host without --by, and leave out and report those that cannot"
    " be read.",
    more="They are called as their files ([how to](../how-to/look-at-many-hosts.md)); with"
    " `--strict` one that cannot be read is an error.",
)
@click.option(
    "--find",
    cls=Documented,
    is_flag=True,
    help="Report periods, stripes, gaps, bursts, what ran in the gaps, or what is apart; draw"
    " only with -o.",
    more="Gaps are stops of everything or of some names. Durations and shares are apart that are"
    " few, and far from all others.",
)
@once(
    "--during",
    metavar="FROM..TO",
    help="Print what distinguishes what is in these columns from the rest: times, or hours.",
)
@once(
    "--between",
    metavar="LOW..HIGH",
    help="Print what distinguishes what is in these rows from the rest: 10ms..1s, 95%..100%, or"
    " names.",
)
@json_option
def command(
    *,
    inputs: tuple[str, ...],
    output: str | None,
    to_format: str | None,
    weight: bool,
    offsets: tuple[str, ...],
    find: bool,
    during: str | None,
    between: str | None,
    as_json: bool,
    client: str | None,
    hosts: bool,
    **options: Any,
) -> None:
    """Draw a subsecond-offset heat map: activity by its offset in each second."""
    check_strictness(lenient=options["lenient"], strict=options["strict"])
    value = options["value"]
    is_compared = during is not None or between is not None
    table = "findings" if find else "comparison" if is_compared else None
    form = table if table and output is None else _form(output, to_format)
    paths = expanded(inputs)
    _check(form, paths, value, options["scale"], find=find, y=options["y"])
    if options["hues"] and options["palette"] != "cloud-analytics":
        raise UsageError("--hues applies to --palette cloud-analytics")
    if is_compared and options["y"] == "offset":
        raise UsageError("--during and --between apply to other rows than offsets; give --y")
    if is_compared and not options["stacks"]:
        raise UsageError("--no-stacks leaves out what --during and --between compare")
    if as_json and not (find or is_compared):
        raise UsageError("--json applies to --find and --between; -o x.json writes the cells")
    if weight and value not in {None, "weight"}:
        raise UsageError(f"--weight and --value {value} are mutually exclusive")
    offsets_ns = offsets_of(offsets, paths)
    options |= {
        "value": "weight" if weight else value,
        "stacks": is_compared or (form in _PAGES and options["stacks"]),
        "intact": True,
        "notify": notify,
    }
    import_numpy()
    view = (_of_hosts if hosts else _of_inputs)(paths, offsets_ns, client, **options)
    if find:
        _print_findings(view.findings, as_json=as_json)
    if is_compared:
        _print_against(view.against_rest(during=during, between=between), view, as_json=as_json)
    if form == table:
        return
    if form == "terminal":
        from shutil import get_terminal_size  # noqa: PLC0415 - imports archive formats, 4 ms

        width, _ = get_terminal_size()
        chunks: Iterable[bytes] = view.terminal(width, color=is_styled(sys.stdout))
    else:
        chunks = view.render(form)
    write(output or "-", chunks, paths)


def _of_inputs(
    paths: Sequence[str], offsets: Mapping[int, int], client: str | None, **options: Any
) -> HeatmapView:
    from meantime.shards import client_of  # noqa: PLC0415 - as below
    from meantime.view_functions.heatmap import heatmap  # noqa: PLC0415 - NumPy is not for --help

    # of several inputs, how many are read
    bar = nullcontext() if len(paths) == 1 else count_bar("reading inputs")
    with bar as done:
        return heatmap(
            [mapped(path) for path in paths],
            offsets=offsets,
            client=None if client is None else client_of(client),
            done=done,
            progress=progress_bar if len(paths) == 1 else None,
            **options,
        )


def _of_hosts(
    paths: Sequence[str], offsets: Mapping[int, int], client: str | None, **options: Any
) -> HeatmapView:
    from meantime.fleet import Fleet  # noqa: PLC0415 - NumPy is not for --help
    from meantime.model.clocks import Clock  # noqa: PLC0415 - as below
    from meantime.view_functions.joining import host_names  # noqa: PLC0415 - as above

    # the machines' names are known only once all were opened
    names, _ = host_names([Clock()] * len(paths), paths)
    names_of_fleet = ("assume_aligned", "provider", "lenient", "strict", "jobs")
    of_fleet = {name: options.pop(name) for name in names_of_fleet}
    options["by"] = options["by"] or "host"
    with count_bar("reading hosts") as done:
        fleet = Fleet(
            [mapped(path) for path in paths],
            client,
            names=names,
            offsets=offsets,
            done=done,
            **of_fleet,
        )
        view, anomalies = fleet.heatmap(**options)
    for host, reason in anomalies:
        notify(f"left out: {host}: {reason}")
    return view


def _check(
    form: str, inputs: Sequence[str], value: str | None, scale: str, *, find: bool, y: str
) -> None:
    """Check that each option applies to what is written, and to the number of inputs.

    Raises:
        UsageError: If one does not.
    """
    reject(_UNUSED.get(form, ()), _OUTPUTS.get(form, ""))
    if find and y in {"row", "weekday"}:
        raise UsageError(f"--find does not apply to --y {y}")
    if len(inputs) == 1:
        reject(_SEVERAL, "a single input")
    refuse_ratio(value, form)
    if scale not in {"auto", "lock"} and given(["color"]):
        raise UsageError("--color and a number for --scale are mutually exclusive")


def _form(output: str | None, to_format: str | None) -> str:
    """Return the output format, from the option or the file's suffix.

    Raises:
        UsageError: If neither gives one.
    """
    if to_format:
        return to_format
    if output is None:
        return "terminal"
    suffix = Path(output).suffix.lower()[1:]
    if suffix in _FORMATS:
        return suffix
    listed = ", ".join(f".{form}" for form in _FORMATS)
    raise UsageError(
        f"cannot infer the format from {output!r}; use one of {listed}, or --to-format"
    )


def _print_against(against: Against, view: HeatmapView, *, as_json: bool) -> None:
    if as_json:
        rows = [each._asdict() for each in against.differences]
        click.echo(json.dumps({**against._asdict(), "differences": rows}))
        return
    if not against.differences:
        click.echo("nothing distinguishes the selected cells from the rest")
        return

    def amount(value: int) -> str:
        return format_ns(value) if view.data.value == "ns" else f"{value:,}"

    print_table(
        f"{amount(against.inside)} in {against.rows_in_words}, against {amount(against.outside)} in"
        " the rest",
        [
            Column("attribute"),
            Column("value"),
            Column("selected", numeric=True),
            Column("share", numeric=True),
            Column("rest", numeric=True),
            Column("share", numeric=True),
        ],
        [
            [
                each.attribute,
                each.value,
                amount(each.inside),
                f"{each.inside_share:.1%}",
                amount(each.outside),
                f"{each.outside_share:.1%}",
            ]
            for each in against.differences
        ],
    )


def _print_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"findings": [asdict(finding) for finding in findings]}))
        return
    if not findings:
        click.echo("nothing stands out")
        return
    print_table(
        "What stands out",
        [Column("kind"), Column("finding", prose=True)],
        [[finding.kind, finding.sentence] for finding in findings],
    )
