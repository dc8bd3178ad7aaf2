"""`meantime hosts`: which hosts are unlike the rest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.inputs import expanded, import_numpy, mapped, notify, offsets_of
from meantime.cli.options import (
    file_argument,
    hosts_options,
    input_options,
    json_option,
    lenient_option,
    limit_option,
    once,
    provider_option,
    range_options,
    strict_option,
)
from meantime.cli.progress import count_bar
from meantime.cli.tables import Column, more, print_table

if TYPE_CHECKING:
    from meantime.extent import Extent
    from meantime.fleet import HostAnomaly
    from meantime.query.hosts import HostComparison, HostShare

__all__ = ["command"]

# Left out in this order on a terminal that is too narrow.
_DROP = ("to", "there", "others there", "kind")


@click.command("hosts", epilog="Example:  meantime hosts recordings/*.mth --from 10s --to 2min")
@input_options
@file_argument("files", "FILE...", nargs=-1, required=True)
@limit_option("rows to print", 20)
@once(
    "--bins",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=240,
    help="Number of parts of the range: how exact the beginning of a stretch is.  [240]",
)
@range_options
@hosts_options
@json_option
@provider_option
@lenient_option
@strict_option
def command(
    *,
    files: tuple[str, ...],
    limit: int,
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
        click.echo(json.dumps(_document(found, anomalies, limit)))
        return
    _print(found, fleet.extent, limit)
    for host, reason in anomalies:
        notify(f"not compared: {host}: {reason}")


def _document(
    found: HostComparison, anomalies: tuple[HostAnomaly, ...], limit: int
) -> dict[str, Any]:
    return {
        "range_ns": list(found.range_ns),
        "hosts": found.hosts,
        "unlike": sorted({row.host for row in found.unlike}),
        "rows": [row._asdict() for row in found.rows[:limit]],
        "stripes": [stripe._asdict() for stripe in found.stripes],
        "anomalies": [anomaly._asdict() for anomaly in anomalies],
    }


def _print(found: HostComparison, extent: Extent, limit: int) -> None:
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
            [_cells(row, extent) for row in unlike[:limit]],
            drop=_DROP if any(row.kind for row in unlike) else ("kind", *_DROP),
        )
        if len(unlike) > limit:
            click.echo(f"{more(len(unlike), limit)}\n")
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
                    extent.text(stripe.start_ns),
                    extent.text(stripe.end_ns),
                    f"{stripe.hosts:,}",
                    f"{stripe.share:.2%}",
                    f"{stripe.usual:.2%}",
                ]
                for stripe in found.stripes[:limit]
            ],
            drop=("kind",),
        )


def _cells(row: HostShare, extent: Extent) -> list[str]:
    return [
        row.host,
        row.kind,
        row.state,
        f"{row.share:.2%}",
        f"{row.median:.2%}",
        f"{row.deviation:+.1f}",
        extent.text(row.start_ns),
        extent.text(row.end_ns),
        f"{row.stretch_share:.2%}",
        f"{row.stretch_median:.2%}",
    ]
