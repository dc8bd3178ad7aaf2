"""The kinds of phases, and the names of the scanner's oddities and errors."""

from __future__ import annotations

from meantime.kernels import chrome

__all__ = ["DEFAULT_ID", "FAULTS", "KINDS", "ODDITIES"]

# The process or thread of events that do not name theirs.
DEFAULT_ID = b"0"


def _kinds() -> bytes:
    """Return a kind for each byte that a phase's letter may be."""
    kinds = bytearray([chrome.UNKNOWN] * 256)
    for letters, kind in (
        (b"X", chrome.COMPLETE),
        (b"B", chrome.BEGIN),
        (b"E", chrome.END),
        (b"iIR", chrome.THREAD_RECORD),
        (b"CbneSTpFstfNODPcvV()", chrome.RECORD),
        (b"M", chrome.TIMELESS),
    ):
        for letter in letters:
            kinds[letter] = kind
    return bytes(kinds)


KINDS = _kinds()

# By the scanner's ODD_ constants.
ODDITIES = (
    "event_without_time",
    "time_out_of_range",
    "event_without_phase",
    "unknown_phase",
    "span_without_duration",
    "negative_duration",
    "bad_id",
    "not_an_event",
    "truncated",
    "unclosed",
    "trailing_text",
    "bad_record",
    "further_trace",
)

# By the scanner's FAULT_ constants.
FAULTS = (
    "an event's key is a string in double quotes",
    "a colon is missing after an event's key",
    "a value is missing after an event's key",
    "an event, a comma or the closing bracket is missing",
    "a key of the trace is a string in double quotes",
    "a colon is missing after a key of the trace",
    "a value is missing after a key of the trace",
    "the file is empty",
    "a Chrome trace begins with [ or {",
)
