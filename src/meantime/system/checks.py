"""Which programs can record something here, and what the others lack."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.errors import MeantimeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.system.kinds import Kind, Method

__all__ = ["lacks", "method_for", "tracefs"]

_SYSTEM = Path("/")
_HOW_TO_INSTALL = {
    "bpftrace": "`apt install bpftrace` or `dnf install bpftrace`",
    "perf": "`apt install linux-perf` (Debian), `apt install linux-tools-$(uname -r)` (Ubuntu)"
    " or `dnf install perf`",
}
_OLDEST_BPFTRACE = (0, 17)
_CAP_SYS_ADMIN, _CAP_PERFMON = 21, 38


def tracefs() -> Path | None:
    """Return where tracefs is mounted; None if it is not, or cannot be looked at."""
    for name in ("sys/kernel/tracing", "sys/kernel/debug/tracing"):
        path = _SYSTEM / name
        if os.access(path / "events", os.R_OK | os.X_OK):
            return path
    return None


def method_for(name: str, kind: Kind) -> Method:
    """Return the first program that can record a kind of thing here.

    Raises:
        MeantimeError: If none can: with what each of them lacks, and how to get it.
    """
    reasons = []
    for method in kind.methods:
        found = lacks(method, kind)
        if not found:
            return method
        reasons.append(f"{method}: {', '.join(found)}")
    raise MeantimeError(f"cannot record {name} here. {'. '.join(reasons)}")


def lacks(method: Method, kind: Kind) -> list[str]:
    """Return what a program lacks to record something, and how to get it; empty if it can."""
    if method == "bpftrace":
        return list(_bpftrace_lacks(kind))
    return list(_perf_lacks(kind) if method == "perf" else _tracefs_lacks(kind))


def _bpftrace_lacks(kind: Kind) -> Iterator[str]:
    if shutil.which("bpftrace") is None:
        yield f"is not installed ({_HOW_TO_INSTALL['bpftrace']})"
    else:
        version = _bpftrace_version()
        if version is not None and version < _OLDEST_BPFTRACE:
            yield f"is version {version[0]}.{version[1]}, and 0.17 or later is needed"
    if kind.machines and platform.machine() not in kind.machines:
        yield f"its script is for {kind.machines[0]}, and this is {platform.machine()}"
    if os.geteuid() != 0:
        yield "needs root (run it with sudo)"
        return
    if kind.reads_types and not (_SYSTEM / "sys/kernel/btf/vmlinux").exists():
        yield "needs a kernel with BTF, CONFIG_DEBUG_INFO_BTF=y (/sys/kernel/btf/vmlinux)"
    if "[confidentiality]" in _text("sys/kernel/security/lockdown"):
        yield "the kernel is locked down (/sys/kernel/security/lockdown is confidentiality)"
    yield from _missing_events(kind.probes)


def _perf_lacks(kind: Kind) -> Iterator[str]:
    if shutil.which("perf") is None:
        yield f"is not installed ({_HOW_TO_INSTALL['perf']})"
    paranoid = _text("proc/sys/kernel/perf_event_paranoid").strip()
    if os.geteuid() != 0 and not _is_capable() and paranoid != "-1":
        yield "needs root (run it with sudo), or CAP_PERFMON"
        return
    yield from _missing_events(kind.events)


def _tracefs_lacks(kind: Kind) -> Iterator[str]:
    root = tracefs()
    if root is None or not os.access(root / "instances", os.W_OK):
        if os.geteuid() != 0:
            yield "needs root (run it with sudo)"
        elif root is None:
            yield "is not mounted (`mount -t tracefs nodev /sys/kernel/tracing`)"
        else:
            yield f"{root / 'instances'} is not writable, as in most containers: run it on the host"
        return
    yield from _missing_events(kind.events)


def _missing_events(events: Sequence[str]) -> Iterator[str]:
    """Yield what keeps tracepoints from being recorded."""
    root = tracefs()
    if root is None:
        yield (
            "needs tracefs, which is not mounted or not readable"
            " (`mount -t tracefs nodev /sys/kernel/tracing`)"
        )
        return
    missing = [name for name in events if not (root / "events" / name.replace(":", "/")).is_dir()]
    if missing:
        yield f"this kernel lacks the tracepoints {', '.join(missing)}"


def _bpftrace_version() -> tuple[int, int] | None:
    """Return the version of bpftrace; None if it does not print one."""
    try:
        printed = subprocess.run(
            ["bpftrace", "--version"],  # noqa: S607 - what is on the path is what is run
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"v?(\d+)\.(\d+)", printed)
    return (int(found[1]), int(found[2])) if found else None


def _is_capable() -> bool:
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", _text("proc/self/status"), re.MULTILINE)
    bits = int(found[1], 16) if found else 0
    return bool(bits >> _CAP_SYS_ADMIN & 1 or bits >> _CAP_PERFMON & 1)


def _text(name: str) -> str:
    """Return a file of the kernel; empty if it cannot be read."""
    try:
        return (_SYSTEM / name).read_text("ascii", errors="replace")
    except OSError:
        return ""
