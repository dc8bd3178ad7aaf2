"""Profiles of Firefox and samply, against counts made of their JSON without meantime."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from corpus import FORMATS

import meantime
from meantime.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history.history import History
    from meantime.model.columns import Coded

NAMES = (
    "firefox-gecko-3.json",
    "firefox-gecko-12.json.gz",
    "firefox-processed-0.json",
    "firefox-processed-58.json.gz",
    "samply-processed-41.json.gz",
)


def listed(column: Coded) -> list[str]:
    return [str(column[row]) for row in range(len(column))]


def plain(name: str) -> str:
    """Return the name of an address without its library."""
    return name.partition(" (")[0] if name.startswith("0x") else name


def opened(tmp_path: Path, name: str) -> History:
    (data,) = [files[name] for files in FORMATS["firefox"].samples() if name in files]
    (tmp_path / name).write_bytes(data)
    return meantime.open(tmp_path / name)


@pytest.mark.parametrize("name", NAMES)
def test_samples_agree_with_independent_counts(samples: Path, name: str) -> None:
    facts = json.loads((samples / "profiles" / "facts.json").read_text())[name]
    history = meantime.open(samples / "profiles" / name)
    found = history.samples(event="samples")

    threads = [thread for thread in facts["threads"] if thread[1]]
    own = Counter(found.thread.tolist())
    assert len(own) == len(threads)
    for quark, (called, count, without, weight, first_ms, last_ms) in zip(
        sorted(own), threads, strict=True
    ):
        part = found.select([quark])
        assert (history.names[quark], len(part)) == (called, count)
        assert int((part.stack < 0).sum()) == without
        assert weight is None or int(part.weight.sum()) == weight
        times = (round(first_ms * 10**6), round(last_ms * 10**6))
        assert (int(part.time_ns[0]), int(part.time_ns[-1])) == times
    known = found.stack[found.stack >= 0].tolist()
    leaf = Counter(plain(found.stacks.frames_of(row)[-1]) for row in known)
    for function, count in facts["self_samples"].items():
        assert leaf[plain(function)] == count


def test_a_child_process_is_shifted_by_its_start(tmp_path: Path) -> None:
    history = opened(tmp_path, "rows.json")
    times = history.samples().time_ns.tolist()
    assert times == [1_000_000, 2_000_000, 2_000_000, 3_000_000]
    assert history.clock.utc_at_origin_ns == 1_500_000_000_000_250_000


def test_markers_states_counters_and_messages(tmp_path: Path) -> None:
    history = opened(tmp_path, "columns.json")
    spans = history.spans()
    lengths = sorted(zip(listed(spans.name), (spans.end_ns - spans.start_ns).tolist(), strict=True))
    assert lengths == [
        ("Marker", 1_000_000), ("Marker", 1_500_000), ("Paint", 1_000_000), ("Paint", 1_500_000),
        ("measure", 500_000),
    ]  # fmt: skip
    (network,) = [each for row in range(5) if (each := spans.arguments(row)) and "URI" in each]
    assert json.loads(network) == {"URI": "https://host/path"}
    assert listed(history.points().name) == ["said", "Paint"]
    assert listed(history.flows().name) == ["M"]
    (counter,) = history.quarks("Processes/*/Counters/*/*")
    values = [each.value for each in history.intervals([counter]) if each.value is not None]
    assert values == [5, 3]
    assert {row.key for row in meantime.stats(history, by="state").rows} == {"Other", "JavaScript"}
    assert history.metadata.sample_units == {"samples": "samples", "cpu": "ns"}
    assert int(history.samples(event="cpu").weight.sum()) == 11_000


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"prefix": [0, 0]}, r"threads\[0\] is malformed"),
        ({"prefix": [1, None]}, r"threads\[0\] is malformed"),
        ({"frame": [0, 9]}, r"threads\[0\] is malformed"),
        ({"length": 10**15}, r"threads\[0\] is malformed"),
    ],
)
def test_stacks_that_refer_to_themselves_or_nothing_are_refused(
    tmp_path: Path, change: dict[str, object], problem: str
) -> None:
    profile = json.loads(FORMATS["firefox"].samples()[0]["columns.json"])
    profile["threads"][0]["stackTable"] |= change
    (tmp_path / "bad.json").write_text(json.dumps(profile))
    with pytest.raises(InputError, match=problem):
        meantime.open(tmp_path / "bad.json")
    left = meantime.open(tmp_path / "bad.json", lenient=True)
    assert left.anomalies["bad_profile"] == 1
    assert len(left.samples())


@pytest.mark.parametrize("key", ["sampleGroups", "sample_groups"])
@pytest.mark.parametrize("is_single", [False, True])
def test_a_counter_with_a_single_group_of_samples_is_read(
    tmp_path: Path,
    key: str,
    is_single: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    profile = json.loads(FORMATS["firefox"].samples()[0]["columns.json"])
    group = {"id": 0, "samples": {"time": [0, 2], "count": [1, 2], "length": 2}}
    profile["counters"] = [
        {"name": "malloc", "category": "Memory", key: group if is_single else [group]}
    ]
    (tmp_path / "old.json").write_text(json.dumps(profile))

    history = meantime.open(tmp_path / "old.json")

    (counter,) = history.quarks("Processes/*/Counters/*/*")
    values = [each.value for each in history.intervals([counter]) if each.value is not None]
    assert values == [1, 3]


def test_what_came_before_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"format": "x", "profileJSON": {}}')
    with pytest.raises(InputError, match="Cleopatra"):
        meantime.open(tmp_path / "old.json")


@pytest.mark.parametrize("time", ["time", "startTime"])
def test_times_whose_nanoseconds_are_no_number_are_refused(
    samples: Path, tmp_path: Path, time: str
) -> None:
    profile = json.loads((samples / "profiles" / NAMES[0]).read_bytes())
    thread = next(each for each in profile["threads"] if each["samples"]["data"])
    if time == "time":
        thread["samples"]["data"][0][thread["samples"]["schema"]["time"]] = 1e303
    else:
        markers, schema = thread["markers"]["data"], thread["markers"]["schema"]
        markers[0][schema["data"]] = {"startTime": 1, "endTime": 1e303}
    (tmp_path / "bad.json").write_text(json.dumps(profile))
    with pytest.raises(InputError, match="is malformed"):
        meantime.open(tmp_path / "bad.json")
