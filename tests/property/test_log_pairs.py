"""Begins and ends of a log as spans, compared with what that means, event by event."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meantime.errors import InputError
from meantime.model.column_mapping import mapping_of
from meantime.model.input_path import InputPath
from meantime.model.trace import SpanFlag, Spans
from meantime.readers import open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.model.column_mapping import Pair

PAIRS = [
    (["b:e"], []),
    (["b:e"], ["job"]),
    (["b:e,f", "s:d"], ["job", "job,part"]),
    (["b:e,f", "c:d", "s:x,e"], ["job", "job", "job,part"]),
    (["b:b"], ["part"]),
    (["b:e", "e:b"], ["tid", "tid"]),
    (["b:e,e,f"], ["job,part"]),
]
keys = st.sampled_from([1, 2, "1", None])
values = st.sampled_from([1, -(2**63), 'é"\\\n', "x", 1.5, True, {"a": [1, "ü"]}, 10**30])
events = st.fixed_dictionaries(
    {"name": st.sampled_from("befscdx")},
    optional={
        "job": keys, "part": keys, "tid": st.sampled_from([3, -1]), "end": values,
        "ended_by": values, "process.command": values, 'é"': values,
    },
)  # fmt: skip


class Defined:
    """What the begins and ends of a log mean.

    Attributes:
        spans: In order of their begins: begin, end, pair, key, what they are in, fields, and
            whether they have an end of their own.
        counts: The anomalies.
    """

    def __init__(self, log: list[dict[str, Any]], pairs: tuple[Pair, ...]) -> None:
        self.pairs = pairs
        self.spans: list[dict[str, Any]] = []
        self.counts = Counter[str]()
        for time, event in enumerate(log):
            for pair in pairs:
                for _ in range(pair.ends.count(event["name"])):
                    self.end(pair, time, event)
            for number, pair in enumerate(pairs):
                if event["name"] == pair.begin:
                    self.begin(number, time, event)
        for span in self.spans:
            if span["end"] is None:
                self.close(span, len(log) - 1, None)

    def opened(self, pair: Pair, event: dict[str, Any]) -> dict[str, Any] | None:
        for span in self.spans:
            if span["end"] is None and (span["pair"], span["key"]) == (pair, key_of(pair, event)):
                return span
        return None

    def begin(self, number: int, time: int, event: dict[str, Any]) -> None:
        pair = self.pairs[number]
        if (span := self.opened(pair, event)) is not None:
            self.close(span, time, None)
        outer = [
            self.opened(each, event)
            for other, each in enumerate(self.pairs)
            if other != number
            and pair.by[: len(each.by)] == each.by
            and (each.by != pair.by or other < number)
        ]
        inside = max(filter(None, outer), key=self.spans.index, default=None)
        own = {"begin": time, "end": None, "pair": pair, "key": key_of(pair, event)}
        self.spans.append(own | {"inside": inside, "fields": fields_of(event), "whole": False})

    def end(self, pair: Pair, time: int, event: dict[str, Any]) -> None:
        if (span := self.opened(pair, event)) is None:
            self.counts["end_without_begin"] += 1
            return
        span["fields"] |= fields_of(event)
        if len(pair.ends) > 1:
            span["fields"]["end"] = event["name"]
        span["whole"] = True
        self.close(span, time, event["name"])

    def close(self, span: dict[str, Any], time: int, by: str | None) -> None:
        for each in self.spans:
            if each["inside"] is span and each["end"] is None:
                each["fields"] |= {} if by is None else {"ended_by": by}
                self.close(each, time, by)
        span["end"] = time
        self.counts["begin_without_end"] += not span["whole"]
        self.counts["private_field"] += "process.command" in span["fields"]
        span["fields"].pop("process.command", None)

    @property
    def rows(self) -> list[tuple[int, int, str, bool, str]]:
        """Begin, end, name, whether there is an end, and the text of the fields, sorted."""
        rows = []
        for span in self.spans:
            text = json.dumps(span["fields"], ensure_ascii=False) if span["fields"] else ""
            rows.append((span["begin"], span["end"], span["pair"].begin, span["whole"], text))
        return sorted(rows)


def key_of(pair: Pair, event: dict[str, Any]) -> list[str]:
    return [str(event.get(name)) for name in pair.by]


def fields_of(event: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an event as providers see them."""
    fields = {key: value for key, value in event.items() if key != "name"}
    if fields.get("tid", -1) >= 0:
        del fields["tid"]
    for key, value in fields.items():
        if isinstance(value, dict):
            fields[key] = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        elif value == 10**30:
            fields[key] = str(value)
    return fields


@given(
    log=st.lists(events, min_size=1, max_size=60),
    columns=st.sampled_from(PAIRS),
    batch=st.sampled_from([1, 3, 20, 100]),
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_spans_are_those_of_the_definition(
    tmp_path: Path, log: list[dict[str, Any]], columns: tuple[list[str], list[str]], batch: int
) -> None:
    path = tmp_path / "log.jsonl"
    lines = [json.dumps({"time_ns": time} | event) for time, event in enumerate(log)]
    path.write_text("\n".join(lines) + "\n")
    mapping = mapping_of(None, *columns)
    assert mapping is not None
    expected = Defined(log, mapping.pairs)
    trace = open_trace(InputPath(str(path), mapping))
    found = []
    refusal: Any = contextlib.nullcontext()
    if not expected.spans:
        refusal = pytest.raises(InputError, match="no event is called")
    with refusal, patch("meantime.readers.jsonl._BATCH_EVENTS", batch):
        for each in trace.batches:
            if not isinstance(each, Spans):
                continue
            assert each.arguments is not None
            for row in range(len(each.start_ns)):
                name = trace.categories[each.category[row]]
                text_at = int(each.arguments.offset[row]), int(each.arguments.length[row])
                whole = not each.flags[row] & SpanFlag.UNFINISHED
                times_ns = int(each.start_ns[row]), int(each.end_ns[row])
                found.append((*times_ns, name, whole, trace.text.decode(*text_at) or ""))
    assert sorted(found) == expected.rows
    assert dict(trace.anomalies) == +expected.counts
