"""Named oddities in the input, counted. Nothing is dropped without being counted here."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CATALOGUE", "Anomalies", "Anomaly"]

Severity = Literal["note", "data_loss"]


class Anomaly(NamedTuple):
    """What an oddity is called, how bad it is, and what its reader should know or do."""

    name: str
    severity: Severity
    advice: str


CATALOGUE: dict[str, Anomaly] = {
    anomaly.name: anomaly
    for anomaly in (
        Anomaly(
            "truncated",
            "data_loss",
            "the input ends inside a record, which was left out; the tracer was probably killed",
        ),
        Anomaly(
            "bad_record",
            "data_loss",
            "records that could not be read were skipped; run without --lenient to see the first",
        ),
        Anomaly(
            "skipped_bytes",
            "data_loss",
            "after broken records so many bytes were skipped, up to the next record",
        ),
        Anomaly(
            "weight_rounded",
            "note",
            "weights with a fraction that are no times became the nearest whole number",
        ),
        Anomaly(
            "unread_after_end",
            "note",
            "what comes after the end of the window cannot be read, and was left out unread",
        ),
        Anomaly(
            "zero_length_state",
            "note",
            "an entity changed state twice at one time; the later state counts",
        ),
        Anomaly(
            "unknown_line",
            "note",
            "lines that are neither a sample nor part of one were passed over",
        ),
        Anomaly(
            "unread_event",
            "data_loss",
            "lines with a time whose other fields differ from those of the first lines were"
            " skipped; print all events with the same fields",
        ),
        Anomaly(
            "time_went_back",
            "data_loss",
            "events more than 1 s earlier than the one before them: the clock was set back, or"
            " several recordings were joined",
        ),
        Anomaly(
            "lost_events",
            "data_loss",
            "the tracer could not keep up and lost events; give it larger buffers",
        ),
        Anomaly(
            "lost_switch",
            "data_loss",
            "a CPU was left by another thread than the one that was switched to it last, so who ran"
            " in between is unknown",
        ),
        Anomaly(
            "event_without_time",
            "data_loss",
            "events whose time is not a 64-bit number of nanoseconds cannot be drawn",
        ),
        Anomaly(
            "event_without_row",
            "note",
            "events of entities that have neither states nor a description are not drawn",
        ),
        Anomaly(
            "target_without_row",
            "note",
            "events on entities that have neither states nor a description are drawn without an"
            " arrow",
        ),
        Anomaly(
            "event_after_end",
            "note",
            "events at or after the time of the last datum are not drawn, as the map ends there",
        ),
        Anomaly(
            "definition_with_time",
            "note",
            "tag definitions have a time and an entity: data with a stray key are read as such",
        ),
        Anomaly(
            "time_out_of_range",
            "data_loss",
            "times that do not fit into 64 bits of nanoseconds cannot be drawn",
        ),
        Anomaly(
            "unreadable_fact",
            "data_loss",
            "what the history says of lanes, clock, names and so on could not all be read, and is"
            " left out; build it again from its trace",
        ),
        Anomaly(
            "late_event",
            "data_loss",
            "events far behind their place were left out; sort the input by time",
        ),
        Anomaly(
            "incomplete_change",
            "note",
            "changes that need a field that their event lacks, or a state that is not there, were"
            " left out",
        ),
        Anomaly(
            "past_change",
            "data_loss",
            "changes put off to a time before their event were left out",
        ),
        Anomaly(
            "event_without_phase",
            "note",
            "events that do not say what they are were left out",
        ),
        Anomaly(
            "unknown_phase",
            "data_loss",
            "events of a phase that the format does not define were left out",
        ),
        Anomaly(
            "phase_not_shown",
            "note",
            "memory dumps, clock syncs and contexts are not shown",
        ),
        Anomaly(
            "span_without_duration",
            "note",
            "complete events that give no duration are shown as empty spans",
        ),
        Anomaly(
            "negative_duration",
            "note",
            "spans that end before they begin are shown as empty spans at their begin",
        ),
        Anomaly(
            "end_without_begin",
            "data_loss",
            "ends without a begin were left out; the trace may begin in the middle",
        ),
        Anomaly(
            "unfinished_span",
            "note",
            "spans that were begun and not ended go on until their thread's last event",
        ),
        Anomaly(
            "end_of_another_name",
            "note",
            "ends name another span than the latest one begun, which they end all the same",
        ),
        Anomaly(
            "overlapping_span",
            "note",
            "spans partly overlap another one of their thread and are drawn in a lane of their own",
        ),
        Anomaly(
            "matched_by_time",
            "note",
            "threads whose begins and ends came out of order were matched in order of time",
        ),
        Anomaly(
            "flow_without_begin",
            "note",
            "flows that arrive without having left anywhere were left out",
        ),
        Anomaly(
            "flow_without_end",
            "note",
            "flows that leave and arrive nowhere were left out",
        ),
        Anomaly(
            "bad_id",
            "note",
            "process and thread ids that are neither numbers nor names were taken for 0",
        ),
        Anomaly(
            "bad_metadata",
            "note",
            "metadata events that do not hold what they should were left out",
        ),
        Anomaly(
            "bad_counter",
            "data_loss",
            "counter values that are not numbers were left out",
        ),
        Anomaly(
            "bad_profile",
            "data_loss",
            "profile data that contradict themselves were left out",
        ),
        Anomaly(
            "not_an_event",
            "note",
            "values among the events that are no objects were skipped",
        ),
        Anomaly(
            "unclosed",
            "note",
            "the input ends before its closing bracket; the tracer was probably stopped",
        ),
        Anomaly(
            "trailing_text",
            "note",
            "what stands behind the end of the trace was ignored",
        ),
        Anomaly(
            "record_skipped",
            "note",
            "records that hold nothing to be shown were skipped",
        ),
        Anomaly(
            "time_went_back",
            "note",
            "threads whose times go back are nested by their times alone",
        ),
        Anomaly(
            "undecodable_text",
            "note",
            "names that are not UTF-8 have U+FFFD in place of what cannot be read",
        ),
        Anomaly(
            "time_backwards",
            "note",
            "records whose clock went backwards count as simultaneous with what was before them",
        ),
        Anomaly(
            "records_lost",
            "data_loss",
            "events are missing: the disk was full or too slow, or a ring keeps only the newest; "
            "the time they belong to is drawn as lost, or as not recorded",
        ),
        Anomaly(
            "labels_left_out",
            "note",
            "states are without the request they belong to: there are more of these than can be "
            "told apart in one history",
        ),
        Anomaly(
            "records_rotated",
            "note",
            "the oldest records went to keep the recording within --max-size",
        ),
        Anomaly(
            "samples_skipped",
            "data_loss",
            "the sampler was not given a processor in time; those times are drawn as not recorded",
        ),
        Anomaly(
            "samples_torn",
            "note",
            "stacks changed while they were read; those samples count, without a stack",
        ),
        Anomaly(
            "records_missing",
            "data_loss",
            "records that the recorder wrote are not in the recording's files: one of them was cut "
            "or is gone; until the next record, states are those of the record before",
        ),
        Anomaly(
            "definitions_lost",
            "data_loss",
            "what numbers stand for could not be written when they were first used; was the disk "
            "full?",
        ),
        Anomaly(
            "undefined_location",
            "data_loss",
            "records name lines of code that are defined nowhere; those states have no location",
        ),
        Anomaly(
            "file_damaged",
            "data_loss",
            "files of the recording, or parts of them, are not what they should be and were left "
            "out; copy the recording again if it is whole elsewhere",
        ),
        Anomaly(
            "header_damaged",
            "note",
            "headers of a process's files contradict each other; what most of them say counts",
        ),
        Anomaly(
            "description_damaged",
            "note",
            "descriptions of the recording or of a process cannot be read: commands, the host or "
            "UTC times are missing",
        ),
        Anomaly(
            "process_not_recorded",
            "data_loss",
            "processes could not be recorded; the file `unrecorded` in the recording says why",
        ),
        Anomaly(
            "stack_unknown",
            "data_loss",
            "stacks of samples could not be written when they were first seen; was the disk full?",
        ),
    )
}


class Anomalies:
    """A count per named oddity.

    >>> anomalies = Anomalies()
    >>> anomalies.add("truncated")
    >>> dict(anomalies)
    {'truncated': 1}
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, name: str, count: int = 1) -> None:
        """Count an oddity of the catalogue `count` more times; 0 leaves no trace."""
        if name not in CATALOGUE:
            raise KeyError(f"{name!r} is not in the catalogue of anomalies")
        if count:
            self._counts[name] += count

    def update(self, other: Anomalies) -> None:
        """Add another count to this one."""
        self._counts.update(other._counts)

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._counts))

    def keys(self) -> list[str]:
        """Return the names counted at least once, sorted."""
        return sorted(self._counts)

    def __bool__(self) -> bool:
        return bool(self._counts)

    def __repr__(self) -> str:
        return f"Anomalies({dict(self)})"

    def lines(self) -> list[str]:
        """Return one sentence per oddity: how many, which, and what to know about it."""
        return [f"{self[name]:,} {name}: {CATALOGUE[name].advice}" for name in self]
