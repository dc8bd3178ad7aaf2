"""`meantime statemap`: the options of the original statemap, and a few more."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

import click
from click.core import ParameterSource

from meantime.anomalies import check_strictness
from meantime.attribute_paths import HOSTS
from meantime.cli.inputs import (
    expanded,
    import_numpy,
    is_statemap,
    load,
    load_hosts,
    offsets_of,
)
from meantime.cli.options import (
    file_argument,
    filter_option,
    given,
    hosts_options,
    input_options,
    lenient_option,
    once,
    output_option,
    provider_option,
    reject,
    strict_option,
    zone_option,
)
from meantime.cli.output import write
from meantime.cli.window import parse_window
from meantime.clocks import Clock
from meantime.errors import InputError, UsageError
from meantime.extent import Extent, current_zone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.anomalies import Anomalies
    from meantime.history import History
    from meantime.units import Instant
    from meantime.views.statemap import Commands, StatemapOptions

__all__ = ["command"]

_WINDOW = {"begin", "end", "duration", "from_", "to"}
_NOT_IN_COMMANDS = {
    *("files", "output", "coalesce", "dry_run", "strict", "jobs", "client"),
    *_WINDOW,
}
_OF_HOSTS = ("assume_aligned", "jobs", "client")
_IN_STATS = {"provider", "lenient"}
# The times of statemap data count from its `start`, which is known before it is read.
_STATEMAP = Extent(0, 0, Clock())
_NUMBER = re.compile(r"[+-]?[0-9.]+")
_EXAMPLES = """\b
Examples:
  meantime statemap disks.statemap -o disks.svg
  meantime statemap -b 1.5s -d 200ms -s waiting pg.statemap.gz > window.svg
  meantime statemap -o both.svg cpus.statemap disks.statemap
"""


class _Statemap(click.Command):
    """Accepts the original's `-h PX` for the height of a row, beside `-h` for help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        words = args[: args.index("--")] if "--" in args else args
        height = [
            "--state-height" if word == "-h" and _NUMBER.fullmatch(after) else word
            for word, after in zip(words, [*words[1:], ""], strict=False)
        ]
        return super().parse_args(ctx, height + args[len(words) :])


@click.command(
    "statemap",
    cls=_Statemap,
    epilog=_EXAMPLES,
)
@input_options
@file_argument("files", "FILE...", nargs=-1)
@output_option("OUT", "Output file: .svg or .json, or - for standard output.")
@once("-b", "--begin", metavar="TIME", help="Start of the map.")
@once("-e", "--end", metavar="TIME", help="End of the map.")
@once("-d", "--duration", metavar="TIME", help="Length of the map.")
@once(
    "-c",
    "--coalesce",
    metavar="N",
    help="Merge short states until each map has at most N rectangles; totals stay exact."
    "  [no merging up to 5 million intervals]",
)
@once("-s", "--sortby", metavar="STATE", help="Sort rows by time in this state.  [entity]")
@once("-S", "--stacksortby", metavar="STATE", help="Sort stacked maps by time in this state.")
@click.option("-i", "--ignore-tags", "--ignoreTags", is_flag=True, help="Ignore all tags.")
@once(
    "-H",
    "--state-height",
    "--stateHeight",
    metavar="PX",
    default="10",
    help="Height of a row in pixels.  [10]",
)
@filter_option
@click.option(
    "--unpacked", is_flag=True, help="Draw a row for each task, instead of rows that tasks share."
)
@once("--from", "from_", metavar="TIME", help="Same as -b.")
@once("--to", "to", metavar="TIME", help="Same as -e.")
@zone_option
@click.option(
    "--hosts",
    is_flag=True,
    help="Draw the FILEs as hosts in one map, instead of a map for each.",
)
@hosts_options
@provider_option
@once("--title", metavar="TEXT", help="Title of the picture.  [that of the data]")
@lenient_option
@strict_option
@click.option("-n", "--dry-run", is_flag=True, help="Print the summary without drawing.")
def command(
    *,
    files: tuple[str, ...],
    output: str | None,
    begin: str | None,
    end: str | None,
    duration: str | None,
    coalesce: str | None,
    sortby: str | None,
    stacksortby: str | None,
    ignore_tags: bool,
    state_height: str,
    pattern: str | None,
    unpacked: bool,
    from_: str | None,
    to: str | None,
    hosts: bool,
    offsets: tuple[str, ...],
    assume_aligned: bool,
    jobs: int,
    client: str | None,
    provider: str | None,
    title: str | None,
    lenient: bool,
    strict: bool,
    dry_run: bool,
) -> None:
    """Draw a statemap of each FILE, one above the other, as an interactive SVG.

    \b
    Rows are entities, the X axis is time, colours are states.
    TIME is a number with ns (assumed), us, ms, s, m, min, h or d.
    FILE may be - or a quoted pattern, and may be compressed with gzip, xz, bzip2
    or zstd.
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    check_strictness(lenient=lenient, strict=strict)
    if not files:
        raise UsageError("must specify a data file")
    asked = parse_window(_one_of("begin", begin, from_), _one_of("end", end, to), duration)
    limit = None if coalesce is None else _whole_number("coalesce factor", coalesce)
    height_px = _whole_number("state height", state_height)
    files = tuple(expanded(files))
    offsets_ns = offsets_of(offsets, files)
    if not hosts:
        reject(_OF_HOSTS, "maps of their own; add --hosts")
    if dry_run:
        reject(("output", "title"), "--dry-run")
    target = None if dry_run else _target(output)
    if target is not None and target.kind == "json":
        reject(("state_height", "title"), ".json")

    import_numpy()
    from meantime.query.parts import extent_of  # noqa: PLC0415 - NumPy is not for --help
    from meantime.query.sampled_states import with_sampled_states  # noqa: PLC0415 - as above
    from meantime.views.statemap import (  # noqa: PLC0415 - as above
        HistoryProblem,
        StatemapOptions,
    )

    options = StatemapOptions(
        coalesce=limit,
        sort_by=sortby,
        stack_sort_by=stacksortby,
        filter=pattern,
        packed=not unpacked,
        ignore_tags=ignore_tags,
        state_height_px=height_px,
        offsets_ns={} if hosts else offsets_ns,
    )
    labels = list(files)
    if hosts:
        joined = with_sampled_states(
            load_hosts(
                files,
                client,
                offsets=offsets_ns,
                assume_aligned=assume_aligned,
                provider=provider,
                lenient=lenient,
                strict=strict,
                jobs=jobs,
            )
        )
        opened = [joined]
        labels = [f"{len(joined.quarks(f'{HOSTS}/*')):,} of {len(files):,} hosts"]
    else:
        if provider is None and target is not None:
            _check_states(files, options, lenient=lenient)
        end_ns = asked.window(_STATEMAP)[1] if asked.is_relative else None
        # the windows of other files depend on their clocks, which are known once they are read
        opened = [
            _open(file, provider, lenient=lenient)
            if number
            else _open(file, provider, lenient=lenient, ends=asked.ends, end_ns=end_ns)
            for number, file in enumerate(files)
        ]
    extent = extent_of(opened[0])
    begin_ns, end_ns = asked.window(extent)
    extent.check_overlap(begin_ns, end_ns)
    options = replace(options, begin_ns=begin_ns, end_ns=end_ns)
    try:
        counts = _drawn(files, labels, opened, options, target, title=title, strict=strict)
    except HistoryProblem as problem:
        raise InputError(labels[problem.history], str(problem)) from None
    for label, history, (rectangles, anomalies) in zip(labels, opened, counts, strict=True):
        name = PurePath(label).name
        click.echo(
            f"{name}: {history.metadata.records} records processed, {rectangles} rectangles",
            err=True,
        )
        for line in anomalies.lines():
            click.echo(f"{name}: {line}", err=True)


def _check_states(files: Sequence[str], options: StatemapOptions, *, lenient: bool) -> None:
    """Check colors and the states to sort by in files that define them at their beginning.

    Raises:
        InputError: If a file has an illegal color.
        MeantimeError: If there is no such state.
    """
    from meantime.readers import statemap  # noqa: PLC0415 - NumPy is not for --help
    from meantime.readers.source import open_source  # noqa: PLC0415 - as above
    from meantime.views.statemap import HistoryProblem, check_states  # noqa: PLC0415 - as above

    defined, of_file = [], []
    for file in files:
        if not Path(file).is_file():
            continue
        with open_source(file) as source:
            states = statemap.defined_states(source, lenient=lenient)
        if states is not None:
            defined.append(states)
            of_file.append(file)
    if not defined:
        return
    try:
        check_states(defined, options)
    except HistoryProblem as problem:
        raise InputError(of_file[problem.history], str(problem)) from None


def _open(
    file: str,
    provider: str | None,
    *,
    lenient: bool,
    ends: tuple[Instant | None, Instant | None] = (None, None),
    end_ns: int | None = None,
) -> History:
    """Load a file; as in the original, data after the end of the window may be malformed.

    Args:
        file: The file.
        provider: Its provider.
        lenient: Whether records that cannot be read are skipped.
        ends: Begin and end of the window: other states are not needed.
        end_ns: The end in the times of a statemap file, if it is known.

    Raises:
        InputError: If it cannot be read up to there.
    """
    from meantime.query.sampled_states import with_sampled_states  # noqa: PLC0415 - NumPy is not for --help

    start, end = ends
    try:
        return with_sampled_states(
            load(file, lenient=lenient, provider=provider, start=start, end=end)
        )
    except InputError:
        if not end_ns or provider is not None or not is_statemap(file):
            raise
    history = load(file, lenient=lenient, until_ns=end_ns, start=start, end=end)
    history.anomalies.add("unread_after_end")
    return history


def _drawn(
    files: Sequence[str],
    labels: Sequence[str],
    histories: Sequence[History],
    options: StatemapOptions,
    target: Target | None,
    *,
    title: str | None,
    strict: bool,
) -> list[tuple[int, Anomalies]]:
    """Write the document, if wanted; return the rectangles and anomalies of each history.

    Args:
        files: The inputs.
        labels: What messages call each history.
        histories: The histories: of the inputs, or the one that joins them.
        options: What is drawn.
        target: Where the document is written.
        title: Its title.
        strict: Whether anomalies are errors.

    Raises:
        InputError: If `strict` and there is an anomaly, or the filter leaves nothing to draw; then
            nothing is written.
        TimeRangeError: If there is nothing in the window.
    """
    from meantime.anomalies import Anomalies  # noqa: PLC0415 - only once something is drawn
    from meantime.query.parts import extent_of  # noqa: PLC0415 - as above
    from meantime.views.statemap import build, count, document, svg  # noqa: PLC0415 - as above

    found: list[tuple[int, Anomalies]]
    if target is None:
        found = [(each.rectangles, each.anomalies) for each in count(histories, options)]
    else:
        drawn = build(histories, options)
        # the figures of states are those of the maps of one file; spans overlap each other
        kinds = {lane.declaration.kind for lane in histories[0].lanes} - {"counter"}
        same = len(histories) == 1 and kinds == {"state"} and options.filter is None
        # `stats` has no options that move the times of hosts
        same = same and not given(["offsets", "assume_aligned"])
        drawn = replace(
            drawn,
            commands=_commands(files, figures=same),
            given_title=title or "",
            zone=current_zone(),
        )
        found = [(0, Anomalies()) for _ in histories]
        for panel in drawn.panels:
            rectangles, anomalies = found[panel.history]
            anomalies.update(panel.anomalies)
            found[panel.history] = rectangles + len(panel.rectangles), anomalies
    if not any(rectangles for rectangles, _ in found):
        if options.filter is not None:
            raise InputError(
                labels[0], f"no entity that the filter {options.filter!r} matches has a state here"
            )
        if options.begin_ns is not None or options.end_ns is not None:
            raise extent_of(histories[0]).nothing(options.begin_ns, options.end_ns)
    if strict:
        for label, (_, anomalies) in zip(labels, found, strict=True):
            anomalies.refuse(label)
    if target is not None:
        is_json = target.kind == "json"
        chunks = [document.render(drawn)] if is_json else svg.parts(drawn)
        write(target.path, chunks, files)
    return found


def _commands(files: Sequence[str], *, figures: bool) -> Commands | None:
    """Return the commands that the page completes with a window; None for standard input.

    Args:
        files: The inputs.
        figures: Whether `meantime stats` prints the figures of the page.
    """
    from meantime.views.statemap import Commands  # noqa: PLC0415 - NumPy is not for --help

    if "-" in files:
        return None
    context = click.get_current_context()
    draw, stats = ["meantime", "statemap"], ["meantime", "stats", "--by", "state"]
    for option in context.command.params:
        name = option.name or ""
        from_user = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not from_user or name in _NOT_IN_COMMANDS:
            continue
        # both commands have the options that say how a file is read, which no parameters are
        is_of_reading = name not in context.params
        value = context.meta.get(f"meantime.{name}", ()) if is_of_reading else context.params[name]
        for each in value if isinstance(value, tuple) else (value,):
            words = [option.opts[0]] if each is True else [option.opts[0], each]
            draw += words
            stats += words if is_of_reading or name in _IN_STATS else ()
    return Commands(shlex.join([*draw, *files]), shlex.join([*stats, *files]) if figures else None)


class Target(NamedTuple):
    """The path of a document, and its format: `svg` or `json`."""

    path: str
    kind: str


def _target(output: str | None) -> Target:
    if output is None:
        if sys.stdout.isatty():
            raise UsageError("name the output file with -o, or redirect standard output")
        return Target("-", "svg")
    suffix = PurePath(output).suffix
    if suffix not in ("", ".svg", ".json"):
        raise UsageError(f"{output!r} must end in .svg or .json")
    return Target(output, suffix[1:] or "svg")


def _one_of(name: str, first: str | None, second: str | None) -> str | None:
    """Return the value of an option that has two spellings."""
    if first is not None and second is not None:
        raise UsageError(f"Option '{name}' given more than once")
    return second if first is None else first


def _whole_number(name: str, text: str) -> int:
    if not re.fullmatch(r"\+?[0-9]+", text):
        raise UsageError(f"{name} must be an integer")
    return int(text)
