"""`meantime statemap`: the options of the original statemap, and a few more."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from meantime.cli.inputs import expanded, import_numpy, load_hosts, mapped, notify, offsets_of
from meantime.cli.options import (
    Documented,
    file_argument,
    hosts_options,
    input_options,
    options_of,
    output_option,
    reject,
    zone_option,
)
from meantime.cli.options import given as is_given
from meantime.cli.output import write
from meantime.cli.progress import progress_bar
from meantime.errors import UsageError
from meantime.model.attribute_paths import HOSTS
from meantime.view_functions.statemap_options import StatemapArguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.view_functions.sources import Source
    from meantime.views.statemap import Commands

__all__ = ["command"]

# The page completes its command with a window; the others say nothing about what it shows.
_NOT_IN_COMMANDS = {
    *("files", "output", "start", "end", "duration", "coalesce"),
    *("dry_run", "strict", "jobs", "client"),
}
_OF_HOSTS = ("assume_aligned", "jobs", "client")
_IN_STATS = {"provider", "lenient"}
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
@output_option(
    "OUT",
    "Output file: .svg or .json, or - for standard output.",
    more="Without it standard output, which must not be a terminal.",
)
@options_of(StatemapArguments)
@zone_option
@click.option(
    "--hosts",
    cls=Documented,
    is_flag=True,
    help="Draw the FILEs as hosts in one map, instead of a map for each.",
    more="They are drawn as their [join](#meantime-join)"
    " ([how to](../how-to/look-at-many-hosts.md)). Hosts that cannot be read are left out and"
    " reported, and with `--strict` they are an error.",
)
@hosts_options
@click.option("-n", "--dry-run", is_flag=True, help="Print the summary without drawing.")
def command(
    *,
    files: tuple[str, ...],
    output: str | None,
    hosts: bool,
    offsets: tuple[str, ...],
    assume_aligned: bool,
    jobs: int,
    client: str | None,
    dry_run: bool,
    **given: Any,
) -> None:
    """Draw a statemap of each FILE, one above the other, as an interactive SVG.

    \b
    Rows are entities, the X axis is time, colours are states.
    TIME is a number with ns (assumed), us, ms, s, m, min, h or d.
    FILE may be - or a quoted pattern, and may be compressed with gzip, xz, bzip2
    or zstd.
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    if not files:
        raise UsageError("must specify a data file")
    files = tuple(expanded(files))
    offsets_ns = offsets_of(offsets, files)
    arguments = StatemapArguments(
        **given,
        offsets=None if hosts else offsets_ns,
        intact=True,
        notify=notify,
        progress=progress_bar,
    )
    if not hosts:
        reject(_OF_HOSTS, "maps of their own; add --hosts")
    if dry_run:
        reject(("output", "title"), "--dry-run")
    target = None if dry_run else _target(output)
    if target is not None and target.kind == "json":
        reject(("state_height_px", "title"), ".json")

    import_numpy()
    from meantime.view_functions.statemap import open_statemap  # noqa: PLC0415 - NumPy is not for --help

    labels: Sequence[str] = files
    sources: list[Source] = [mapped(file) for file in files]
    if hosts:
        reading = {name: given[name] for name in ("provider", "lenient", "strict")}
        joined = load_hosts(
            files,
            client,
            offsets=offsets_ns,
            assume_aligned=assume_aligned,
            jobs=jobs,
            **reading,
        )
        labels, sources = (
            (f"{len(joined.quarks(f'{HOSTS}/*')):,} of {len(files):,} hosts",),
            [joined],
        )
        arguments = arguments.changed(provider=None)
    opened = open_statemap(sources, arguments, labels, draws=target is not None)
    if target is None:
        counts = opened.counts()
    else:
        view = opened.drawn()
        counts = view.counts
        # the figures of states are those of the maps of one file; spans overlap each other
        kinds = {lane.declaration.kind for lane in opened.histories[0].lanes} - {"counter"}
        same = len(labels) == 1 and kinds == {"state"} and arguments.filter is None
        # `stats` has no options that move the times of hosts
        same = same and not is_given(["offsets", "assume_aligned"])
        view.data = replace(view.data, commands=_commands(files, figures=same))
        write(target.path, view.render(target.kind), files)
    for label, history, found in zip(labels, opened.histories, counts, strict=True):
        name, records = PurePath(label).name, history.metadata.records
        click.echo(f"{name}: {records} records processed, {found.rectangles} rectangles", err=True)
        for line in found.anomalies.lines():
            click.echo(f"{name}: {line}", err=True)


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
        is_switch = isinstance(option, click.Option) and option.is_flag
        for each in value if isinstance(value, tuple) else (value,):
            words = [option.opts[0]] if is_switch else [option.opts[0], str(each)]
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
