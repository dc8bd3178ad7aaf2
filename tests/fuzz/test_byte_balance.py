"""Every byte of a binary file is used, or counted: one more, or one less, is never silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from corpus import FORMATS
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.errors import MeantimeError
from meantime.model.input_path import input_path
from meantime.readers import open_trace

if TYPE_CHECKING:
    from pathlib import Path

# By format: the samples that are binary, whole, and one file.
SAMPLES = {
    each.name: [
        (name, data)
        for files in each.samples()
        if len(files) == 1
        for name, data in files.items()
        if not data.startswith((b"{", b"[", b"\x1f\x8b", b"\x28\xb5", b"*version"))
        and (b"\0" in data or b"\x10" in data)
    ]
    for each in FORMATS.values()
    if not each.text and not each.is_directory and each.name not in {"compressed", "packed"}
}


def anomalies_of(path: Path, format_: str | None, data: bytes) -> dict[str, int] | None:
    """Return what is counted; None if the file is refused."""
    path.write_bytes(data)
    try:
        given_path = path if format_ is None else input_path(path, format_=format_)
        trace = open_trace(given_path, lenient=True)
        for _ in trace.batches:
            pass
    except MeantimeError:
        return None
    return dict(trace.anomalies)


@pytest.mark.parametrize("format_", [name for name, samples in SAMPLES.items() if samples])
@settings(max_examples=15)
@given(data=st.data())
def test_a_byte_more_or_less_is_counted_or_refused(
    format_: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name, sound = data.draw(st.sampled_from(SAMPLES[format_]))
    path = tmp_path_factory.getbasetemp() / name
    reader = FORMATS[format_].reader
    before = anomalies_of(path, reader, sound)
    if before is None or "truncated" in before:
        return
    count = data.draw(st.integers(1, 40))
    change = data.draw(st.sampled_from(["zeros", "ones", "cut"]))
    changed = {
        "zeros": sound + bytes(count),
        "ones": sound + b"\xff" * count,
        # records in a row may end anywhere between two of them
        "cut": sound[:-1],
    }[change]

    after = anomalies_of(path, reader, changed)

    assert after is None or after != before
