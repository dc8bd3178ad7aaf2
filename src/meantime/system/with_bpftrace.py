"""Records with bpftrace: one of the scripts prints statemap data, which is put in order here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections import Counter
from importlib.resources import files
from typing import IO, TYPE_CHECKING

from meantime.errors import MeantimeError
from meantime.system import children
from meantime.system.postgres import class_name, event_names, find_server

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from meantime.system.kinds import Request

__all__ = ["record", "script_text"]

_LOST = re.compile(rb"Lost (\d+) events")
_TAG = re.compile(rb'"tag":"(\d+)"')
_THREAD = re.compile(rb'"entity":"(\d+)"')
_DESCRIBED = b'{"description":'
_ONE_MORE_OR_LESS = re.compile(rb'"entity":"([^"]+)","state":([+-]1)')
# A context without rights to lock memory, in which it works all the same.
_HARMLESS = (b"RLIMIT_MEMLOCK", b"WARNING", b"Lost ", b"Attaching")
_BUFFER_PAGES, _MOST_BUFFER_PAGES = 1024, 65536
_MOST_KEYS = "65536"
_SORT_MEMORY = "128M"


def record(request: Request, output: IO[bytes], folder: Path) -> tuple[int, int]:
    """Run a script and write its statemap; return how many events were lost, and lines skipped.

    Raises:
        MeantimeError: If bpftrace fails, or nothing was recorded.
        UsageError: If the process is not one that the script can record.
    """
    arguments: list[str] = []
    edited: Callable[[bytes], bytes] | None = None
    script, title, pid = request.kind.script, request.kind.title, request.pid
    assert script is not None  # as checked
    if script == "postgres-statemap.bt":
        server = find_server(pid)
        arguments = [str(server.pid), str(server.address)]
        edited = _named_events(event_names(server.version))
        title = f"{title} {server.version} (process {server.pid})"
    elif script == "block-statemap.bt":
        edited = _counted_requests()
    elif script == "cpu-statemap.bt":
        arguments = ["1"]  # with tags
    else:
        edited = _named_threads()
        if pid is not None:
            arguments = [str(pid)]
            title = f"{title} of process {pid}"
    with (
        tempfile.TemporaryFile(dir=folder) as printed,
        tempfile.TemporaryFile(dir=folder) as problems,
    ):
        _run(script, arguments, request.duration_ns, printed, problems)
        problems.seek(0)
        reported = problems.read()
        lost = sum(int(found[1]) for found in _LOST.finditer(reported))
        skipped = 0
        # the offset is shared with the program that reads it
        os.lseek(printed.fileno(), 0, os.SEEK_SET)
        lines = _sorted_lines(printed, folder)
        head = next(lines, b"")
        try:
            metadata = json.loads(head)
        except ValueError:
            lines.close()
            raise MeantimeError(_failure(reported)) from None
        metadata["title"] = title + (f" ({lost:,} events were lost)" if lost else "")
        metadata["host"] = os.uname().nodename
        output.write(json.dumps(metadata).encode() + b"\n")
        for line in lines:
            if not (line.startswith(b"{") and line.endswith(b"}\n")):
                # the last line of a program that was killed
                skipped += 1
            else:
                output.write(line if edited is None else edited(line))
    return lost, skipped


def script_text(script: str) -> str:
    """Return a script."""
    return files("meantime.system").joinpath("bpftrace", script).read_text("utf-8")


def _run(
    script: str,
    arguments: list[str],
    duration_ns: int,
    printed: IO[bytes],
    problems: IO[bytes],
) -> None:
    # of a kernel with many CPUs, the buffers together stay below 256 MB
    pages = _BUFFER_PAGES
    while pages > 64 and pages * (os.cpu_count() or 1) > _MOST_BUFFER_PAGES:
        pages //= 2
    environment = {
        "BPFTRACE_PERF_RB_PAGES": str(pages),
        # the name until version 0.19, and the one since
        "BPFTRACE_MAP_KEYS_MAX": _MOST_KEYS,
        "BPFTRACE_MAX_MAP_KEYS": _MOST_KEYS,
    }
    with tempfile.TemporaryFile() as whole:
        text = script_text(script)
        if duration_ns:
            # counted from when all probes are attached, which may take seconds
            text += f"\ninterval:ms:10 /@start && nsecs - @start >= {duration_ns}/ {{ exit(); }}\n"
        whole.write(text.encode())
        whole.flush()
        child = children.start(
            ["bpftrace", "-q", f"/dev/fd/{whole.fileno()}", *arguments],
            stdout=printed,
            stderr=problems,
            environment=environment,
            passed=[whole.fileno()],
        )
        try:
            children.wait(child)
        except KeyboardInterrupt:
            pass
        finally:
            children.stop(child)


def _sorted_lines(printed: IO[bytes], folder: Path) -> Generator[bytes]:
    """Yield lines in order of their text, in bounded memory; the first is the metadata."""
    with tempfile.TemporaryFile() as problems:
        child = children.start(
            ["sort", "-S", _SORT_MEMORY, "-T", str(folder)],
            stdin=printed,
            stdout=subprocess.PIPE,
            stderr=problems,
            environment={"LC_ALL": "C"},
        )
        assert child.stdout is not None
        try:
            with child.stdout as lines:
                yield from (line for line in lines if line != b"\n")
            status = child.wait()
        finally:
            children.stop(child)
        if status:
            problems.seek(0)
            raise MeantimeError(f"sort failed: {_one_line(problems.read())}")


def _named_events(names: dict[int, str]) -> Callable[[bytes], bytes]:
    """Return a function that puts the names of events where their numbers are."""

    def named(found: re.Match[bytes]) -> bytes:
        number = int(found[1])
        return json.dumps({"tag": names.get(number) or class_name(number)})[1:-1].encode()

    return lambda line: _TAG.sub(named, line)


def _counted_requests() -> Callable[[bytes], bytes]:
    """Return a function that puts the state for a device's requests where one comes or goes."""
    open_of: Counter[bytes] = Counter()

    def counted(line: bytes) -> bytes:
        found = _ONE_MORE_OR_LESS.search(line)
        if found is None:
            return line
        open_of[found[1]] += int(found[2])
        number = open_of[found[1]]
        state = number if number < 4 else 4 if number < 8 else 5 if number < 16 else 6
        return line[: found.start(2)] + b"%d" % state + line[found.end(2) :]

    return counted


def _named_threads() -> Callable[[bytes], bytes]:
    """Return a function that puts the names of threads before their ids.

    The lines with names come first, and in no order of time: a thread has all names that it had.
    """
    names: dict[bytes, list[str]] = {}
    called: dict[bytes, bytes] = {}

    def named(line: bytes) -> bytes:
        found = _THREAD.search(line)
        if found is None:
            return line
        if line.startswith(_DESCRIBED):
            name = json.loads(line)["description"].rpartition(" (")[0]
            names.setdefault(found[1], []).append(name)
            return b""
        entity = called.get(found[1])
        if entity is None:
            known = ", ".join(dict.fromkeys(names.get(found[1], ())))
            tid = found[1].decode()
            entity = called[found[1]] = json.dumps(f"{known} ({tid})" if known else tid).encode()
        return line[: found.start(1) - 1] + entity + line[found.end(1) + 1 :]

    return named


def _failure(reported: bytes) -> str:
    kept = [
        line
        for line in reported.splitlines()
        if line.strip() and not any(harmless in line for harmless in _HARMLESS)
    ]
    if not kept:
        return (
            "bpftrace recorded nothing: it takes some seconds to start, so give it more time before"
            " Ctrl-C"
        )
    return f"bpftrace failed: {_one_line(b' '.join(kept))}"


def _one_line(text: bytes) -> str:
    return " ".join(text.decode(errors="replace").split())[:500]
