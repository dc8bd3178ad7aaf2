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
    from collections.abc import Collection, Iterable, Iterator

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
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"),
    *("/proc/self", "/proc/meminfo", "/sys/fs/cgroup", "/sys/devices/system/cpu"),
    *("/usr/share/zoneinfo", "/etc/localtime", "/dev/urandom"),
)
# The calls that are refused, by their numbers for x86-64 and aarch64; None is a call that there is
# not.
_REFUSED = {
    # networks, and other programs and processes
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "accept": (43, 202),
    "accept4": (288, 242), "bind": (49, 200), "listen": (50, 201), "execve": (59, 221),
    "execveat": (322, 281), "fork": (57, None), "vfork": (58, None), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "process_madvise": (440, 440),
    "process_mrelease": (448, 448), "kcmp": (312, 272), "kill": (62, 129), "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "setrlimit": (160, 164), "io_uring_setup": (425, 425), "userfaultfd": (323, 282),
    "bpf": (321, 280), "perf_event_open": (298, 241),
    # what Landlock does not cover of files: modes, owners, times, attributes, and who uses them
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "chown": (92, None),
    "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54), "truncate": (76, 45),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "getxattr": (191, 8),
    "lgetxattr": (192, 9), "listxattr": (194, 11), "llistxattr": (195, 12),
    "open_by_handle_at": (304, 265), "inotify_init": (253, None), "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    # memory that no limit counts, and what processes of a user share
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "shmat": (30, 196),
    "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192),
    "semctl": (66, 191), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219),
    # the system itself, which root may change
    "unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51), "pivot_root": (155, 41),
    "mount": (165, 40), "umount2": (166, 39), "move_mount": (429, 429), "mount_setattr": (442, 442),
    "open_tree": (428, 428), "fsopen": (430, 430), "fspick": (433, 433), "syslog": (103, 116),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "personality": (135, 92),
}  # fmt: skip
# Calls of later systems are as if there were none, so that libraries take those of before.
_UNKNOWN_FROM = 451
# Those that are looked at: threads may be made, but no processes, of which each would have the
# limits of one; a signal or a limit may be of this process.
_CLONE, _CLONE3, _SIGNAL, _LIMIT = (56, 220), (435, 435), (234, 131), (302, 261)
_A_THREAD = 0x00010000
# A file may be asked about and be set not to wait, nothing else: a terminal has requests that type
# into it, and any file has some that send a signal to whom one likes.
_REQUEST, _CONTROL = (16, 29), (72, 25)
_REQUESTS = (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
_SENDS_SIGNALS = (8, 10, 15)
# What root keeps, by its number: to read files of others, which Landlock bounds.
_KEPT_RIGHTS = 1 << 1 | 1 << 2
_RIGHTS_VERSION = 0x20080522
# What a filter is written in, and how it knows a processor.
_LOAD, _EQUAL = 0x20, 0x15
_PROCESSORS = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}


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

    Threads that there are already give up nothing, so this comes before libraries that start some.

    Args:
        readable: Files and folders that can be read still, beside Python's libraries.
        writable: Folders in which files can be made and removed still.
        listed: Folders whose names can be read still, and those below.

    Raises:
        OSError: If the system refuses what it can do.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return
    _drop_rights(libc)
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
        and platform.machine() in _PROCESSORS,
    }


def _done(result: int) -> int:
    """Return the result of a call of C.

    Raises:
        OSError: If it failed.
    """
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _drop_rights(libc: Any) -> None:
    """Give up what root can do beside reading files: raise limits, set clocks, load modules."""
    header = struct.pack("=Ii", _RIGHTS_VERSION, 0)
    data = ctypes.create_string_buffer(24)  # effective, permitted, inheritable: each in two parts
    _done(libc.capget(header, data))
    kept = [rights & _KEPT_RIGHTS for rights in struct.unpack_from("=2I", data)]
    _done(libc.capset(header, struct.pack("=6I", *kept, 0, 0, 0, 0)))


def _restrict_files(libc: Any, paths: Iterable[tuple[str, int]]) -> None:
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return
    files = (1 << _FILE_KINDS.get(version, 16)) - 1
    # TCP; and sockets without a path, and signals, of processes that are not confined
    data = struct.pack("=QQQ", files, 3, 3)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules = _done(libc.syscall(_CREATE_RULESET, data, len(data), 0))
    for path, kinds in paths:
        with suppress(OSError):
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            known = files if os.path.isdir(path) else files & _OF_FILES  # noqa: PTH112 - no pathlib
            rule = struct.pack("=Qi", kinds & known, handle)
            libc.syscall(_ADD_RULE, rules, 1, rule, 0)
            os.close(handle)
    _done(libc.syscall(_RESTRICT_SELF, rules, 0))
    os.close(rules)


def _restrict_calls(libc: Any) -> None:
    known = _PROCESSORS.get(platform.machine())
    if known is None or libc.prctl(_GET_SECCOMP, 0, 0, 0, 0) < 0:
        return
    architecture, which = known
    load, equal, at_least, has, end = _LOAD, _EQUAL, 0x35, 0x45, 0x06
    allow, refuse, unknown = ((end, 0, 0, code) for code in (0x7FFF0000, 0x50001, 0x50026))
    # offsets of the call's number, the processor, and halves of the arguments
    number, processor, first, second = 0, 4, 16, 24
    own = (load, 0, 0, first), (equal, 0, 1, os.getpid()), allow, refuse
    looked_at = {
        _CLONE: ((load, 0, 0, first), (has, 0, 1, _A_THREAD), allow, refuse),
        # libraries use `clone` then, whose flags can be looked at
        _CLONE3: (unknown,),
        _SIGNAL: own,
        _LIMIT: ((load, 0, 0, first), (equal, 1, 0, 0), *own[1:]),
        _REQUEST: (*_any(second, _REQUESTS), refuse, allow),
        _CONTROL: (*_any(second, _SENDS_SIGNALS), allow, refuse),
    }
    refused = [call for numbers in _REFUSED.values() for call in numbers[which : which + 1] if call]
    program = [
        *((load, 0, 0, processor), (equal, 1, 0, architecture), refuse),
        # calls of the same numbers in the ABI of 32 bits
        *((load, 0, 0, number), (at_least, 0, 1, 0x40000000), refuse),
        *((at_least, 0, 1, _UNKNOWN_FROM), unknown),
        *(
            line
            for numbers, lines in looked_at.items()
            for line in ((equal, 0, len(lines), numbers[which]), *lines)
        ),
        *_any(number, refused),
        *(allow, refuse),
    ]
    code = b"".join(struct.pack("=HBBI", *each) for each in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    _done(libc.prctl(_SET_SECCOMP, _FILTER, header, 0, 0))


def _any(place: int, values: Collection[int]) -> Iterator[tuple[int, int, int, int]]:
    """Yield what skips a line if what is at a place is one of some values."""
    yield _LOAD, 0, 0, place
    for left, value in zip(range(len(values), 0, -1), values, strict=True):
        yield _EQUAL, left, 0, value
