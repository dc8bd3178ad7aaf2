"""`meantime record-system`: record what a Linux system does."""

from __future__ import annotations

import signal
from typing import Literal

import click

from meantime.cli.options import once, output_option

__all__ = ["command"]


@click.command(
    "record-system",
    epilog="Example:  sudo meantime record-system threads --pid 4711 --for 10s -o app.statemap",
)
@click.argument("kind", type=click.Choice(["cpu", "threads", "block", "postgres", "sched"]))
@output_option("OUT", "File to record into.", required=True)
@once(
    "--pid",
    type=click.IntRange(min=1),
    help="threads: record this process and its children; postgres: the server's first process.",
)
@once("--for", "duration", metavar="TIME", help="Record for this time.  [until Ctrl-C]")
def command(
    *,
    kind: Literal["cpu", "threads", "block", "postgres", "sched"],
    output: str,
    pid: int | None,
    duration: str | None,
) -> None:
    """Record what a Linux system does: CPUs, threads, disks, a PostgreSQL server.

    cpu: what each CPU does.  threads: what each thread does or waits for.  block: how many requests
    each block device works on.  postgres: what the processes of a server wait for.  sched: switches
    and wake-ups of all threads, for `meantime why` and `meantime stats --by thread`.

    It runs bpftrace, perf or the kernel's tracefs, whichever is there, and usually needs root.
    """
    from meantime.system.recording import record_system  # noqa: PLC0415 - not for --help

    # like any supervisor's stop signal, this ends the recording and keeps it
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        recorded = record_system(
            kind,
            output,
            pid=pid,
            duration=duration,
            notify=lambda sentence: click.echo(sentence, err=True),
        )
    finally:
        signal.signal(signal.SIGTERM, before)
    if recorded.lost:
        called = "chunks of events" if recorded.method == "perf" else "events"
        click.echo(
            f"{recorded.lost:,} {called} were lost: states around them may be wrong. Record for a"
            " shorter time, or fewer threads",
            err=True,
        )
    if recorded.skipped:
        click.echo(f"{recorded.skipped:,} cut lines were left out", err=True)
    for shown_by in recorded.shown_by:
        click.echo(shown_by)
