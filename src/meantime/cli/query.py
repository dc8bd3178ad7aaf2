"""`meantime query`: questions to a history."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.inputs import load, resolve
from meantime.cli.options import once
from meantime.cli.tables import Column, print_table
from meantime.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meantime.history import History, Interval

__all__ = ["command"]

_QUESTIONS = {"at": 1, "state": 2, "intervals": 1, "shares": 1, "tree": 0}
_HEADINGS = {
    "path": False,
    "start_ns": True,
    "end_ns": True,
    "value": False,
    "tag": False,
    "quark": True,
    "bin": True,
    "ns": True,
}


@click.command("query", epilog="Example:  meantime query disks.mth intervals 'disk*' --to 5ms")
@click.argument("history", metavar="HISTORY")
@click.argument("question", type=click.Choice(list(_QUESTIONS)))
@click.argument("words", metavar="[PATH|PATTERN] [TIME]", nargs=-1)
@once("--from", "from_", metavar="TIME", help="Where the range begins.")
@once("--to", "to", metavar="TIME", help="Where the range ends.")
@once("--resolution", metavar="TIME", help="Only intervals at multiples of this from the start.")
@once("--bins", type=click.IntRange(1), default=1, help="How many parts shares have.  [1]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def command(
    *,
    history: str,
    question: str,
    words: tuple[str, ...],
    from_: str | None,
    to: str | None,
    resolution: str | None,
    bins: int,
    as_json: bool,
) -> None:
    r"""Ask a history, or any trace: all states at a time, intervals, shares, attributes.

    \b
    at TIME             the state of every attribute at a time
    state PATH TIME     the state of one attribute
    intervals PATTERN   the states of attributes, in order of time
    shares PATTERN      how long each state lasted, in each of --bins parts
    tree [PATTERN]      the attributes
    """
    least = _QUESTIONS[question]
    if not least <= len(words) <= max(least, 1):
        raise UsageError(f"{question} takes {least} words, not {len(words)}; see --help")
    _, asked = load(history, lenient=False)
    start_ns, end_ns = resolve(from_, asked.clock), resolve(to, asked.clock)
    step_ns = resolve(resolution, asked.clock)
    if question == "at":
        rows = _intervals(asked, asked.at(resolve(words[0], asked.clock) or 0))
    elif question == "state":
        [quark] = _quarks(asked, words[0]) or [asked.quark(words[0])]
        rows = _intervals(asked, [asked.state(quark, resolve(words[1], asked.clock) or 0)])
    elif question == "intervals":
        quarks = _quarks(asked, words[0])
        rows = _intervals(asked, asked.intervals(quarks, start_ns, end_ns, step_ns))
    elif question == "shares":
        rows = _shares(asked, _quarks(asked, words[0]), (start_ns, end_ns), bins)
    else:
        pattern = words[0] if words else "**"
        rows = [{"quark": q, "path": asked.attributes.text(q)} for q in _quarks(asked, pattern)]
    _show(question, rows, as_json=as_json)


def _quarks(history: History, pattern: str) -> list[int]:
    quarks: list[int] = history.quarks(pattern).tolist()
    return quarks


def _intervals(history: History, intervals: Iterable[Interval]) -> list[dict[str, Any]]:
    return [
        {
            "path": history.attributes.text(interval.quark),
            "start_ns": interval.start_ns,
            "end_ns": interval.end_ns,
            "value": interval.value,
            "tag": None if interval.tag is None else history.tags[interval.tag],
        }
        for interval in intervals
    ]


def _shares(
    history: History, quarks: list[int], range_ns: tuple[int | None, int | None], bins: int
) -> list[dict[str, Any]]:
    shares = history.shares(quarks, *range_ns, bins)
    rows = zip(
        shares.quark.tolist(),
        shares.bin.tolist(),
        shares.value.to_list(),
        shares.ns.tolist(),
        strict=True,
    )
    return [
        {"path": history.attributes.text(quark), "bin": part, "value": value, "ns": ns}
        for quark, part, value, ns in rows
    ]


def _show(title: str, rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
        return
    headings = list(rows[0]) if rows else ["path"]
    columns = [Column(heading, numeric=_HEADINGS[heading]) for heading in headings]
    print_table(title, columns, [[_cell(row[name]) for name in headings] for row in rows])


def _cell(value: object) -> str:
    return "" if value is None else str(value)
