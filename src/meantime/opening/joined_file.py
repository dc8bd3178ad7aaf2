"""`NAME.mtj`: which histories a joined one consists of, in a small file of JSON.

Nothing of the histories is copied into it: it has their paths, names and offsets, and checksums by
which it is noticed that one of them has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from meantime.errors import InputError, MeantimeError, OutputError
from meantime.files import mode_of, open_regular, write_whole
from meantime.history.directory import is_history, is_joined, is_stored_history
from meantime.history.joined import join_parts, joined_part
from meantime.model.anomalies import Anomalies
from meantime.model.clocks import MOST_DRIFT_PPT, Clock, ClockShift, Kind, drift_text
from meantime.model.units import format_ns
from meantime.opening.provenance import fingerprint
from meantime.stores import JOINED_SCHEMES, blocks_of, is_url, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from meantime.history.history import History

__all__ = [
    "Host",
    "checksum_of",
    "files_of",
    "open_joined",
    "summary",
    "to_be_allowed",
    "write_joined",
]

_FORMAT = "meantime join"
# Version 2 may have drifts: without them figures would be wrong.
_VERSION = 2
_MOST_BYTES = 1 << 26
_MOST_LISTED = 20
_LEFT_OUT = "hosts left out"
# Of all files that a file joins, directly or one in another: a few small ones may refer to each
# other so that nobody could wait for the whole.
_MOST_PARTS = 100_000
_MOST_DEPTH = 8


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
        contradicted_ns: By how much messages contradict its clock, or the offset that was given.
        drift_ppt: What to add besides for each 10^12 ns since `drift_at_ns`, as its clock drifts.
        drift_at_ns: One of its times.
    """

    name: str
    path: str
    offset_ns: int
    how: str
    error_ns: int | None
    checksum: str | None
    contradicted_ns: int = 0
    drift_ppt: int = 0
    drift_at_ns: int = 0

    @property
    def shift(self) -> ClockShift:
        """How to convert its times."""
        return ClockShift(self.offset_ns, self.drift_ppt, self.drift_at_ns)


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
        "version": _VERSION if any(host.drift_ppt for host in hosts) else 1,
        "clock": asdict(clock),
        "anomalies": {name: anomalies[name] for name in anomalies},
        "hosts": written,
    }
    text = json.dumps(content, indent=1, ensure_ascii=False)
    mode = mode_of(host.path for host in hosts)
    try:
        write_whole(target, [text.encode("utf-8", "surrogateescape"), b"\n"], mode)
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
    path: str | os.PathLike[str],
    open_part: Callable[[Path | str], History],
    allow: Collection[str] = (),
) -> History:
    """Return the history that a file joins; a part that is missing or has changed is left out.

    Someone else may have written the file, so all that it refers to, also by other joined files, is
    looked at before any of it is opened.

    Args:
        path: The file.
        open_part: Opens a history or a trace.
        allow: `"paths"` opens parts outside of the folder of the file that names them, and `"urls"`
            those in other stores than that file.

    Raises:
        InputError: If the file is damaged or of a later version, if it joins itself, too many or
            too deep, if it refers to what is not allowed, or if no part can be opened.
    """
    tree = _Tree(fspath(path), frozenset(allow))
    tree.add(path, ())
    return _Opening(tree, open_part).history(path)


def to_be_allowed(path: str | os.PathLike[str]) -> list[str]:
    """Return what has to be allowed to open the file of a joined history.

    Raises:
        InputError: If it cannot be read.
    """
    return [kind for kind, found in _foreign(path, _read(path).hosts).items() if found]


def files_of(path: str | os.PathLike[str]) -> list[str]:
    """Return the paths of all that the file of a joined history refers to, below its folder.

    Raises:
        InputError: As from `open_joined`, of which nothing but the file is read.
    """
    tree = _Tree(fspath(path), frozenset())
    tree.add(path, ())
    # the keys of joined files are their paths, resolved
    named = dict.fromkeys(
        fspath(_where(host.path, file))
        for file, content in tree.files.items()
        if isinstance(content, _Content)
        for host in content.hosts
    )
    return [*named]


class _Content(NamedTuple):
    """What a file says."""

    clock: Clock
    hosts: list[Host]
    anomalies: Anomalies


class _Tree:
    """The files of joined histories that one refers to, and what these refer to.

    Args:
        path: The one.
        allow: What may be referred to; see `open_joined`.
    """

    def __init__(self, path: str, allow: frozenset[str]) -> None:
        self._path = path
        self._allow = allow
        self._parts: dict[str, int] = {}
        self.files: dict[str, _Content | InputError] = {}

    def add(self, path: str | os.PathLike[str], above: tuple[str, ...]) -> int:
        """Read a file, and those that it joins, once each; return how many parts they have.

        Args:
            path: The file.
            above: The files of which it is a part, by key.

        Raises:
            InputError: If they join themselves, too many or too deep, or if they refer to what is
                not allowed; or if the first one cannot be read.
        """
        key = _key(path)
        if key in above:
            raise InputError(self._path, "joins itself; join its histories again")
        if len(above) == _MOST_DEPTH:
            raise InputError(
                self._path,
                f"joins files that join others, more than {_MOST_DEPTH} deep: join the histories"
                " themselves",
            )
        if key in self._parts:
            return self._parts[key]
        try:
            content = _read(path)
        except InputError as error:
            if not above:
                raise
            # as of any part that cannot be opened, which is left out
            self.files[key] = error
            return 1
        self._check(path, content.hosts)
        self.files[key] = content
        parts = 0
        for host in content.hosts:
            where = _where(host.path, fspath(path))
            parts += self.add(where, (*above, key)) if is_joined(where) else 1
            if parts > _MOST_PARTS:
                raise InputError(
                    self._path, f"joins more than {_MOST_PARTS:,} histories, one in another"
                )
        self._parts[key] = parts
        return parts

    def _check(self, path: str | os.PathLike[str], hosts: Iterable[Host]) -> None:
        for kind, found in _foreign(path, hosts).items():
            if found and kind not in self._allow:
                what = {"paths": "outside of its folder", "urls": "in other stores"}[kind]
                raise InputError(
                    fspath(path),
                    f"refers to histories {what}: {_listed(found, ', ')}; if you trust who wrote"
                    f" it, use --allow-{kind}, or allow={kind!r} from Python",
                )


class _LeftOut(NamedTuple):
    """Why a part is left out."""

    why: str
    anomaly: str = "host_missing"


class _Opening:
    """The histories of a tree, each of which is opened once, however often it is a part.

    Args:
        tree: The tree.
        open_part: Opens a history or a trace.
    """

    def __init__(self, tree: _Tree, open_part: Callable[[Path | str], History]) -> None:
        self._tree = tree
        self._open_part = open_part
        self._found: dict[tuple[str, str | None], History | _LeftOut] = {}

    def history(self, path: str | os.PathLike[str]) -> History:
        """Return the history of a file of the tree.

        Raises:
            InputError: If it cannot be read, or if no part can be opened.
        """
        content = self._tree.files[_key(path)]
        if isinstance(content, InputError):
            raise content
        clock, hosts, anomalies = content
        parts, left_out = [], {}
        for host in hosts:
            found = self._part(_where(host.path, fspath(path)), host.checksum)
            if isinstance(found, _LeftOut):
                anomalies.add(found.anomaly)
                left_out[host.name] = found.why
                continue
            is_aligned = host.how != "start"
            parts.append(joined_part(host.name, found, host.shift, clock=clock, aligned=is_aligned))
        reasons = _listed([f"{name}: {why}" for name, why in left_out.items()], "; ")
        if not parts:
            raise InputError(fspath(path), f"none of its histories can be opened: {reasons}")
        facts = summary([host for host in hosts if host.name not in left_out])
        if left_out:
            facts[_LEFT_OUT] = reasons
        return join_parts(parts, clock=clock, source=fspath(path), facts=facts, anomalies=anomalies)

    def _part(self, where: Path | str, checksum: str | None) -> History | _LeftOut:
        """Return the history of a part, or why it is left out."""
        key = _key(where), checksum
        if key not in self._found:
            try:
                self._found[key] = self._opened(where, checksum)
            except (MeantimeError, OSError) as error:
                self._found[key] = _LeftOut(" ".join(str(error).splitlines()))
        return self._found[key]

    def _opened(self, where: Path | str, checksum: str | None) -> History | _LeftOut:
        # a pipe would wait for somebody who writes into it
        if isinstance(where, Path) and where.exists() and not (where.is_file() or where.is_dir()):
            return _LeftOut(f"{where} is neither a file nor a directory")
        if checksum is not None and checksum_of(where, built=True) != checksum:
            return _LeftOut(f"{where} has changed", "host_changed")
        return self.history(where) if _key(where) in self._tree.files else self._open_part(where)


def _foreign(path: str | os.PathLike[str], hosts: Iterable[Host]) -> dict[str, list[str]]:
    """Return the parts in other places than the file that joins them, by what allows them.

    Of URLs it has what would be asked.
    """
    found: dict[str, dict[str, None]] = {"paths": {}, "urls": {}}
    folder = None if is_url(path) else Path(path).resolve().parent
    for host in hosts:
        where = _where(host.path, fspath(path))
        if isinstance(where, Path):
            # by where links lead, too
            if folder is None or not where.resolve().is_relative_to(folder):
                found["paths"][str(where)] = None
        elif place_of(where) != (place_of(fspath(path)) if folder is None else None):
            found["urls"][place_of(where)] = None
    return {kind: list(places) for kind, places in found.items()}


def _key(path: str | os.PathLike[str]) -> str:
    """Return what is the same for all ways to write a path."""
    return fspath(path) if is_url(path) else str(Path(path).resolve())


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
        names.setdefault(host.how, []).append(f"{host.name}{_error(host)}")
    labels = {"first": "times of", "start": "not aligned"}
    facts = {}
    for how, listed in names.items():
        facts[labels.get(how, f"aligned by {how}")] = _listed(listed, ", ")
    return facts


def _error(host: Host) -> str:
    """Return how far off an offset may be, as far as that is known."""
    notes = []
    if host.drift_ppt:
        notes.append(f"its clock {drift_text(host.drift_ppt)}")
    if host.error_ns and host.how != "first":
        notes.append(f"within {format_ns(host.error_ns)}")
    if host.how in {"utc", "messages"} and host.error_ns is None:
        notes.append("error unknown")
    if host.contradicted_ns:
        notes.append(f"messages contradict its clock by {format_ns(host.contradicted_ns)}")
    return f" ({', '.join(notes)})" if notes else ""


def _listed(texts: Sequence[str], between: str) -> str:
    more = f"{between}and {len(texts) - _MOST_LISTED:,} more" if len(texts) > _MOST_LISTED else ""
    return between.join(texts[:_MOST_LISTED]) + more


def _read(path: str | os.PathLike[str]) -> _Content:
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
            with open_regular(path) as file:
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
    return _Content(clock, hosts, anomalies)


def _content(data: bytes, name: str) -> Any:
    """Return the JSON of a file.

    Raises:
        InputError: If it is of a later version.
        ValueError: If it is none, or of another format.
    """
    if len(data) > _MOST_BYTES:
        raise ValueError("it is too large")
    # a path may have other bytes than those of UTF-8
    content = json.loads(data.decode("utf-8", "surrogateescape"))
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
        _whole(content.get("contradicted_ns", 0)),
        _whole(content.get("drift_ppt", 0)),
        _whole(content.get("drift_at_ns", 0)),
    )
    if abs(host.drift_ppt) > MOST_DRIFT_PPT:
        raise ValueError(f"{host.drift_ppt} is not a drift of a clock")
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
