"""The memory of another process, and where its program and libraries are in it.

The process is neither stopped nor changed. It runs while it is read, so what is read may not fit
together: readers check what they read, and begin again.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from meantime.errors import MeantimeError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Mapping", "ProcessMemory", "TornReadError"]

_MAX_READ = 1 << 24
_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")


class TornReadError(Exception):
    """What was read makes no sense: the process changed it meanwhile, or it is something else."""


class Mapping(NamedTuple):
    """A range of addresses that a file is mapped to."""

    start: int
    end: int
    offset: int
    path: str


class ProcessMemory:
    """The memory of a process, which can be read while this is open.

    Args:
        pid: The process.

    Raises:
        MeantimeError: If there is no such process, or it may not be read.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError) as error:
            raise MeantimeError(f"there is no process {pid}") from error
        except OSError as error:
            raise MeantimeError(why_unreadable(pid)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes.

        Raises:
            TornReadError: If they are not all there.
        """
        if not 0 < address < 1 << 63 or not 0 <= size <= _MAX_READ:
            raise TornReadError
        try:
            data = os.pread(self._fd, size, address)
        except (OSError, OverflowError) as error:
            raise TornReadError from error
        if len(data) != size:
            raise TornReadError
        return data

    def word(self, address: int) -> int:
        """Return the 64-bit number at an address."""
        return int.from_bytes(self.read(address, 8), "little")

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return that many 64-bit numbers."""
        return struct.unpack(f"<{count}Q", self.read(address, 8 * count))

    def signed(self, address: int, size: int) -> int:
        """Return a signed number of 1 to 8 bytes."""
        return int.from_bytes(self.read(address, size), "little", signed=True)

    def string(self, address: int, most: int = 200) -> str:
        """Return the text at an address up to its NUL, of which there is one within `most`."""
        # a page may follow that is not mapped
        whole = 4096 - address % 4096
        data = self.read(address, min(most, whole))
        if b"\0" not in data and whole < most:
            data += self.read(address + whole, most - whole)
        text, end, _ = data.partition(b"\0")
        if not end:
            raise TornReadError
        return text.decode("utf-8", "replace")

    def mappings(self) -> list[Mapping]:
        """Return where files are mapped, in order of their addresses.

        Raises:
            MeantimeError: If the process has ended, or may not be read.
        """
        try:
            text = Path(f"/proc/{self.pid}/maps").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError as error:
            raise MeantimeError(f"process {self.pid} has ended") from error
        except OSError as error:
            raise MeantimeError(why_unreadable(self.pid)) from error
        found = []
        for line in text.splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith("/"):
                start, _, end = fields[0].partition("-")
                found.append(Mapping(int(start, 16), int(end, 16), int(fields[2], 16), fields[5]))
        return found


def why_unreadable(pid: int) -> str:
    """Return why the memory of a process may not be read, and what to do."""
    sentence = f"process {pid} may not be read"
    again = "run this with sudo, or as root"
    try:
        owner = _owner_of(pid)
        scope = _YAMA.read_text(encoding="ascii").strip() if _YAMA.exists() else "0"
    except OSError:
        return f"{sentence}: it has ended, or is hidden from this user"
    if os.geteuid() not in (0, owner):
        return f"{sentence}: it belongs to user {owner}; run this as that user, or as root"
    if scope in ("1", "2") and os.geteuid() != 0:
        return (
            f"{sentence}: the kernel lets only root read another process"
            f" (kernel.yama.ptrace_scope is {scope}); {again}"
        )
    if scope == "3":
        return (
            f"{sentence}: the kernel lets nobody read another process, until the next boot"
            " (kernel.yama.ptrace_scope is 3)"
        )
    refused = f"{sentence}: the kernel refuses it"
    if os.geteuid() != 0:
        return f"{refused}, as for a program with other rights; {again}"
    return f"{refused}: in a container, start that with --cap-add SYS_PTRACE"


def _owner_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid
