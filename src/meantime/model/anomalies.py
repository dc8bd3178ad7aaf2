"""Named oddities in the input, counted. Input is never dropped without being counted here."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from meantime.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["CATALOGUE", "Anomalies", "check_strictness"]

# By name, a sentence about what the oddity is and what to do about it.
CATALOGUE: dict[str, str] = {
    "truncated": (
        "the input ends inside a record, which was skipped; the tracer was probably killed"
    ),
    "zero_bytes": (
        "bytes of the text are zero: it was not written whole, as after a crash of the system or on"
        " a full disk; what stood there is lost"
    ),
    "damaged_compression": ("the compressed data are damaged: what is behind that was not read"),
    "bad_record": (
        "records that could not be read were skipped; the fact `first skipped record` of a statemap"
        " says why, and so does a run without --lenient"
    ),
    "ignored_metadata": (
        "unknown keys and colors of the metadata were ignored; the fact `ignored` names them"
    ),
    "sorted_record": (
        "records that came after later ones of their entity were sorted in; the fact `latest"
        " record` says how late they were"
    ),
    "skipped_bytes": "bytes were skipped after broken records, up to the next record",
    "weight_rounded": (
        "fractional weights in a unit other than time were rounded to the nearest integer"
    ),
    "unread_after_end": (
        "what comes after the end of the window cannot be read, and was left out unread"
    ),
    "rounded_overlap": (
        "intervals last longer than until the next one of their entity by no more than the rounding"
        " of starts and durations: they end where the next one starts"
    ),
    "zero_length_state": "an entity changed state twice at one time; the later state counts",
    "interval_without_start": "intervals without a start were left out",
    "interval_without_end": ("intervals without an end are drawn until the last time of the input"),
    "begin_without_end": (
        "begins of pairs have no end: they last until the span that they are in ends, until the"
        " next such begin, or until the end of the log"
    ),
    "step_of_job": "steps of batch jobs are within their job, and were left out",
    "short_row": "rows of the table have fewer fields than columns; the missing ones are empty",
    "long_row": (
        "rows of the table have more fields than columns: what is in them was not read, and may"
        " be in the wrong columns where a field has a separator that is not quoted"
    ),
    "line_went_back": (
        "times go back although lines are in order of time: a part of the file is exchanged, late,"
        " or in it twice; what lines say is placed by their times"
    ),
    "repeated_line": (
        "lines are equal to the one before, to the nanosecond, and count as often as they occur; is"
        " a part of the file in it twice?"
    ),
    "repeated_row": (
        "rows of the table are equal to another one, and count as often as they occur; is a part of"
        " the file in it twice?"
    ),
    "doubled_row": (
        "rows are in the log twice, and count once: no output is modified twice at one time; is a"
        " part of the file in it twice?"
    ),
    "costs_missing": (
        "the costs of functions add up to less than the total that the file states: it was"
        " probably cut"
    ),
    "trailing_bytes": "bytes behind the end of the trace were ignored",
    "merged_states": (
        "rectangles of the picture have several states: how long each lasted is known, within the"
        " digits of the picture, but not when; draw the picture with more rectangles (-c)"
    ),
    "cells_of_time": (
        "cells of the heat map have time in which something was: how long is known, but not when"
        " within the cell, nor how often"
    ),
    "unknown_line": "lines of a form that the format does not have were skipped",
    "unread_event": (
        "lines with a time whose other fields differ from those of the first lines were"
        " skipped; print all events with the same fields"
    ),
    "time_went_back": "spans of threads whose times go backwards are nested by their times alone",
    "lost_events": "the tracer could not keep up and lost events; give it larger buffers",
    "lost_switch": (
        "the thread that left a CPU is not the one that was switched in last; which thread ran"
        " in between is unknown"
    ),
    "unknown_time": (
        "what CPUs did is not known for 1 % of the trace or more; the fact `unknown time` says for"
        " how much of each"
    ),
    "cpu_time_went_back": (
        "the times of a CPU go backwards; what happened on it is placed by its times"
    ),
    "unread_fields": (
        "events of the scheduler or of block devices whose fields have an unknown form say nothing"
        " of CPUs and threads"
    ),
    "overwritten_events": (
        "the tracer's buffers were full, and the earliest events were overwritten; give it larger"
        " buffers"
    ),
    "event_without_time": "events whose time is not a 64-bit number of nanoseconds cannot be drawn",
    "event_without_row": (
        "events of entities that have neither states nor a description are not drawn"
    ),
    "target_without_row": (
        "events on entities that have neither states nor a description are drawn without an arrow"
    ),
    "event_after_end": (
        "events at or after the time of the last datum are not drawn, as the map ends there"
    ),
    "state_after_end": (
        "entities have states that begin after the last datum of the file, where the trace ends; a"
        " statemap draws them, and statistics include them with a later --to"
    ),
    "definition_with_time": (
        "tag definitions have a time and an entity; state changes with a stray key are read so"
    ),
    "time_out_of_range": "times that do not fit into 64 bits of nanoseconds cannot be drawn",
    "unreadable_fact": (
        "some metadata of the history (lanes, clock, names and so on) cannot be read and were"
        " skipped; rebuild the history from its trace"
    ),
    "late_event": (
        "events were left out because they are too late to be sorted; sort the input by time"
    ),
    "incomplete_change": (
        "changes that need a field that their event lacks, or a state that does not exist, were"
        " skipped"
    ),
    "no_such_event": (
        "the trace lacks events that the provider is about, and has others that are called nearly"
        " so: the fact `events not found` has both"
    ),
    "past_change": (
        "changes scheduled for a time before their event, and spans that would begin after it, were"
        " left out"
    ),
    "event_without_phase": "events without a phase were left out",
    "unknown_phase": "events of a phase that the format does not define were left out",
    "phase_not_shown": "memory dumps, clock syncs and contexts are not shown",
    "span_without_duration": "complete events without a duration are shown as empty spans",
    "negative_duration": "spans that end before their start are shown as empty spans",
    "end_without_begin": "ends without a begin were left out; the trace may begin in the middle",
    "unfinished_span": "spans without an end are drawn until their thread's last event",
    "sum_of_spans": (
        "sums of spans by name, which `-ftime-trace` writes as if they were spans from 0s on, were"
        " left out; the fact `sums` has them"
    ),
    "end_of_another_name": "end events whose name differs from the span they close",
    "overlapping_span": (
        "spans that partly overlap another one of their thread are drawn in a separate lane"
    ),
    "matched_by_time": (
        "threads whose begins and ends are out of order were matched in order of time"
    ),
    "flow_without_begin": "flows without a begin were left out",
    "flow_without_end": "flows without an end were left out",
    "bad_id": "process and thread ids that are neither numbers nor strings were replaced by 0",
    "system_trace_left_out": (
        "events of the kernel, text in `systemTraceEvents`, were left out; the fact `system trace`"
        " says why:"
        " `jq -r .systemTraceEvents FILE > kernel.txt` writes a file that can be opened"
    ),
    "bad_metadata": "malformed metadata were left out",
    "bad_counter": "counter values that are not numbers were left out",
    "bad_profile": "malformed or inconsistent profile data were left out",
    "not_an_event": "values among the events that are not objects were skipped",
    "unclosed": "the input ends before its closing bracket; the tracer was probably stopped",
    "trailing_text": "bytes of text after the end of the trace were ignored",
    "further_trace": (
        "further traces stand behind the first one in the file, as of a program that was started"
        " again; all are read, on one axis of time"
    ),
    "record_skipped": "records without data to be shown were skipped",
    "undecodable_text": "names that are not UTF-8 have U+FFFD in place of invalid bytes",
    "time_backwards": (
        "records whose clock went backwards have the time of the record before them"
    ),
    "records_lost": (
        "events are missing: the disk was full or too slow, or a ring keeps only the newest;"
        " the time they belong to is drawn as lost, or as not recorded"
    ),
    "request_without_task": (
        "requests were left out: the beginning of the task that served them is missing"
    ),
    "labels_left_out": (
        "states lack the request they belong to: one history cannot distinguish this many requests"
    ),
    "records_rotated": "the oldest records were deleted to keep the recording within --max-size",
    "samples_skipped": (
        "the sampler was not scheduled in time; those times are drawn as not recorded"
    ),
    "samples_torn": "stacks changed while they were read; those samples count, without a stack",
    "records_missing": (
        "records are missing from the recording's files: one of these was cut or deleted;"
        " until the next record, states are those of the record before"
    ),
    "definitions_lost": (
        "definitions of numbers could not be written when these were first used; was the disk full?"
    ),
    "undefined_location": (
        "records refer to code locations that are not defined; those states have no location"
    ),
    "file_damaged": (
        "damaged files of the recording, or parts of them, were skipped; copy the recording"
        " again if another copy is intact"
    ),
    "segment_damaged": (
        "segments of the history are damaged or missing; states in their time are unknown:"
        " build the history again, or copy it again"
    ),
    "table_damaged": (
        "tables of the history are damaged or missing: what is in them is left out; build the"
        " history again, or copy it again"
    ),
    "header_damaged": "headers of a process's files contradict each other; the majority was used",
    "description_damaged": (
        "descriptions of the recording or of a process cannot be read: commands, the host or"
        " UTC times are missing"
    ),
    "library_not_recognised": (
        "libraries are of versions of which not all is recorded; the fact `not recognised` says"
        " what is missing"
    ),
    "thread_waits_missing": (
        "processes have several threads whose waits could not be recorded; the fact `waits of"
        " threads` says why, and what a thread waited for is `unrecorded-wait`"
    ),
    "interpreters_not_recorded": (
        "processes run tasks in interpreters of their own (`concurrent.interpreters`), which are"
        " not recorded; the waits of their threads are"
    ),
    "process_not_recorded": (
        "processes could not be recorded; the file `unrecorded` in the recording says why"
    ),
    "span_without_start": "spans without a time of their start were left out",
    "span_without_end": (
        "spans without an end are drawn until the last event that is known of them"
    ),
    "parent_not_in_input": (
        "spans whose parent is not in the input are drawn without it; another file may have it"
    ),
    "repeated_span_id": (
        "spans have the id of another span of their trace; children belong to the first, or to the"
        " one of their service"
    ),
    "parent_cycle": "spans that are their own ancestors are drawn without a parent",
    "child_before_parent": (
        "spans begin before their parent in another service: the clocks of the two differ; the"
        " fact `clocks differ` says by how much, and --repair-clocks shifts them"
    ),
    "span_before_parent": (
        "spans begin before their parent in the same service, which is not drawn as their cause"
    ),
    "child_after_parent": (
        "a server's spans end after the client's call in another service: the client did not wait,"
        " or the clocks of the two differ; the fact `clocks differ` says by how much, and"
        " --repair-clocks shifts them"
    ),
    "link_left_out": "links to spans that are not in the input, or begin later, are not drawn",
    "fields_dropped": ("the recorded program dropped attributes, events or links above its limits"),
    "private_field": (
        "fields with command lines, environments, headers of requests, queries of addresses,"
        " statements or what was read and written were left out; --include env copies all but the"
        " last"
    ),
    "warned_span": "the tracing system warns of these spans; see their arguments",
    "reports_merged": "several reports of one span were merged",
    "start_inferred": (
        "spans without a time begin at their first event or child, the earliest that is known"
    ),
    "call_without_end": (
        "calls whose end is unknown are drawn as empty spans, and have no state; record with"
        " `strace -T`"
    ),
    "stack_left_out": "lines of the stacks that `strace -k` prints were left out",
    "packet_without_state": (
        "packets that refer to definitions which were lost, or are before the beginning of the"
        " trace, were left out; give the tracer larger buffers"
    ),
    "packets_lost": "the tracer lost packets; give it larger buffers",
    "packet_not_shown": (
        "packets of kinds that are not drawn were left out; the fact packets_not_shown lists them"
    ),
    "unknown_packet": "fields of the file other than packets were skipped",
    "argument_not_shown": (
        "arguments whose type the trace does not describe were left out; the fact"
        " arguments_not_shown lists them"
    ),
    "undefined_number": "numbers of names that the trace does not define are shown without a name",
    "too_deep": "arguments nested too deeply were left out",
    "event_without_clock": (
        "events whose clock no snapshot relates to that of the trace were left out"
    ),
    "sample_without_thread": "samples of threads that the trace does not describe were left out",
    "unplaced_marker": (
        "markers were left out: their times and those of the samples have different origins"
    ),
    "negative_weight": (
        "weights are below 0, as in the difference of two profiles: statistics add them up, and"
        " flame graphs draw only the increases"
    ),
    "host_name_twice": (
        "hosts had the name of another one, and were numbered; give each its name with --names"
    ),
    "host_not_aligned": (
        "the clocks of hosts cannot be related to that of the first: they are drawn from the same"
        " beginning, but are not aligned; give --offset NAME=TIME"
    ),
    "clock_contradicted": (
        "messages arrive before they were sent by the clocks of hosts, or by given offsets;"
        " the facts say by how much, and messages decide unless an offset is given"
    ),
    "host_missing": (
        "hosts could not be opened and are left out; the fact `hosts left out` says why"
    ),
    "host_changed": (
        "histories of hosts are not those that were joined; join them again if the new ones are"
        " meant"
    ),
    "clock_moved": (
        "the clocks of hosts moved against UTC by more than a millisecond while they were"
        " recorded: their times are off by as much"
    ),
    "undefined_event": "samples of events that the file does not describe were left out",
    "throttled": (
        "the kernel stopped sampling for a while, as samples took too much of its time: functions"
        " that ran then have too few; record with a lower frequency (perf record -F)"
    ),
    "stack_not_unwound": (
        "samples have a copy of the stack in place of callers, which is not unwound: they show the"
        " innermost function; record with `--call-graph fp`, or open the text of `perf script`"
    ),
    "maps_left_out": (
        "mappings of files into processes were left out, as there are more than Linux allows: some"
        " functions have no names"
    ),
    "hardware_trace": (
        "bytes of what a processor traced, such as Intel PT, were left out; open the text of"
        " `perf script --itrace=i1us`"
    ),
    "stack_unknown": (
        "stacks of samples could not be written when they were first seen; was the disk full?"
    ),
}

# Left out for what it is, not for how the input is.
_BY_CHOICE = ("private_field",)


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

    def refuse(self, path: str) -> None:
        """Fail if there is an anomaly: what `strict` means everywhere.

        What meantime leaves out by itself, because it is private, is not one in this sense.

        Raises:
            InputError: With all of them.
        """
        if faults := self.faults():
            raise InputError(path, "with --strict: " + "; ".join(faults))

    def faults(self, without: Collection[str] = ()) -> list[str]:
        """Return the lines of what is wrong with the input, not of what is left out by choice."""
        return self.lines(without=(*_BY_CHOICE, *without))

    def lines(self, without: Collection[str] = ()) -> list[str]:
        """Return one line per oddity: its count, its name, and the advice about it."""
        return [f"{self[name]:,} {name}: {CATALOGUE[name]}" for name in self if name not in without]


def check_strictness(*, lenient: bool, strict: bool) -> None:
    """Check that an input is not to be read in two ways.

    Raises:
        UsageError: If it is.
    """
    if lenient and strict:
        raise UsageError("--lenient and --strict are mutually exclusive")
