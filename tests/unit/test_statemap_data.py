from __future__ import annotations

import json
from functools import cmp_to_key
from typing import TYPE_CHECKING

import original_statemap as original
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meantime
from meantime.errors import InputError, MeantimeError, UsageError
from meantime.history import HistoryBuilder
from meantime.model.clocks import Clock
from meantime.model.natural_order import natural_key, natural_order
from meantime.model.trace import State
from meantime.testing import history_from_picture
from meantime.views.palette import choose, parse
from meantime.views.statemap import StatemapOptions, build, count, document
from meantime.views.statemap.data import Clipped
from meantime.views.statemap.options import Budget

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History


def history(
    *changes: tuple[int, str, str], clock: Clock | None = None, colors: dict[str, str] | None = None
) -> History:
    builder = HistoryBuilder(clock=clock)
    states = [
        State(name, value, (colors or {}).get(name))
        for value, name in enumerate(sorted({state for _, _, state in changes}))
    ]
    builder.lanes("*", states=states)
    for time_ns, entity, state in changes:
        builder.modify(time_ns, builder.quark(entity), state)
    return builder.close(max(time_ns for time_ns, _, _ in changes) + 10)


TEXTS = st.text(st.sampled_from("0012 9ab\t\u2003é"), max_size=6)


@given(TEXTS, TEXTS)
def test_natural_keys_compare_as_names_do_in_the_original(one: str, other: str) -> None:
    law = original.natural_compare(one, other)

    mine, its = natural_key(one), natural_key(other)

    assert (mine > its) - (mine < its) == (law > 0) - (law < 0)


@given(st.lists(TEXTS, unique=True))
def test_names_are_in_natural_order_and_equal_ones_in_a_fixed_one(names: list[str]) -> None:
    ordered = [names[place] for place in natural_order(names)]

    assert ordered == sorted(sorted(names), key=cmp_to_key(original.natural_compare))


def test_a_run_that_begins_with_zero_sorts_like_a_fraction() -> None:
    names = ["10", "9", "009", "0010", "t1", "t01"]

    assert [names[place] for place in natural_order(names)] == [
        *("0010", "009", "9", "10"),
        *("t01", "t1"),
    ]


@pytest.mark.parametrize(
    "text", ["", "#12345", "#1234567", "#12345é", "rouge", "#12", "rgb(0,0,0)", "#ggg000"]
)
def test_an_invalid_color_is_none(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("color", ["#F00", "#ff0000", "#Ff0000", "Red", "red"])
def test_lenient_and_strict_reading_know_the_same_colors(
    tmp_path: Path, color: str, *, lenient: bool
) -> None:
    states = {"on": {"value": 0, "color": color}}
    (path := tmp_path / "x.statemap").write_text(
        json.dumps({"start": [0, 0], "title": "t", "states": states})
        + '\n{"time": "0", "entity": "a", "state": 0}\n{"time": "9", "entity": "a", "state": 0}\n'
    )
    drawn = meantime.statemap(path, lenient=lenient)

    assert [each.color for each in drawn.data.panels[0].states] == ["#ff0000"]


def test_the_color_of_a_name_does_not_depend_on_the_order_of_names() -> None:
    names = [f"state-{number}" for number in range(30)]

    chosen = choose(names)

    assert choose(reversed(names)) == chosen
    assert len(set(chosen.values())) == len(names)


def test_a_color_that_was_given_elsewhere_is_not_chosen() -> None:
    first = choose(["idle"])["idle"]

    assert not choose(["idle"], [first])["idle"].is_like(first)


@pytest.mark.parametrize("given", ["#2E8B57", "#0072b2", "#f0e442", "#808080"])
def test_a_chosen_color_is_no_twin_of_one_that_was_given(given: str) -> None:
    taken = parse(given)
    assert taken

    chosen = choose([f"state-{number}" for number in range(12)], [taken])

    assert all(color.distance(taken) >= 8 for color in chosen.values())


def test_states_of_one_class_have_shades_of_its_color_and_the_typical_one_has_itself() -> None:
    chosen = choose(["preempted", "runnable", "futex", "lock", "idle", "parked"])

    assert str(chosen["runnable"]) == "#f6b324"
    assert str(chosen["lock"]) == "#9952ba"
    assert str(chosen["idle"]) == "#ebedf1"
    assert len(set(chosen.values())) == 6


def test_a_state_has_another_color_on_dark_ground_if_its_class_chose_it_or_if_it_is_pale() -> None:
    declared = {"a": "#ff0000", "off": "#ffffff"}
    changes = ((0, "x", "running"), (1, "x", "a"), (2, "x", "off"), (3, "x", "a"))
    (panel,) = build([history(*changes, colors=declared)]).panels

    assert [(state.name, state.color, state.dark) for state in panel.states] == [
        ("a", "#ff0000", None),
        ("off", "#ffffff", "#222222"),
        ("running", "#1d8759", "#42be90"),
    ]


def test_a_bad_color_is_named_before_anything_is_drawn() -> None:
    with pytest.raises(MeantimeError, match='illegal color "rouge" for state "a"'):
        build([history((0, "x", "a"), colors={"a": "rouge"})])


def test_a_state_without_color_has_that_of_the_other_map() -> None:
    given = history((0, "x", "a"), colors={"a": "#FF0000"})

    statemap = build([history((0, "x", "a")), given])

    assert [panel.states[0].color for panel in statemap.panels] == ["#ff0000", "#ff0000"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (StatemapOptions(sort_by="z"), 'cannot sort by state "z": no such state; there are "a"'),
        (StatemapOptions(stack_sort_by="z"), 'unknown stack sorting state "z"; there are "a"'),
    ],
)
def test_a_state_that_is_none_cannot_be_sorted_by(options: StatemapOptions, message: str) -> None:
    with pytest.raises(MeantimeError, match=message):
        build([history((0, "x", "a"))], options)


def test_maps_of_different_states_cannot_be_stack_sorted() -> None:
    with pytest.raises(MeantimeError, match="can only stack sort like statemaps"):
        build([history((0, "x", "a")), history((0, "x", "b"))], StatemapOptions(stack_sort_by="a"))


def test_maps_are_stack_sorted_by_their_time_in_a_state() -> None:
    little = history((0, "x", "a"), (5, "x", "b"), clock=Clock(utc_at_origin_ns=100))
    much = history((0, "y", "b"), (1, "y", "a"), clock=Clock(utc_at_origin_ns=107))

    statemap = build([little, much], StatemapOptions(stack_sort_by="b"))

    assert [panel.entities for panel in statemap.panels] == [["x"], ["y"]]
    assert [panel.offset_ns for panel in statemap.panels] == [0, 7]
    statemap = build([much, little], StatemapOptions(stack_sort_by="b"))
    assert [(panel.entities, panel.offset_ns, panel.history) for panel in statemap.panels] == [
        (["x"], 0, 1),
        (["y"], 7, 0),
    ]


def test_entity_means_by_name_unless_a_state_is_called_so() -> None:
    by_name = build([history((0, "b", "a"), (0, "a", "a"))], StatemapOptions(sort_by="entity"))
    by_state = build(
        [history((0, "b", "entity"), (0, "a", "a"))], StatemapOptions(sort_by="entity")
    )

    assert by_name.panels[0].entities == ["a", "b"]
    assert by_state.panels[0].entities == ["b", "a"]


def test_histories_whose_clocks_are_not_known_are_not_aligned() -> None:
    statemap = build([history((0, "x", "a")), history((0, "x", "a"))])

    assert [panel.aligned for panel in statemap.panels] == [True, False]


def test_an_offset_given_by_hand_overrides_the_clocks() -> None:
    first, second = (history((0, "x", "a"), clock=Clock(utc_at_origin_ns=0)) for _ in range(2))

    panel = build([first, second], StatemapOptions(offsets_ns={1: 4})).panels[1]

    assert (panel.offset_ns, panel.start_ns, panel.end_ns, panel.aligned) == (4, -4, 6, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (StatemapOptions(begin_ns=5, end_ns=4), "begin offset must be less than end offset"),
        (StatemapOptions(begin_ns=-(2**62), end_ns=2**62), "longer than 292 years"),
    ],
)
def test_an_impossible_option_is_a_usage_error(options: StatemapOptions, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build([history((0, "x", "a"))], options)


def test_a_filter_that_is_not_a_regular_expression_is_rejected_before_reading() -> None:
    with pytest.raises(UsageError, match=r"the filter '\(' is not a regular expression"):
        StatemapOptions(filter="(")


def test_intervals_behind_the_window_are_not_clipped_if_they_have_no_length() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")
    builder.modify(0, quark, "x")
    builder.modify(9, quark, "y")
    drawn = builder.close(10)

    def after(end_ns: int) -> int:
        return build([drawn], StatemapOptions(end_ns=end_ns)).panels[0].clipped.after

    # the change at 9 only ends the data; before it, it is one that is left out
    assert (after(9), after(8), after(10)) == (0, 1, 0)


@pytest.mark.parametrize(("begin_ns", "end_ns"), [(1000, None), (1000, 2000), (-9, -3)])
def test_a_window_outside_of_the_data_is_an_empty_map(begin_ns: int, end_ns: int | None) -> None:
    drawn = build([history((0, "x", "a"))], StatemapOptions(begin_ns=begin_ns, end_ns=end_ns))

    assert [len(panel.rectangles) for panel in drawn.panels] == [0]


def test_what_is_outside_the_window_or_filter_is_counted() -> None:
    drawn = history_from_picture("a xyxyxy\nb ..xxxx")

    panel = build([drawn], StatemapOptions(begin_ns=2, end_ns=4, filter="a")).panels[0]

    assert panel.clipped == Clipped(2, 2, 1)
    assert panel.entities == ["a"]


def test_more_rows_than_rectangles_are_wanted_keep_one_each() -> None:
    builder = HistoryBuilder()
    quarks = builder.attributes.add_many(f"task-{number}" for number in range(20_000))
    builder.modify_many(range(20_000), quarks, ["run"] * 20_000)

    (shown,) = count([builder.close(30_000)], StatemapOptions(coalesce=100))

    assert shown.rectangles == 20_000


def test_by_default_nothing_is_merged() -> None:
    builder = HistoryBuilder()
    builder.modify_many(range(60_000), [builder.quark("a")] * 60_000, ["on", "off"] * 30_000)
    drawn = builder.close(60_000)

    assert count([drawn])[0].rectangles == 60_000
    assert build([drawn]).panels[0].coalesced == 0


@pytest.mark.parametrize(
    ("coalesce", "maps", "budget"),
    [
        (None, 1, Budget(5_000_000, 1_500_000)),
        (None, 3, Budget(1_666_666, 500_000)),
        (7, 3, Budget(7, 7)),
    ],
)
def test_all_maps_share_the_default_budget(coalesce: int | None, maps: int, budget: Budget) -> None:
    assert StatemapOptions(coalesce=coalesce).budget(maps) == budget


@pytest.mark.parametrize(("intervals", "rectangles"), [(1000, 1000), (1001, 200)])
def test_beyond_the_budget_intervals_are_merged(
    monkeypatch: pytest.MonkeyPatch, intervals: int, rectangles: int
) -> None:
    monkeypatch.setattr(StatemapOptions, "budget", lambda *_: Budget(1000, 200))
    builder = HistoryBuilder()
    values = [f"{number % 3}" for number in range(intervals)]
    builder.modify_many(range(intervals), [builder.quark("a")] * intervals, values)

    (panel,) = build([builder.close(intervals)]).panels

    assert len(panel.rectangles) == rectangles
    assert (panel.coalesced > 0) == (rectangles < intervals)


def test_the_json_document_can_have_hostile_names() -> None:
    name = '</script>"\n\0'
    builder = HistoryBuilder()
    quark = builder.quark(name)
    builder.modify(0, quark, name)
    builder.contents.catalogue.metadata.descriptions[quark] = name

    shown = json.loads(document.render(build([builder.close(5)])))

    row = shown["maps"][0]["rows"][0]
    assert (row["entity"], row["description"], row["rects"][0]["states"]) == (name, name, {name: 5})


def test_the_same_history_gives_the_same_bytes(tmp_path: Path) -> None:
    drawn = history_from_picture("a xyxyxy\nb ..xxxx")
    for name in ("one.json", "two.json", "one.svg", "two.svg"):
        meantime.statemap(drawn, coalesce=2).save(tmp_path / name)

    for suffix in ("json", "svg"):
        one, two = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in ("one", "two"))
        assert one == two


def test_a_statemap_is_saved_in_the_format_of_its_suffix() -> None:
    with pytest.raises(UsageError, match=r"written as \.svg or \.json"):
        meantime.statemap(history_from_picture("a x")).save("a.png")


def test_a_statemap_is_drawn_from_paths_in_the_times_of_the_first(tmp_path: Path) -> None:
    first, second = tmp_path / "a.statemap", tmp_path / "b.statemap"
    header = '{"start": [100, 0], "title": "T", "states": {"x": {"value": 0}, "y": {"value": 1}}}'
    rows = '{"entity": "e", "time": "0", "state": 0}\n{"entity": "e", "time": "3000", "state": 1}'
    last = '{"entity": "e", "time": "5000", "state": 0}\n'
    first.write_text(f"{header}\n{rows}\n{last}")
    second.write_text(f"{header}\n{rows}\n{last}")
    drawn = meantime.statemap([first, second], start="1us", end="@100.000004", offsets={1: "1us"})
    upper, lower = drawn.data.panels
    assert (upper.start_ns, upper.end_ns, upper.offset_ns) == (1000, 4000, 0)
    assert (lower.start_ns, lower.end_ns, lower.offset_ns) == (0, 3000, 1000)
    with pytest.raises(UsageError, match="keys of offsets"):
        meantime.statemap([first], offsets={1: 0})
    with pytest.raises(UsageError, match="needs a source"):
        meantime.statemap([])
    (tmp_path / "stacks.folded").write_text("a;b 3\n")
    with pytest.raises(InputError, match=r"stacks\.folded: "):
        meantime.statemap(tmp_path / "stacks.folded")


def test_rows_are_sorted_by_a_state_that_no_lane_declares() -> None:
    builder = HistoryBuilder()
    for name, busy_ns in (("a", 1), ("b", 5)):
        builder.modify(0, builder.quark(name), "busy")
        builder.modify(busy_ns, builder.quark(name), "idle")
    drawn = builder.close(9)

    (panel,) = build([drawn], StatemapOptions(sort_by="busy")).panels
    assert panel.entities == ["b", "a"]
    with pytest.raises(MeantimeError, match='no such state; there are "busy", "idle"'):
        build([drawn], StatemapOptions(sort_by="nosuch"))


def test_rows_are_sorted_by_a_state_of_one_lane_of_several() -> None:
    builder = HistoryBuilder()
    builder.lanes("Tasks/*", states=["running", "waiting"])
    builder.lanes("Loops/*", states=["running", "parked"])
    for name, state in (("a", "running"), ("b", "waiting")):
        builder.modify(0, builder.quark("Tasks", name), state)
    builder.modify(0, builder.quark("Loops", "main"), "parked")

    tasks, loops = build([builder.close(9)], StatemapOptions(sort_by="waiting")).panels

    assert [name.rpartition("/")[2] for name in tasks.entities] == ["b", "a"]
    assert len(loops.entities) == 1
