"""`NAME.mtj`: which histories a joined one consists of, in a small file of JSON.

Nothing of the histories is copied into it: it has their paths, names and offsets, and checksums by
which it is noticed that one of them has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from meantime.anomalies import Anomalies
from meantime.clocks import Clock, Kind
from meantime.errors import InputError, MeantimeError, OutputError
from meantime.files import write_whole
from meantime.history.directory import is_history, is_stored_history
from meantime.history.joined import JoinedPart, join_parts
from meantime.provenance import fingerprint
from meantime.stores import JOINED_SCHEMES, blocks_of, is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meantime.history.history import History

__all__ = ["Host", "checksum_of", "open_joined", "summary", "write_joined"]

_FORMAT = "meantime join"
_VERSION = 1
_MOST_BYTES = 1 << 26
_MOST_LISTED = 20
_LEFT_OUT = "hosts left out"
# The files that are being opened, each as a part of the one before it.
_OPENING: ContextVar[tuple[Path, ...]] = ContextVar("_OPENING", default=())


@dataclass(frozen=True, slots=True)
class Host:
    """One history of a joined one.

    Attributes:
        name: What its attributes stand under.
        path: Where it is.
        offset_ns: What to add to its times.
        how: What that rests on: see `meantime.query.aligning.Alignment`.
        error_ns: How far off it is at most; None if that is unknown.
        checksum: Of its manifest, or of the trace that it is; None of one that may still grow.
    """

    name: str
    path: str
    offset_ns: int
    how: str
    error_ns: int | None
    checksum: str | None


def checksum_of(path: str | os.PathLike[str], *, built: bool) -> str | None:
    """Return the checksum of a history or a trace; None if it may still grow, or is a pipe."""
    if not built:
        return None
    if is_stored_history(path):
        manifest = b"".join(blocks_of(f"{fspath(path).rstrip('/')}/manifest"))
        return hashlib.blake2b(manifest, digest_size=16).hexdigest()
    if is_history(path):
        return hashlib.blake2b((Path(path) / "manifest").read_bytes(), digest_size=16).hexdigest()
    return fingerprint(path)


def write_joined(
    path: str | os.PathLike[str], hosts: Sequence[Host], clock: Clock, anomalies: Anomalies
) -> None:
    """Write the file of a joined history; paths are relative to it if they have a folder in common.

    Raises:
        OutputError: If it cannot be written.
    """
    target = Path(path)
    folder = target.resolve().parent
    written = [asdict(host) | {"path": _relative(host.path, folder)} for host in hosts]
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "clock": asdict(clock),
        "anomalies": {name: anomalies[name] for name in anomalies},
        "hosts": written,
    }
    text = json.dumps(content, indent=1, ensure_ascii=False)
    try:
        write_whole(target, [text.encode("utf-8", "surrogateescape"), b"\n"])
    except OSError as error:
        raise OutputError(f"{fspath(path)}: cannot be written: {error.strerror}") from None


def _relative(given: str, folder: Path) -> str:
    if is_url(given):
        return given
    path = Path(given).resolve()
    # a path that has only the root in common with the file's would move with neither
    if os.path.commonpath([path, folder]) == path.anchor:
        return str(path)
    return os.path.relpath(path, folder)


def open_joined(
    path: str | os.PathLike[str], open_part: Callable[[Path | str], History]
) -> History:
    """Return the history that a file joins; a part that is missing or has changed is left out.

    Args:
        path: The file.
        open_part: Opens a history or a trace.

    Raises:
        InputError: If the file is damaged or of a later version, if it joins itself, or if no part
            can be opened.
    """
    whole = Path(path).resolve()
    if whole in _OPENING.get():
        raise InputError(fspath(path), "joins itself; join its histories again")
    token = _OPENING.set((*_OPENING.get(), whole))
    try:
        return _opened(path, open_part)
    finally:
        _OPENING.reset(token)


def _opened(path: str | os.PathLike[str], open_part: Callable[[Path | str], History]) -> History:
    clock, hosts, anomalies = _read(path)
    parts, left_out = [], {}
    for host in hosts:
        where = _where(host.path, fspath(path))
        try:
            checksum = None if host.checksum is None else checksum_of(where, built=True)
            if checksum != host.checksum:
                anomalies.add("host_changed")
                left_out[host.name] = f"{where} has changed"
                continue
            history = open_part(where)
        except (MeantimeError, OSError) as error:
            anomalies.add("host_missing")
            left_out[host.name] = " ".join(str(error).splitlines())
            continue
        parts.append(JoinedPart(host.name, history, host.offset_ns, host.how != "start"))
    if not parts:
        reasons = _listed([f"{name}: {why}" for name, why in left_out.items()], "; ")
        raise InputError(fspath(path), f"none of its histories can be opened: {reasons}")
    facts = summary([host for host in hosts if host.name not in left_out])
    if left_out:
        facts[_LEFT_OUT] = _listed([f"{name}: {why}" for name, why in left_out.items()], "; ")
    return join_parts(parts, clock=clock, source=fspath(path), facts=facts, anomalies=anomalies)


def _where(part: str, joined: str) -> Path | str:
    """Return where a part of a joined history is; paths are relative to the file that joins it."""
    if is_url(part):
        return part
    if is_url(joined):
        return f"{joined.rpartition('/')[0]}/{part}"
    return Path(joined).parent / part


def summary(hosts: Sequence[Host]) -> dict[str, str]:
    """Return facts: what the offsets of hosts rest on."""
    names: dict[str, list[str]] = {}
    for host in hosts:
        error = f" (within {host.error_ns} ns)" if host.error_ns and host.how != "first" else ""
        names.setdefault(host.how, []).append(host.name + error)
    labels = {"first": "times of", "start": "not aligned"}
    facts = {}
    for how, listed in names.items():
        facts[labels.get(how, f"aligned by {how}")] = _listed(listed, ", ")
    return facts


def _listed(texts: Sequence[str], between: str) -> str:
    more = f"{between}and {len(texts) - _MOST_LISTED:,} more" if len(texts) > _MOST_LISTED else ""
    return between.join(texts[:_MOST_LISTED]) + more


def _read(path: str | os.PathLike[str]) -> tuple[Clock, list[Host], Anomalies]:
    """Return what the file says, checked.

    Raises:
        InputError: If it is damaged, or of a later version.
    """
    name = fspath(path)
    try:
        if is_url(path):
            data = b""
            for block in blocks_of(name):
                data += block
                if len(data) > _MOST_BYTES:
                    break
        else:
            with Path(path).open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(name, f"cannot be read: {error.strerror}") from None
    try:
        content = _content(data, name)
        clock = _clock(content["clock"])
        anomalies = Anomalies()
        for anomaly, count in content["anomalies"].items():
            anomalies.add(anomaly, _whole(count))
        hosts = [_host(each) for each in content["hosts"]]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            name, f"is damaged: {type(error).__name__}: {error}; join the histories again"
        ) from None
    if not hosts or len({host.name for host in hosts}) < len(hosts):
        raise InputError(name, "is damaged: hosts are missing, or two have one name")
    return clock, hosts, anomalies


def _content(data: bytes, name: str) -> Any:
    """Return the JSON of a file.

    Raises:
        InputError: If it is of a later version.
        ValueError: If it is none, or of another format.
    """
    if len(data) > _MOST_BYTES:
        raise ValueError("it is too large")
    content = json.loads(data)
    if content["format"] != _FORMAT:
        raise ValueError("it is of another format")
    version = _whole(content["version"])
    if version > _VERSION:
        raise InputError(
            name, f"is of version {version}, and this meantime reads {_VERSION}: update it"
        )
    return content


def _host(content: dict[str, Any]) -> Host:
    host = Host(
        _text(content["name"]),
        _text(content["path"]),
        _whole(content["offset_ns"]),
        _text(content["how"]),
        None if content["error_ns"] is None else _whole(content["error_ns"]),
        None if content["checksum"] is None else _text(content["checksum"]),
    )
    if is_url(host.path) and host.path.partition(":")[0] not in JOINED_SCHEMES:
        raise ValueError(f"{host.path!r} is of a kind of store that joined files cannot refer to")
    if not host.name or host.name == ".." or "\0" in host.path:
        raise ValueError(f"{host.name!r} is not a name of a host")
    return host


def _clock(content: dict[str, Any]) -> Clock:
    kind = content["kind"]
    host, boot_id, utc_ns = (content[name] for name in ("host", "boot_id", "utc_at_origin_ns"))
    return Clock(
        kind if kind in get_args(Kind) else "unknown",
        None if host is None else _text(host),
        None if boot_id is None else _text(boot_id),
        None if utc_ns is None else _whole(utc_ns),
    )


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r} is not a text")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise TypeError(f"{value!r} is not an integer of 64 bits")
    return value
