"""What a process can give up for good, so that what it reads can make it do no harm.

The system keeps the limits, not the code that is confined: memory and time by resource limits
everywhere, files by Landlock and calls by seccomp on Linux.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import sysconfig
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["confine", "limit", "means"]

_NO_NEW_PRIVILEGES, _GET_SECCOMP, _SET_SECCOMP, _FILTER = 38, 21, 22, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
# By version of Landlock: how many kinds of access to files it knows, and to the network since 4.
_FILE_KINDS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_WRITE_FILE, _READ_FILE, _READ_FOLDER, _TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 14
_READ = _READ_FILE | _READ_FOLDER
# In a folder: to remove folders and files, make folders and files, rename between folders.
_WRITE = _READ | _WRITE_FILE | _TRUNCATE | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 13
_OF_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE
# Beside Python's modules, which may be imported late: what libraries and the interpreter look at.
_READABLE = (
    *("/proc/self", "/proc/meminfo", "/sys/fs/cgroup", "/sys/devices/system/cpu"),
    *("/usr/share/zoneinfo", "/etc/localtime", "/dev/urandom"),
)
# By processor its number, and those of socket, socketpair, connect, accept, bind, listen, accept4,
# execve, execveat, ptrace, process_vm_readv, process_vm_writev, kill, pidfd_open,
# open_by_handle_at, io_uring_setup, unshare, setns, mount, bpf and perf_event_open.
_REFUSED = {
    "x86_64": (
        0xC000003E,
        *(41, 53, 42, 43, 49, 50, 288, 59, 322, 101, 310, 311, 62, 434),
        *(304, 425, 272, 308, 165, 321, 298),
    ),
    "aarch64": (
        0xC00000B7,
        *(198, 199, 203, 202, 200, 201, 242, 221, 281, 117, 270, 271, 129, 434),
        *(265, 425, 97, 268, 40, 280, 241),
    ),
}


def limit(most_bytes: int, most_s: int) -> None:
    """Let the system end this process if it takes so much more memory, or so much processor time.

    Libraries count only a part of what they take, and look at an interrupt only now and then.
    """
    import resource  # noqa: PLC0415 - a module of POSIX, as the processes that run this are

    with suppress(OSError, ValueError), open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no pathlib
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        most = used + most_bytes
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    with suppress(OSError, ValueError):
        # at the second one a process is killed, as if it had taken too much memory
        resource.setrlimit(resource.RLIMIT_CPU, (most_s, most_s + 1))
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def confine(
    readable: Iterable[str] = (), writable: Iterable[str] = (), listed: Iterable[str] = ()
) -> None:
    """Give up files, networks, other programs and other processes, on Linux.

    Args:
        readable: Files and folders that can be read still, beside Python's libraries.
        writable: Folders in which files can be made and removed still.
        listed: Folders whose names can be read still, and those below.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return
    # the folder in which a program is started is not a library
    modules = {*sys.path, *sysconfig.get_paths().values()} - {"", os.getcwd()}  # noqa: PTH109 - no pathlib
    read = {*modules, *_READABLE, *readable}
    _restrict_files(
        libc,
        [
            *((path, _READ) for path in read),
            *((path, _WRITE) for path in (*writable, os.devnull)),
            *((path, _READ_FOLDER) for path in listed),
        ],
    )
    _restrict_calls(libc)


def means() -> dict[str, bool]:
    """Return what can be confined here, and whether the system can do it."""
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    return {
        "memory and time": hasattr(os, "fork"),
        "files": libc is not None and libc.syscall(_CREATE_RULESET, None, 0, 1) >= 1,
        "networks, other programs and processes": libc is not None
        and libc.prctl(_GET_SECCOMP, 0, 0, 0, 0) >= 0
        and platform.machine() in _REFUSED,
    }


def _restrict_files(libc: Any, paths: Iterable[tuple[str, int]]) -> None:
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return
    files = (1 << _FILE_KINDS.get(version, 16)) - 1
    networks = 3 if version >= 4 else 0
    data = struct.pack("=QQ", files, networks)[: 16 if version >= 4 else 8]
    rules = libc.syscall(_CREATE_RULESET, data, len(data), 0)
    if rules < 0:
        return
    for path, kinds in paths:
        with suppress(OSError):
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            known = files if os.path.isdir(path) else files & _OF_FILES  # noqa: PTH112 - no pathlib
            rule = struct.pack("=Qi", kinds & known, handle)
            libc.syscall(_ADD_RULE, rules, 1, rule, 0)
            os.close(handle)
    libc.syscall(_RESTRICT_SELF, rules, 0)
    os.close(rules)


def _restrict_calls(libc: Any) -> None:
    if (known := _REFUSED.get(platform.machine())) is None:
        return
    architecture, *refused = known
    load, jump, end = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | 1  # EPERM
    program = [
        (load, 0, 0, 4),
        (jump, 1, 0, architecture),
        (end, 0, 0, refuse),
        (load, 0, 0, 0),
        # calls of the same number in the ABI of 32 bits
        (0x35, len(refused) + 1, 0, 0x40000000),
        *((jump, len(refused) - place, 0, call) for place, call in enumerate(refused)),
        (end, 0, 0, allow),
        (end, 0, 0, refuse),
    ]
    code = b"".join(struct.pack("=HBBI", *each) for each in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    libc.prctl(_SET_SECCOMP, _FILTER, header, 0, 0)
