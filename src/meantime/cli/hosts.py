"""`meantime hosts`: which hosts are unlike the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from meantime.cli.answers import print_answer
from meantime.cli.inputs import expanded, import_numpy, mapped, notify, offsets_of
from meantime.cli.options import (
    file_argument,
    hosts_options,
    input_options,
    json_option,
    limit_option,
    once,
    range_options,
    reading_options,
)
from meantime.cli.progress import count_bar
from meantime.cli.tables import Column, print_table
from meantime.query import HOST_BINS

if TYPE_CHECKING:
    from meantime.fleet import HostAnomaly
    from meantime.model.extent import Extent
    from meantime.query.hosts import HostComparison, HostShare

__all__ = ["command"]

# Left out in this order on a terminal that is too narrow.
_DROP = ("others there", "there", "kind", "to")


@click.command("hosts", epilog="Example:  meantime hosts recordings/*.mth --from 10s --to 2min")
@input_options
@file_argument("files", "FILE...", nargs=-1, required=True)
@limit_option(20)
@once(
    "--bins",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=HOST_BINS,
    help=f"Number of parts of the range: how exact the beginning of a stretch is.  [{HOST_BINS}]",
)
@range_options
@hosts_options
@json_option
@reading_options
def command(
    *,
    files: tuple[str, ...],
    bins: int,
    from_: str | None,
    to: str | None,
    offsets: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Show which hosts are unlike the rest: in which state, how much, and since when.

    Each FILE is a host; of a joined history each of its hosts is one.
    """
    paths = expanded(files)
    offsets_ns = offsets_of(offsets, paths)
    import_numpy()
    from meantime.fleet import Fleet  # noqa: PLC0415 - NumPy is not for --help

    with count_bar("reading hosts") as done:
        fleet = Fleet(
            [mapped(path) for path in paths],
            offsets=offsets_ns,
            done=done,
            **options,
        )
        found, anomalies = fleet.compare(from_, to, bins)
    if as_json:
        print_answer(_document(found, anomalies))
        return
    _print(found, _Edges(fleet.extent, found, bins))
    for host, reason in anomalies:
        notify(f"not compared: {host}: {reason}")


class _Edges:
    """Prints edges of bins to a hundredth of a bin or finer, as exact as they can be."""

    def __init__(self, extent: Extent, found: HostComparison, bins: int) -> None:
        self._extent = extent
        bin_ns = (found.range_ns[1] - found.range_ns[0]) // bins
        self._step_ns = 10 ** max(0, len(str(bin_ns)) - 3)

    def texts(self, start_ns: int, end_ns: int) -> tuple[str, str]:
        """Return the beginning of a stretch, rounded down, and its end, rounded up."""
        first_ns, step_ns = self._extent.start_ns, self._step_ns
        start_ns -= (start_ns - first_ns) % step_ns
        end_ns += (first_ns - end_ns) % step_ns
        return self._extent.text(start_ns), self._extent.text(end_ns)


def _document(found: HostComparison, anomalies: tuple[HostAnomaly, ...]) -> dict[str, Any]:
    return {
        "range_ns": list(found.range_ns),
        "hosts": found.hosts,
        "unlike": sorted({row.host for row in found.unlike}),
        "rows": [row._asdict() for row in found.rows],
        "stripes": [stripe._asdict() for stripe in found.stripes],
        "anomalies": [anomaly._asdict() for anomaly in anomalies],
    }


def _print(found: HostComparison, edges: _Edges) -> None:
    unlike = found.unlike
    if unlike:
        names = len({row.host for row in unlike})
        print_table(
            f"{names:,} of {found.hosts:,} hosts {'is' if names == 1 else 'are'} unlike the rest",
            [
                *(Column(name) for name in ("host", "kind", "state")),
                *(
                    Column(name, numeric=True)
                    for name in ("share", "others", "spreads", "from", "to", "there")
                ),
                Column("others there", numeric=True),
            ],
            [_cells(row, edges) for row in unlike],
            drop=_DROP if any(row.kind for row in unlike) else ("kind", *_DROP),
        )
    else:
        click.echo(f"none of {found.hosts:,} hosts is unlike the rest")
        if found.rows:
            most = found.rows[0]
            click.echo(
                f"furthest is {most.host}: {most.share:.2%} {most.state}, the median of all"
                f" {most.median:.2%}, which is {abs(most.deviation):.1f} spreads"
            )
    if found.stripes:
        print_table(
            "Most hosts at one time",
            [
                Column("kind"),
                Column("state"),
                *(Column(name, numeric=True) for name in ("from", "to", "hosts")),
                *(Column(name, numeric=True) for name in ("share", "otherwise")),
            ],
            [
                [
                    stripe.kind,
                    stripe.state,
                    *edges.texts(stripe.start_ns, stripe.end_ns),
                    f"{stripe.hosts:,}",
                    f"{stripe.share:.2%}",
                    f"{stripe.usual:.2%}",
                ]
                for stripe in found.stripes
            ],
            drop=("kind",),
        )


def _cells(row: HostShare, edges: _Edges) -> list[str]:
    return [
        row.host,
        row.kind,
        row.state,
        f"{row.share:.2%}",
        f"{row.median:.2%}",
        f"{row.deviation:+.1f}",
        *edges.texts(row.start_ns, row.end_ns),
        f"{row.stretch_share:.2%}",
        f"{row.stretch_median:.2%}",
    ]
