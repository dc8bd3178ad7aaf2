"""All ways to look at several hosts have the times that messages between these allow."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import meantime
from meantime.fleet import Fleet
from meantime.history.joined import placed
from meantime.model.clocks import ClockShift
from meantime.query.aligning_histories import align_histories
from meantime.server.session import Session
from meantime.views.statemap.assembly import build
from meantime.views.statemap.captions import panel_title

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from meantime.history import History

MS, S = 10**6, 10**9
_LENGTH_NS = 4 * S


def _switch(time_ns: int, leaving: int, coming: int) -> tuple[int, str]:
    names = {0: "swapper/0", 7: "scp"}
    event = (
        f"sched_switch: prev_comm={names[leaving]} prev_pid={leaving} prev_prio=120 prev_state=S"
        f" ==> next_comm={names[coming]} next_pid={coming} next_prio=120"
    )
    return time_ns, f"{names[leaving]}-{leaving} [000] {{}}: {event}"


def _packet(time_ns: int, event: str, number: int) -> tuple[int, str]:
    fields = f"sk=0x1 seq={number} ack_seq={number} check=0x1 window=5 flags=2"
    return time_ns, f"scp-7 [001] {{}}: inet_sock_local_{event}: {fields}"


def _write(path: Path, lines: list[tuple[int, str]]) -> Path:
    texts = [
        "  " + line.format(f"{time_ns // S}.{time_ns % S:09}") for time_ns, line in sorted(lines)
    ]
    path.write_text("\n".join(["# clock: realtime", "cpus=2", *texts, ""]))
    return path


def _hosts(folder: Path, shift: ClockShift, seed: int, rounds: int) -> list[Path]:
    """Write what two kernels saw of one exchange; `shift` makes times of the first of the second.

    Both say that they count UTC.
    """
    random = Random(seed)  # noqa: S311 - of test data
    begin_ns = 1_700_000_000 * S
    first = [_switch(begin_ns, 0, 7), _switch(begin_ns + _LENGTH_NS, 7, 0)]
    own = begin_ns - 60 * MS
    second = [_switch(own + each * S // 4, *((0, 7) if each % 2 == 0 else (7, 0)))
              for each in range(16)]  # fmt: skip
    for number in range(rounds):
        at_ns = own + (number + 1) * (_LENGTH_NS // (rounds + 2)) + random.randrange(MS)
        took_ns = 20_000 + random.randrange(60_000)
        out = number % 2 == 0
        there_ns = shift.of(at_ns) + (took_ns if out else -took_ns)
        first.append(_packet(there_ns, "in" if out else "out", number + 1))
        second.append(_packet(at_ns, "out" if out else "in", number + 1))
    return [_write(folder / "one.ftrace", first), _write(folder / "two.ftrace", second)]


def _starts(history: History, pattern: str) -> list[int]:
    return [
        each.start_ns
        for each in history.intervals(pattern, *history.bounds)
        if each.value == "user"
    ]


@given(
    offset_ns=st.sampled_from([0, 80 * MS, -80 * MS, 5 * S]),
    drift_ppt=st.sampled_from([0, 60 * 10**6, -200 * 10**6]),
    rounds=st.sampled_from([1, 2, 40]),
    seed=st.integers(0, 99),
)
@settings(
    max_examples=10,
    deadline=None,
    # an example reads many files
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_all_doors_have_the_same_times(
    tmp_path_factory: pytest.TempPathFactory,
    offset_ns: int,
    drift_ppt: int,
    rounds: int,
    seed: int,
) -> None:
    folder = tmp_path_factory.mktemp("hosts")
    begin_ns = 1_700_000_000 * S - 60 * MS
    paths = _hosts(folder, ClockShift(offset_ns, drift_ppt, begin_ns), seed, rounds)
    histories = [meantime.open(path) for path in paths]
    assert all(history.clock.utc_at_origin_ns is not None for history in histories)
    found = align_histories(histories)[1]
    moved, by_ns = placed(histories[1], found.shift, histories[0].clock)
    cpu = "CPUs/0/Status"
    expected = [each + by_ns for each in _starts(moved, cpu)]

    joined = meantime.join(histories, ["one", "two"])
    assert _starts(joined, f"Hosts/two/{cpu}") == expected

    panels = build(histories).panels
    panel = next(each for each in panels if each.history == 1)
    window = panel.start_ns + panel.offset_ns, panel.end_ns + panel.offset_ns
    assert window == (panels[0].start_ns, panels[0].end_ns)
    drawn = panel.begin_ns + panel.offset_ns
    assert drawn == moved.bounds[0] + by_ns
    assert found.note in panel_title(build(histories), panel)

    session = Session([str(path) for path in paths])
    session.start()
    assert session.wait(600)
    document = session.document()["files"][1]
    shown = session.files[1].shown
    assert shown is not None
    assert [each + document["offset_ns"] for each in _starts(shown.tree.history, cpu)] == expected
    assert document["aligned"] == found.how
    assert document["facts"].get("aligned", "") == found.note
    counted = {each["name"] for each in document["anomalies"]}
    assert ("clock_contradicted" in counted) == (found.contradicted_ns > 0)

    fleet = Fleet(paths, names=["one", "two"], jobs=1)
    surveyed = fleet.build()
    assert surveyed.result[1].alignment == found
    assert surveyed.result[1].bounds == (moved.bounds[0] + by_ns, moved.bounds[1] + by_ns)
    reasons = [each.reason for each in surveyed.anomalies]
    assert reasons == ([found.note] if found.contradicted_ns else [])
    low, high = min(expected), max(expected) + S
    bins = 97
    shares = fleet.shares("CPUs/0/Status", low, high, bins).result
    whole = joined.grouped_shares(
        joined.quarks("Hosts/*/CPUs/0/Status"), low, high, bins,
        lambda path: joined.attributes.text(joined.quark(*path)),
    )  # fmt: skip
    for key in ("Hosts/one/CPUs/0/Status", "Hosts/two/CPUs/0/Status"):
        assert [shares.cell(key, each) for each in range(bins)] == [
            whole.cell(key, each) for each in range(bins)
        ]

    names = ["one", "two"]
    one = meantime.heatmap(
        [histories[0], moved], names=names, offsets={1: by_ns}, period=S, states="user", by="state"
    )
    expected_map = b"".join(one.render("json"))
    for heat in (
        meantime.heatmap(paths, names=names, period=S, states="user", by="state"),
        fleet.heatmap(period=S, states="user", by="state").result,
    ):
        assert b"".join(heat.render("json")) == expected_map
