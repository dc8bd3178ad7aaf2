"""From a trace and a provider to a history, which may go on where it stopped."""

from __future__ import annotations

import hashlib
import inspect
import shutil
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from meantime.errors import HistoryClosedError, InputError, OutputError, ProviderError, UsageError
from meantime.events import Events
from meantime.history.builder import HistoryBuilder
from meantime.history.checkpoints import build_checkpoints
from meantime.history.directory.open import is_history, open_history
from meantime.history.ingest import ingest
from meantime.provenance import can_be_read_again, fingerprint
from meantime.providers import load_provider
from meantime.readers import open_trace
from meantime.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from meantime.events import Event
    from meantime.history import History
    from meantime.providers import StateProvider

__all__ = ["Keep", "ProviderLike", "Tell", "build", "provenance_of", "provider_of", "why_not"]

Keep: TypeAlias = Literal["everything", "ongoing", "checkpoints"]
ProviderLike: TypeAlias = "StateProvider | type[StateProvider] | str | PathLike[str] | None"
Tell: TypeAlias = "Callable[[str], None]"


def build(
    trace: str | PathLike[str] | Trace | Iterable[Event],
    provider: ProviderLike = None,
    path: str | PathLike[str] | None = None,
    *,
    keep: Keep = "everything",
    lenient: bool = False,
    resume: bool = False,
    tell: Tell | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> History:
    """Return the history of a trace, its events as a provider understands them.

    Args:
        trace: A file of any format that is known, an open trace, or events.
        provider: A `StateProvider`, the class of one, or a file that declares or holds one (TOML
            or Python). Without one the history holds what the trace itself says.
        path: The directory to keep it in, `NAME.mth`; None keeps it in memory.
        keep: `"everything"`; or `"ongoing"`: only the present, nothing is stored; or
            `"checkpoints"`: what is asked for is made anew from the nearest checkpoint.
        lenient: Count bad records as anomalies and go on, instead of stopping at the first.
        resume: Go on with an unfinished history in the directory, if that can be done. The result
            is the same, byte for byte, as that of a build that was not stopped.
        tell: Called with a sentence that says whether the build goes on, and why not.
        progress: Called with the bytes read and the bytes in all.

    Raises:
        InputError: If the trace cannot be read, or has no events for the provider.
        OutputError: If the directory exists, or cannot be written.
        ProviderError: If the provider fails, or the file it is declared in is wrong.
    """
    made_by = provider_of(provider)
    if keep not in get_args(Keep):
        raise UsageError(f"keep is {keep!r}: it is one of {', '.join(get_args(Keep))}")
    if keep == "checkpoints":
        if path is not None:
            raise UsageError(
                f"{path}: checkpoints are kept in memory: there is no place for a path"
            )
        if made_by is None:
            raise UsageError("keep='checkpoints' needs a provider, which is run again")
        return build_checkpoints(_reopening(trace, lenient=lenient), made_by)
    if not isinstance(trace, str | PathLike):
        opened = trace if isinstance(trace, Trace) else _trace_of(trace)
        return ingest(HistoryBuilder(path, keep=keep), opened, made_by)
    made_of = provenance_of(trace, made_by, lenient=lenient)
    if resume and path is not None and is_history(path):
        try:
            builder = _going_on(Path(path), made_of, made_by, tell or _say_nothing)
        except HistoryClosedError:
            return _finished(Path(path), made_of, tell or _say_nothing)
    else:
        builder = HistoryBuilder(path, keep=keep)
    builder.contents.catalogue.set_metadata("provenance", made_of)
    position = None if made_by is None or builder.position is None else builder.position["input"]
    try:
        events = made_by is not None
        opened = open_trace(
            trace, lenient=lenient, progress=progress, position=position, events=events
        )
        return ingest(builder, opened, made_by)
    except (InputError, ProviderError):
        # it would fail there again; but what came through a pipe comes no more
        if path is not None and "fingerprint" in made_of:
            shutil.rmtree(path)
        raise


def _reopening(
    trace: str | PathLike[str] | Trace | Iterable[Event], *, lenient: bool
) -> Callable[[Any], Trace]:
    """Return what opens a trace at a position, again and again.

    Raises:
        UsageError: If it can be read only once.
    """
    if isinstance(trace, Trace) or (
        isinstance(trace, str | PathLike) and not can_be_read_again(trace)
    ):
        raise UsageError("keep='checkpoints' needs a trace that can be read again: a file")
    if isinstance(trace, str | PathLike):
        return lambda position: open_trace(trace, lenient=lenient, position=position, events=True)
    events = list(trace)
    return lambda _: _trace_of(events)


def _going_on(
    path: Path, made_of: dict[str, str], provider: StateProvider | None, tell: Tell
) -> HistoryBuilder:
    """Return what goes on with an unfinished history, or a new one where that cannot go on."""
    builder = HistoryBuilder(path, resume=True)
    reason = why_not(builder.contents.catalogue.metadata.provenance, made_of)
    if reason is None and builder.position is None:
        forgets = provider is not None and provider.save() is None
        reason = "the provider has no save()" if forgets else "its input cannot be read on"
    if reason is None:
        tell(f"{path}: was not finished: going on with it")
        return builder
    tell(f"{path}: was not finished; rebuilding: {reason}")
    shutil.rmtree(path)
    return HistoryBuilder(path)


def _finished(path: Path, made_of: dict[str, str], tell: Tell) -> History:
    """Return a finished history of the same.

    Raises:
        OutputError: If it is of something else.
    """
    history = open_history(path)
    if (reason := why_not(history.provenance, made_of)) is not None:
        raise OutputError(f"{path}: exists, and is of something else: {reason}")
    tell(f"{path}: was finished already")
    # a build that was killed at its very end left its logs
    for log in path.glob("*.log"):
        log.unlink()
    return history


def provider_of(provider: ProviderLike) -> StateProvider | None:
    """Return the provider that is meant: itself, one of its class, or that of a file.

    Raises:
        ProviderError: If the file is wrong.
    """
    if isinstance(provider, str | PathLike):
        return load_provider(provider)
    return provider() if isinstance(provider, type) else provider


def provenance_of(
    trace: str | PathLike[str], provider: StateProvider | None, *, lenient: bool
) -> dict[str, str]:
    """Return what a history is made of; without a fingerprint where it can be read only once.

    Raises:
        InputError: If the trace cannot be read, or is a history.
    """
    if is_history(trace):
        raise InputError(fspath(trace), "it is a history already: it has no events any more")
    made_of = {"source": Path(trace).name}
    if (told := fingerprint(trace)) is not None:
        made_of["fingerprint"] = told
    if lenient:
        made_of["lenient"] = "yes"
    if provider is not None:
        made_of["provider"] = provider.name
        made_of["provider_version"] = str(provider.version)
        if definition := _definition_of(provider):
            made_of["provider_definition"] = definition
    return made_of


def _definition_of(provider: StateProvider) -> str:
    if provider.definition is not None:
        return provider.definition
    try:
        source = inspect.getsource(type(provider))
    except (OSError, TypeError):
        return ""  # as of a class typed into a prompt
    return hashlib.blake2b(source.encode(), digest_size=8).hexdigest()


def why_not(kept: dict[str, str], made_of: dict[str, str]) -> str | None:
    """Return why a history is not what would be made now; None if it is."""
    if "fingerprint" not in made_of:
        return "a pipe cannot be read again"
    if "fingerprint" not in kept:
        return "it does not say what it is made of"
    if kept.get("fingerprint") != made_of["fingerprint"]:
        return "the trace is another"
    for part, what in _PARTS.items():
        was, now = kept.get(part), made_of.get(part)
        if was != now and part == "provider_definition":
            return "the provider's code has changed"
        if was != now:
            return f"{what} is {now or 'none'}, it was {was or 'none'}"
    return None


_PARTS = {
    "provider": "the provider",
    "provider_version": "the provider's version",
    "provider_definition": "",
    "lenient": "lenient",
}


def _trace_of(events: Iterable[Event]) -> Trace:
    """Return a trace of events that are at hand, in order of time."""
    trace = Trace("events", "events", iter(()))
    ordered = sorted(events, key=lambda event: event.time_ns)
    if ordered:
        trace.batches = iter([Events(ordered, trace.values)])
        trace.bounds = (ordered[0].time_ns, ordered[-1].time_ns + 1)
    trace.records = len(ordered)
    return trace


def _say_nothing(sentence: str) -> None:
    del sentence
