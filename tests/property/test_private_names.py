"""Scanners leave out the fields that `is_private` says are private, and only these."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import meantime
from meantime.readers.private_fields import PRIVATE_NAMES, is_private

PARTS = st.sampled_from([*PRIVATE_NAMES, "", "x", "deployment", "func", "K", "x" * 41])
NAMES = st.builds(
    lambda parts, separators, between, is_upper: "".join(
        (letter.upper() if is_upper else letter) + separators[index % 3]
        for index, letter in enumerate(between.join(parts))
    ),
    st.lists(PARTS, min_size=1, max_size=3),
    st.lists(st.sampled_from(["", "", "_", "-"]), min_size=3, max_size=3),
    st.sampled_from([".", ".", "", "/"]),
    st.booleans(),
)


def arguments(content: Any) -> list[dict[str, Any]]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "t.json")
        path.write_text(json.dumps(content), encoding="utf-8")
        spans = meantime.open(path).spans()
        texts = [spans.arguments(row) for row in range(len(spans))]
    return [json.loads(text or "{}") for text in texts]


@given(st.lists(NAMES, min_size=1, max_size=20, unique=True))
@settings(max_examples=60)
def test_the_rule_is_the_same_for_chrome_events_and_spans_of_services(names: list[str]) -> None:
    public = [name for name in names if not is_private(name)]
    events = [
        {"ph": "X", "name": "f", "pid": 1, "tid": 1, "ts": row, "dur": 0, "args": {name: "value"}}
        for row, name in enumerate(names)
    ]
    found = arguments({"traceEvents": events})
    assert [name for name, kept in zip(names, found, strict=True) if kept] == public

    attributes = [{"key": name, "value": {"stringValue": "value"}} for name in names]
    span = {
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "name": "GET",
        "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000000001000",
        "attributes": attributes,
    }  # fmt: skip
    (kept,) = arguments({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    assert [name for name in names if name in kept] == public
