"""`meantime.join`: several histories as one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from meantime.errors import UsageError
from meantime.history.joined import join_parts, joined_part
from meantime.model.anomalies import Anomalies
from meantime.model.units import duration_ns
from meantime.opening.history_from_path import open_history
from meantime.opening.joined_file import Host, checksum_of, summary, write_joined
from meantime.query.aligning import clock_error_ns
from meantime.query.aligning_histories import align_histories
from meantime.readers.decompress import SUFFIXES
from meantime.stores import is_url, store_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from meantime.history.history import History
    from meantime.history.joined import JoinedPart
    from meantime.model.clocks import Clock
    from meantime.model.units import Duration
    from meantime.query.aligning import Alignment, Message

    Source: TypeAlias = "History | str | PathLike[str]"

__all__ = ["host_names", "join", "write_join"]

_MOVED_NS = 1_000_000


def join(
    histories: Iterable[Source],
    names: Sequence[str | None] | None = None,
    *,
    offsets: Mapping[int, Duration] | None = None,
    messages: Iterable[Message] = (),
) -> History:
    """Return several histories as one: the attributes of each stand under `Hosts/<name>`.

    Every question is answered as the parts answer it: times are moved by an offset for each part,
    and lanes, tags, spans, samples, points, flows, lost ranges and anomalies
    are those of all parts. Outside of the range of its part an attribute has no state. While a part
    grows, the whole does; joined histories can be joined again.

    Times are those of the first history. The others are moved by UTC if it is known of both, by 0
    if both count one clock of one machine, or else by what messages between them allow. If no
    offset is right for all messages, the clock drifts, and its offset changes with time; only such
    a history is copied, into memory. Of what is
    left the beginnings are the same, its name in lanes says "not aligned", and the anomaly
    `host_not_aligned` is counted.

    >>> from meantime.testing import history_from_picture
    >>> web, db = history_from_picture("cpu0  aab."), history_from_picture("cpu0  .ba.")
    >>> both = join([web, db], ["web", "db"])
    >>> both.sample("Hosts/*/cpu0", [0, 2]).rows()
    [['a', 'b'], [None, 'a']]

    Args:
        histories: The histories, or paths as `meantime.open` takes them.
        names: The name of each. Without it, or None in it, that of its machine, if these are
            known and all different, otherwise that of its file. Names that are there twice are
            numbered, which the anomaly `host_name_twice` counts.
        offsets: By index of a history, the time to add to its times, regardless of its clock.
        messages: What was sent from one history to another, and when it was received. Calls
            between services, whose spans name each other, and packets of TCP are found.

    Raises:
        InputError: If a path cannot be read.
        TimeRangeError: If times do not fit into 64 bits after they are moved.
        UsageError: If there are no histories, or not as many names.
    """
    sources = [*histories]
    parts, hosts, anomalies, clock = _joined(sources, names, offsets, [*messages])
    return join_parts(parts, clock=clock, facts=summary(hosts), anomalies=anomalies)


def write_join(
    path: str | PathLike[str],
    sources: Sequence[str | PathLike[str]],
    names: Sequence[str | None] | None = None,
    *,
    offsets: Mapping[int, Duration] | None = None,
    opened: Callable[[str | PathLike[str]], History] = open_history,
) -> tuple[list[Host], Anomalies]:
    """Write the file of a joined history, `NAME.mtj`; return what it joins, and what is wrong.

    Args:
        path: The file.
        sources: The paths of histories or traces.
        names: As `join` takes them.
        offsets: As `join` takes them.
        opened: Opens a path.

    Raises:
        InputError: If a path cannot be read.
        OutputError: If the file cannot be written.
        UsageError: If there are no histories, or not as many names.
    """
    sources = [store_url(source) for source in sources]
    histories = [opened(source) for source in sources]
    parts, hosts, anomalies, clock = _joined(histories, names, offsets, ())
    # so that what cannot be joined is not written
    join_parts(parts, clock=clock)
    kept = [
        replace(
            host,
            path=fspath(source) if is_url(source) else fspath(Path(source).absolute()),
            checksum=checksum_of(source, built=each.built),
        )
        for host, source, each in zip(hosts, sources, histories, strict=True)
    ]
    write_joined(path, kept, clock, anomalies)
    return kept, anomalies


def _joined(
    sources: Sequence[Source],
    names: Sequence[str | None] | None,
    offsets: Mapping[int, Duration] | None,
    messages: Sequence[Message],
) -> tuple[list[JoinedPart], list[Host], Anomalies, Clock]:
    """Return the parts, what is known of each, what is wrong with them, and the clock of all."""
    if not sources:
        raise UsageError("there are no histories to join")
    histories = [
        open_history(each) if isinstance(each, str | PathLike) else each for each in sources
    ]
    given_ns = {index: duration_ns(time) for index, time in (offsets or {}).items()}
    if not given_ns.keys() <= set(range(len(histories))):
        raise UsageError(f"the keys of offsets are indices of histories: 0 to {len(histories) - 1}")
    clocks = [history.clock for history in histories]
    paths = [history.metadata.source for history in histories]
    chosen, repeated = host_names(clocks, paths, names)
    found = align_histories(histories, given_ns, messages)
    anomalies = Anomalies()
    anomalies.add("host_name_twice", len(repeated))
    anomalies.add("host_not_aligned", sum(not each.aligned for each in found))
    anomalies.add("clock_contradicted", sum(each.contradicted_ns > 0 for each in found))
    moved = [clock_error_ns(clock) or 0 for clock in clocks]
    anomalies.add("clock_moved", sum(each > _MOVED_NS for each in moved))
    parts = [
        joined_part(name, history, each.shift, clock=clocks[0], aligned=each.aligned)
        for name, history, each in zip(chosen, histories, found, strict=True)
    ]
    hosts = [_host(*each) for each in zip(chosen, paths, found, strict=True)]
    return parts, hosts, anomalies, _clock(clocks)


def _host(name: str, path: str, found: Alignment) -> Host:
    return Host(
        name,
        path,
        found.offset_ns,
        found.how,
        found.error_ns,
        None,
        found.contradicted_ns,
        found.drift_ppt,
        found.drift_at_ns,
    )


def _clock(clocks: Sequence[Clock]) -> Clock:
    """Return the clock of the whole: that of the first, of no machine if there are several."""
    first = replace(clocks[0], anchors=())
    same = len({(clock.host, clock.boot_id) for clock in clocks}) == 1
    return first if same else replace(first, host=None, boot_id=None)


def host_names(
    clocks: Sequence[Clock], paths: Sequence[str], names: Sequence[str | None] | None = None
) -> tuple[list[str], list[str]]:
    """Return the name of each host, and those that were numbered since another one has the name.

    >>> from meantime.model.clocks import Clock
    >>> host_names([Clock(), Clock()], ["logs/a.mth", "b.json.gz"])
    (['a', 'b'], [])
    >>> host_names([Clock(host="web"), Clock(host="web")], ["1/x.mth", "2/x.mth"])
    (['x', 'x-2'], ['x-2'])

    Args:
        clocks: The clocks, which may know the machine.
        paths: The paths; empty for a history in memory.
        names: The names that were given; None chooses one.

    Raises:
        UsageError: If there are not as many names as clocks, or one cannot be one.
    """
    if names is not None and len(names) != len(clocks):
        raise UsageError(f"there are {len(clocks)} histories and {len(names)} names")
    machines = [clock.host or "" for clock in clocks]
    known = all(machines) and len({*machines}) == len(machines)
    wanted = [
        machine if known else _stem(path) or machine or "host"
        for machine, path in zip(machines, paths, strict=True)
    ]
    if names is not None:
        wanted = [name or own for name, own in zip(names, wanted, strict=True)]
    for name in wanted:
        if name in {"", ".."}:
            raise UsageError(f"{name!r} is not the name of a host")
    taken, seen, found = {*wanted}, Counter[str](), []
    for name in wanted:
        seen[name] += 1
        chosen = name
        if seen[name] > 1:
            while (chosen := f"{name}-{seen[name]}") in taken:
                seen[name] += 1
            taken.add(chosen)
        found.append(chosen)
    return found, [chosen for name, chosen in zip(wanted, found, strict=True) if name != chosen]


def _stem(path: str) -> str:
    name = Path(path).name
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return Path(name).stem if name not in {"", "-"} else ""
