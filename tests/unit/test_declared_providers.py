from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import meantime
from meantime.errors import InputError, ProviderError
from meantime.model.events import Event
from meantime.opening.history_from_path import open_history
from meantime.providers.declared import declare
from meantime.providers.declared.positions import lines_of
from meantime.testing import picture

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History


def history_of(toml: str, events: list[Event]) -> History:
    return meantime.build(events, declare(toml.encode(), "x.toml"))


def of_change(change: str, *events: dict[str, Any], name: str = "e") -> History:
    """Return the history of a declaration with one change, its events a nanosecond apart."""
    put_events = [Event(time_ns, name, fields) for time_ns, fields in enumerate(events)]
    return history_of(f'[[on]]\nevent = "{name}"\nchange = [{change}]\n', put_events)


def states(history: History, *path: str) -> list[Any]:
    quark = history.quark(*path)
    return [
        interval.value
        for interval in history.iterate(quark, history.start_ns)
        if interval.value is not None
    ]


@pytest.mark.parametrize(
    ("change", "fields", "shown"),
    [
        ('{ path = "a", set = "x" }', [{}, {}], "a xx"),
        ('{ path = "{f}", set = "x" }', [{"f": "a"}, {"f": "b"}], "a xx\nb .x"),
        ('{ path = "{f}/b", set = "{name}" }', [{"f": "a"}], "a .\na/b e"),
        ('{ path = ["{f}", "b/c"], set = "x" }', [{"f": "a"}], "a .\na/b\\/c x"),
        (r"{ path = 'a\/b/{{{f}}}', set = 'x' }", [{"f": 1}], "a\\/b .\na\\/b/{1} x"),
        ('{ path = "a", set = { field = "f", default = "d" } }', [{"f": "x"}, {}], "a xd"),
        ('{ path = "a", set = { text = "{f}{g}", default = "d" } }', [{"f": 1, "g": 2}, {}], "a 1d"),  # noqa: E501 - one case a line
        ('{ path = "a", set = "{f}" }, { path = "a", clear = true }', [{"f": "x"}], "a ."),
        ('{ path = "a", set = "{f}", if = { field = "f", ne = 2 } }', [{"f": 1}, {"f": 2}], "a 11"),
        ('{ path = "a", increment = "{f}" }', [{"f": 2}, {"f": 3}, {"f": -4}], "a 251"),
        ('{ path = "a", set = "{f}" }, { path = "a", update = "z" }', [{"f": "x"}], "a z"),
        ('{ path = "a", push = "{f}" }', [{"f": "x"}, {"f": "y"}], "a 12\na/1 xx\na/2 .y"),
        ('{ path = "a/b", set = "x" }, { path = "a", remove = true }', [{}], "a .\na/b ."),
        ('{ path = "a", set = "{f}" }, { path = "b", set = { query = "a" } }', [{"f": "x"}], "a x\nb x"),  # noqa: E501 - one case a line
        ('{ path = "a", set = { query = "none/{f}", default = "d" } }', [{}, {"f": "x"}], "a dd"),
        ('{ path = "a", set = "x", after_ns = 2 }', [{}], "a ..x"),
        ('{ path = "a", set = "x", at_ns = "{f}" }', [{"f": "3"}], "a ...x"),
        ('{ path = "a", increment = 1, after_ns = 1 }', [{}, {}], "a .12"),
        ('{ path = "a", push = "x" }, { path = "a", pop = true, after_ns = 2 }', [{}, {}], "a 121."),  # noqa: E501 - one case a line
        ('{ path = "a", set = "{f}" }', [{"f": True}, {"f": None}, {"f": False}], "a t.f"),
    ],
)  # fmt: skip
def test_each_kind_of_change_has_its_effect(
    change: str, fields: list[dict[str, Any]], shown: str
) -> None:
    lines = picture(of_change(change, *fields)).split("\n")

    expected = [line.split() for line in shown.split("\n")]
    assert [line.split() for line in lines][: len(expected)] == expected


def test_stacks_are_pushed_popped_emptied_and_looked_at() -> None:
    history = history_of(
        """
        [[on]]
        event = "call"
        change = [{ path = "s", push = "{f}" }, { path = "top", set = { top = "s" } }]
        [[on]]
        event = "return"
        change = [{ path = "s", pop = true }, { path = "top", set = { top = "s" } }]
        [[on]]
        event = "throw"
        change = [{ path = "s", pop_all = true }, { path = "top", set = { top = "s" } }]
        """,
        [
            Event(0, "call", {"f": "a"}),
            Event(1, "call", {"f": "b"}),
            Event(2, "return"),
            Event(3, "call", {"f": "c"}),
            Event(4, "throw"),
            Event(5, "return"),
        ],
    )

    assert picture(history).split() == [
        "s", "1212..", "s/1", "aaaa..", "top", "abac..", "s/2", ".b.c..",
    ]  # fmt: skip


def test_mappings_translate_and_types_are_forced() -> None:
    toml = """
        [mappings.kinds]
        0 = "file"
        true = 2.5
        [[on]]
        event = "e"
        change = [
          { path = "a", set = { map = "kinds", of = "{kind}", default = "other" }, as = "str" },
          { path = "b", set = "{n}", as = "int" },
          { path = "c", set = "{n}", as = "float" },
        ]
        """
    put_events: list[dict[str, Any]] = [
        {"kind": 0, "n": "0x1f"},
        {"kind": "0", "n": 2.0},
        {"kind": True, "n": True},
        {"kind": 9},
    ]

    with pytest.raises(ProviderError, match=r"x.toml:10: '0x1f' cannot become float"):
        history_of(toml, [Event(0, "e", put_events[0])])
    put_events[0]["n"] = "31"
    history = history_of(toml, [Event(time, "e", fields) for time, fields in enumerate(put_events)])

    assert states(history, "a") == ["file", "2.5", "other"]
    assert states(history, "b") == [31, 2, 1]
    assert states(history, "c") == [31.0, 2.0, 1.0]
    assert dict(history.anomalies) == {"incomplete_change": 2}


def test_pools_give_attributes_and_take_them_back() -> None:
    toml = """
        [pools.free]
        path = "p"
        [[on]]
        event = "take"
        change = [{ path = [{ pool = "free", key = "{k}" }, "who"], set = "{k}" }]
        [[on]]
        event = "give"
        change = [{ recycle = { pool = "free", key = "{k}" } }]
        """
    names = ["take a", "take b", "give a", "give b", "take c", "take d", "give x"]
    events = [
        Event(time, name.split()[0], {"k": name.split()[1]}) for time, name in enumerate(names)
    ]

    lowest = toml.replace('path = "p"', 'path = "p"\nlowest_first = true').replace("give a", "x")
    history = history_of(toml, events)

    assert picture(history).split("\n")[2::2] == ["p/0/who aa..ccc", "p/1/who .bb..dd"]
    assert dict(history.anomalies) == {"incomplete_change": 1}
    events[2].fields["k"], events[3].fields["k"] = "b", "a"
    shown = [picture(history_of(text, events)).split("\n")[2::2] for text in (toml, lowest)]
    assert shown == [
        ["p/0/who aaa..dd", "p/1/who .b..ccc"],
        ["p/0/who aaa.ccc", "p/1/who .b...dd"],
    ]


CONDITIONS = {
    '{ field = "f", eq = 3 }': [{"f": 3}, {"f": 3.0}],
    '{ field = "f", eq = "3" }': [{"f": "3"}],
    '{ field = "f", eq = true }': [{"f": True}],
    '{ field = "f", eq = "{g}" }': [{"f": 1, "g": 1}],
    '{ field = "f", ne = 3 }': [
        {"f": 4},
        {"f": "3"},
        {},
        {"f": None},
        {"f": True},
        {"f": 1, "g": 1},
    ],
    '{ field = "f", gt = 3 }': [{"f": 4}],
    '{ field = "f", ge = 3 }': [{"f": 3}, {"f": 3.0}, {"f": 4}],
    '{ field = "f", lt = 3 }': [{"f": 1, "g": 1}],
    '{ field = "f", le = 3 }': [{"f": 3}, {"f": 3.0}, {"f": 1, "g": 1}],
    '{ field = "f", in = [4, true, "3"] }': [{"f": "3"}, {"f": 4}, {"f": True}],
    '{ field = "f", present = true }': "all but {} and None",
    '{ field = "f", present = false }': [{}, {"f": None}],
    '{ and = [{ field = "f", ge = 1 }, { field = "g", eq = 1 }] }': [{"f": 1, "g": 1}],
    '{ or = [{ field = "f", eq = 4 }, { field = "g", eq = 1 }] }': [{"f": 4}, {"f": 1, "g": 1}],
    '{ not = { field = "f", present = true } }': [{}, {"f": None}],
    '{ query = "before", eq = "x" }': "all",
    '{ top = "before", present = true }': [],
    '{ text = "{f}-{g}", eq = "1-1" }': [{"f": 1, "g": 1}],
}
FIELDS: list[dict[str, Any]] = [
    {"f": 3}, {"f": 3.0}, {"f": "3"}, {"f": 4}, {}, {"f": None}, {"f": True}, {"f": 1, "g": 1},
]  # fmt: skip


@pytest.mark.parametrize(("condition", "expected"), CONDITIONS.items())
def test_each_condition_is_true_where_it_should_be(condition: str, expected: Any) -> None:
    if expected == "all":
        expected = FIELDS
    if expected == "all but {} and None":
        expected = [fields for fields in FIELDS if fields.get("f") is not None]
    ordered = any(f" {test} = " in condition for test in ("gt", "ge", "lt", "le"))
    asked = [f for f in FIELDS if not (ordered and isinstance(f.get("f"), str | bool))]
    before = "" if "top" in condition else '{ path = "before", set = "x" },'
    change = f'{before} {{ if = {condition}, then = [{{ path = "n", increment = 1 }}] }}'

    found = [fields for fields in asked if of_change(change, fields).find("n") is not None]

    assert sorted(map(repr, found)) == sorted(repr(f) for f in expected if f in asked)


def test_else_applies_where_the_condition_is_false() -> None:
    branch = """{ if = { field = "f", gt = 1 }, then = [{ path = "a", set = "more" }],
        else = [{ path = "a", set = "less" }] }""".replace("\n", " ")

    assert states(of_change(branch, {"f": 1}, {"f": 2}, {}), "a") == ["less", "more", "less"]
    assert states(of_change(branch.replace("then", "other").replace("else", "then").replace(
        "other", "else"), {"f": 1}), "a") == ["more"]  # fmt: skip


def test_events_are_meant_by_name_by_several_and_by_wildcard() -> None:
    toml = """
        [[on]]
        event = ["a", "sys_*_exit"]
        change = [{ path = "one", increment = 1 }]
        [[on]]
        event = "*"
        if = { text = "{name}", ne = "b" }
        change = [{ path = "{name}", set = "{time_ns}" }, { path = "cpu", set = "{cpu}" }]
        """
    names = ["a", "sys_read_exit", "sys_exit", "a.b", "b"]

    history = history_of(toml, [Event(time, name, {}, 7) for time, name in enumerate(names)])

    assert states(history, "one") == [1, 2]
    assert states(history, "a.b") == [3]
    assert history.find("b") is None
    assert states(history, "cpu") == [7]


def test_a_change_with_a_missing_value_is_skipped_and_counted() -> None:
    change = """{ path = "a/{f}", set = "x" }, { path = "b", set = "{f}" },
      { path = "c", increment = "{f}" }, { path = ["d", { query = "none" }], set = "x" },
      { path = "e", set = "x", at_ns = -5 }, { path = "e", set = "x", after_ns = "{f}" }"""

    history = of_change(change.replace("\n", " "), {})

    assert len(history.attributes) == 0
    assert dict(history.anomalies) == {"incomplete_change": 5, "past_change": 1}


BAD = {
    "name = ": "1: is not TOML",
    "x = 1": "1: 'x' is not known here: known are name, version",
    "[[onn]]": "1: 'onn' is not known here: did you mean 'on'?",
    "name = 1": "1: 1 must be a string",
    "version = 1.5": "1: 1.5 is not a version",
    "": r"1: 'on' is missing: a table \[\[on\]\] defines",
    "[[on]]": "1: 'event' is missing",
    '[[on]]\nevent = ""': "2: '' must be a string that is not empty",
    '[[on]]\nevent = "e"': "1: 'change' is missing",
    "[[on]]\nevent = []\nchange=[]": "2: there is no event in it",
    '[[on]]\nevent = "e"\nchange = []': "3: it has no changes",
    '[[on]]\nevent = "e"\nchange = {}': r"3: {} must be an array: write \[ \] around it",
    '[[on]]\nevent = "e"\nchange = [\n 1]': "4: 1 is not a change",
    "CHANGE {}": "5: 'path' is missing",
    'CHANGE { path = "a" }': "5: a change has one of set, push, increment",
    'CHANGE { path = "a", set = 1, pop = true }': "5: a change has one of .*; this has set, pop",
    'CHANGE { path = "a", pop = false }': "5: can only be true",
    'CHANGE { path = "a", set = true }': '5: true is not a state: write "true"',
    'CHANGE { path = "a", set = 9223372036854775808 }': "5: 9223372036854775808 does not fit",
    'CHANGE { path = "a", set = 2020-01-01 }': "5: .* is not a value",
    'CHANGE { path = "a", set = "{" }': "5: '{' has a lone {: write it twice",
    'CHANGE { path = "a", set = "{}" }': "5: {} is empty: write the name of a field in it",
    "CHANGE { path = [], set = 1 }": "5: a path needs at least one name",
    "CHANGE { path = 1, set = 1 }": "5: 1 must be an array",
    'CHANGE { path = "a", seet = 1 }': "5: 'seet' is not known here: did you mean 'set'?",
    'CHANGE { path = "a", set = { } }': "5: a value that is a table has one of field, query",
    'CHANGE { path = "a", set = { map = "m", of = 1 } }': r"5: there is no table \[mappings.m\]",
    'CHANGE { path = "a", set = "x", as = "bool" }': "5: 'bool' must be one of int, float, str",
    'CHANGE { path = "a", pop = true, as = "int" }': "5: 'pop' has no value",
    'CHANGE { path = "a", update = 1, at_ns = 1 }': "5: 'update' cannot be scheduled for later",
    'CHANGE { path = "a", set = 1, at_ns = 1, after_ns = 1 }': "5: a change has a time",
    'CHANGE { path = "a", set = 1, if = 1 }': "5: 1 is not a condition",
    'CHANGE { path = "a", set = 1, if = { field = "f" } }': "5: a condition has one of eq, ne",
    'CHANGE { path = "a", set = 1, if = { eq = 1 } }': "5: a condition tests one of field",
    'CHANGE { path = "a", set = 1, if = { or = [] } }': "5: 'or' joins no conditions",
    'CHANGE { path = "a", set = 1, if = { or = [], eq = 1 } }': "5: 'eq' is not known here",
    'CHANGE { path = "a", set = 1, if = { field = "f", gt = true } }': "5: true and false are",
    'CHANGE { path = "a", set = 1, if = { field = "f", present = 1 } }': "5: must be true or false",
    "CHANGE { then = [] }": "5: 'if' is missing",
    'CHANGE { recycle = { pool = "p", key = 1 } }': r"5: there is no table \[pools.p\]",
    '[define]\na = "{b}"\nb = "{c}"': r"2: \{b\} is defined here or further down",
    '[define]\na = { text = "{a}x" }': r"2: \{a\} is defined here or further down",
    "[mappings]\nm = 1": "2: a mapping is a table",
    "[mappings.m]\na = []": r"2: \[\] is not a state",
    "[mappings.m]\na = true": "2: true is not a state",
    "pools = 1": "1: 'pools' is a table",
    "[pools.p]": "1: 'path' is missing",
    '[pools.p]\npath = "a/*"': "2: a pool's path has names only",
    '[pools.p]\npath = "a"\nlowest_first = 1': "3: must be true or false",
    "[[lanes]]": "1: 'pattern' is missing",
    '[[lanes]]\npattern = "a*"': "2: in the pattern 'a\\*'",
    '[[lanes]]\npattern = "a"\nshort_lived = false': "3: can only be true",
    '[[lanes]]\npattern = "a"\nkind = "bar"': "3: 'bar' must be one of state, stack",
    '[[lanes]]\npattern = "a"\nstates = [\n{ name = "a", color = "rouge" }]': "4: 'rouge' is not a",
}


@pytest.mark.parametrize(("toml", "complaint"), BAD.items())
def test_an_error_is_reported_with_its_line(toml: str, complaint: str) -> None:
    if toml.startswith("CHANGE "):
        toml = '[[on]]\nevent = "e"\nchange = [\n\n' + toml.removeprefix("CHANGE ") + "]"

    with pytest.raises(ProviderError, match=rf"x\.toml:{complaint}"):
        declare(toml.encode(), "x.toml")


def test_requests_that_are_declared_short_lived_share_a_row() -> None:
    toml = """
        lanes = [{ pattern = "Requests/*", short_lived = true }]
        [[on]]
        event = "begin"
        change = [{ path = "Requests/{id}", set = "open" }]
        [[on]]
        event = "end"
        change = [{ path = "Requests/{id}", clear = true }]
    """
    names = ("begin", "end") * 3
    put_events = [Event(at, name, {"id": at // 2}) for at, name in enumerate(names)]

    panel = meantime.statemap(history_of(toml, put_events)).data.panels[0]

    assert panel.entities == ["Requests"]
    assert panel.rectangles.start_ns.tolist() == [0, 2, 4]


def test_text_and_numbers_are_not_compared() -> None:
    change = '{ path = "a", set = 1, if = { field = "f", gt = 1 } }'

    with pytest.raises(ProviderError, match=r"x\.toml:3: 'x' and 1 cannot be compared.*'e', 0 ns"):
        of_change(change, {"f": "x"})


def test_a_file_that_is_not_text_is_rejected() -> None:
    with pytest.raises(ProviderError, match=r"x\.toml: byte 0: is not UTF-8"):
        declare(b"\xff", "x.toml")


TABLES = st.recursive(
    st.integers() | st.text() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=9,
)


@given(
    st.dictionaries(st.text(min_size=1), TABLES, max_size=4), st.sampled_from([" ", "\n# x ]\n"])
)
def test_every_value_of_a_declaration_has_a_line(value: dict[str, Any], blank: str) -> None:
    text = "".join(f"{quoted(key)} = {toml(inner, blank)}\n" for key, inner in value.items())
    assert tomllib.loads(text) == value

    lines = lines_of(text)

    assert set(lines) == set(places((), value))
    for place, line in lines.items():
        if isinstance(place[-1], str):
            assert quoted(place[-1]) in text.split("\n")[line - 1]


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml(value: Any, blank: str) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(k)} = {toml(v, blank)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + f",{blank}".join(toml(part, blank) for part in value) + blank + "]"
    return quoted(value) if isinstance(value, str) else json.dumps(value)


def places(place: tuple[Any, ...], value: Any) -> list[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, inner in parts:
        found.append((*place, key))
        if isinstance(inner, dict | list):
            found += places((*place, key), inner)
    return found


def test_an_edited_declaration_is_another_provider() -> None:
    one, other = (
        declare(f'[[on]]\nevent = "e"\nchange = [{{ path = "a", set = {n} }}]'.encode(), "x.toml")
        for n in (1, 2)
    )

    assert one.definition != other.definition


def test_the_key_of_a_recycled_attribute_may_be_a_number() -> None:
    toml = """
        [pools.free]
        path = "p"
        [[on]]
        event = "take"
        change = [{ path = [{ pool = "free", key = "{k}" }], set = "{k}" }]
        [[on]]
        event = "give"
        change = [{ recycle = { pool = "free", key = "{k}" } }]
        """

    history = history_of(
        toml, [Event(0, "take", {"k": 1}), Event(1, "give", {"k": 1}), Event(2, "take", {"k": 2})]
    )

    assert states(history, "p", "0") == [1, 2]
    assert not history.anomalies


def test_more_changes_than_a_segment_has_are_put(tmp_path: Path) -> None:
    rows = 100_000
    trace = tmp_path / "a.jsonl"
    with trace.open("w") as file:
        file.writelines(f'{{"ts": {row}, "name": "e", "f": {row % 3}}}\n' for row in range(rows))
    toml = """
        [[on]]
        event = "e"
        change = [
          { path = "n/{f}", increment = 1 },
          { path = "last", set = "{time_ns}" },
          { path = "part/{f}", increment = 0.5 },
          { path = "text", set = "{f} at {time_ns}" },
        ]
        """

    history = meantime.build(trace, declare(toml.encode(), "x.toml"), path=tmp_path / "a.mth")

    assert states(history, "last") == list(range(rows))
    counts = [states(history, "n", str(each)) for each in range(3)]
    assert [count[-1] for count in counts] == [33_334, 33_333, 33_333]
    assert all(count == list(range(1, len(count) + 1)) for count in counts)
    assert states(history, "part", "1")[-1] == 33_333 / 2
    assert states(history, "text")[-1] == "0 at 99999"


def test_what_is_nested_too_deeply_is_refused() -> None:
    change = '{ path = "a", set = 1 }'
    for _ in range(40):
        change = f'{{ if = {{ field = "f", eq = 1 }}, then = [{change}] }}'
    doubled = "[define]\na0 = { text = '{f}{f}' }\n" + "".join(
        f"a{row} = {{ text = '{{a{row - 1}}}{{a{row - 1}}}' }}\n" for row in range(1, 40)
    )
    on = '[[on]]\nevent = "e"\nchange = [{ path = "{a39}", set = 1 }]\n'

    for toml in (f'[[on]]\nevent = "e"\nchange = [{change}]\n', doubled + on):
        with pytest.raises(ProviderError, match=r"x\.toml:\d+: .*nested too deeply"):
            declare(toml.encode(), "x.toml")


def of_events(*names: str) -> History:
    """A history that a declaration makes of two events of a scheduler."""
    on = [
        f'[[on]]\nevent = "{name}"\nchange = [{{ path = "CPUs/0", set = "busy" }}]\n'
        for name in names
    ]
    events = [Event(1, "sched_switch"), Event(5, "sched_waking")]
    return meantime.build(events, declare("".join(on).encode(), "p"))


def test_a_trace_without_any_event_that_is_declared_is_an_error_with_the_nearest_names() -> None:
    with pytest.raises(
        InputError, match="none of it is used: it has no event sched_swich"
    ) as found:
        of_events("sched_swich")
    assert "(nearest: sched_switch, sched_waking)" in str(found.value)


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["sched_switch", "sched_wakin"], "sched_wakin (nearest: sched_waking)"),
        (["sched_switch", "irq_entry"], None),
        (["sched_switch", "sched_waking", "sched_waken"], None),
    ],
)
def test_an_event_that_is_called_nearly_as_an_unused_one_is_counted(
    names: list[str], missing: str | None
) -> None:
    history = of_events(*names)

    assert history.anomalies["no_such_event"] == (missing is not None)
    assert history.facts.get("events not found") == missing


SERVED = """
[[on]]
event = "accept"
change = [{ path = "Requests/{id}", set = "reading" }]

[[on]]
event = "answer"
change = [
  { path = "Threads/{thread}", span = "{route}", since = "Requests/{id}", arguments = { id = "{id}", bytes = "{bytes}", none = "{none}" } },
  { path = "Requests/{id}", clear = true },
  { path = "Threads/{thread}", point = "answered", arguments = { ok = "{ok}" } },
]
"""  # noqa: E501 - a table in TOML stands on one line


def spans_of(history: History) -> list[tuple[Any, ...]]:
    spans = history.spans()
    columns = (spans.thread, spans.start_ns, spans.end_ns)
    return [
        (history.attributes.text(quark), name, start_ns, end_ns, spans.arguments(row))
        for row, (quark, start_ns, end_ns, name) in enumerate(
            zip(*(column.tolist() for column in columns), spans.name.to_list(), strict=True)
        )
    ]


def test_spans_and_points_of_a_state_machine() -> None:
    answer = {"id": 7, "thread": 1, "route": "/", "bytes": 120, "ok": True}
    history = history_of(SERVED, [Event(5, "accept", {"id": 7}), Event(9, "answer", answer)])
    assert spans_of(history) == [("Threads/1", "/", 5, 9, '{"id": 7, "bytes": 120}')]
    points = history.points()
    assert (points.time_ns.tolist(), points.name.to_list()) == ([9], ["answered"])
    assert points.arguments(0) == '{"ok": true}'


def test_a_span_without_a_beginning_is_counted() -> None:
    answer = {"id": 7, "thread": 1, "route": "/", "ok": True}
    history = history_of(SERVED, [Event(9, "answer", answer)])
    assert not len(history.spans())
    assert dict(history.anomalies) == {"incomplete_change": 1}


@pytest.mark.parametrize(
    ("begin", "fields", "start_ns"),
    [
        ("", {}, 0),
        (', start_ns = "{at}"', {"at": 1}, 1),
        (', duration_ns = "{took}"', {"took": "2"}, 1),
        (', since = "b"', {}, 2),
    ],
)
def test_where_a_span_begins(begin: str, fields: dict[str, Any], start_ns: int) -> None:
    events = [
        Event(0, "set", {"path": "a"}),
        Event(2, "set", {"path": "b"}),
        Event(3, "end", fields),
    ]
    toml = f"""
[[on]]
event = "set"
change = [{{ path = "{{path}}", set = 1 }}]
[[on]]
event = "end"
change = [{{ path = "a", span = "s"{begin} }}]
"""
    assert spans_of(history_of(toml, events)) == [("a", "s", start_ns, 3, None)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('{ path = "a", span = "s", since = "b", start_ns = 0 }', "one beginning"),
        ('{ path = "a", span = "s", arguments = ["f"] }', "must be a table"),
        ('{ path = "a", span = "s", set = 1 }', "'set' is not known here"),
        ('{ path = "a", point = "s", since = "b" }', "'since' is not known here"),
        ('{ span = "s" }', "'path' is missing"),
    ],
)
def test_spans_that_are_declared_wrongly(change: str, said: str) -> None:
    with pytest.raises(ProviderError, match=said):
        of_change(change, {})


def test_a_span_that_would_begin_after_its_end_is_counted() -> None:
    history = of_change('{ path = "a", span = "s", start_ns = 5 }', {}, {})
    assert dict(history.anomalies) == {"past_change": 2}


def test_spans_of_a_history_on_disk(tmp_path: Path) -> None:
    lines = [{"time_ns": time_ns, "name": "e", "f": time_ns % 7} for time_ns in range(20_000)]
    trace = tmp_path / "log.jsonl"
    trace.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    provider = tmp_path / "p.toml"
    provider.write_text(
        '[[on]]\nevent = "e"\nchange = [{ path = "a", span = "{f}", duration_ns = 1 }]\n'
    )
    history = meantime.build(trace, provider, tmp_path / "a.mth")
    assert len(history.spans()) == len(lines)
    again = meantime.open(tmp_path / "a.mth")
    assert again.spans().start_ns.tolist() == [time_ns - 1 for time_ns in range(20_000)]


def test_events_that_the_trace_does_not_have_are_said_on_opening(tmp_path: Path) -> None:
    trace, provider = tmp_path / "a.jsonl", tmp_path / "p.toml"
    trace.write_text('{"time_ns": 1, "name": "sched_switch"}\n{"time_ns": 2, "name": "e"}\n')
    change = 'change = [{ path = "CPUs/0", set = "busy" }]'
    provider.write_text(f'[[on]]\nevent = "sched_swich"\n{change}\n[[on]]\nevent = "e"\n{change}\n')
    said: list[str] = []

    open_history(trace, provider=provider, notify=said.append)

    assert [each.partition(": ")[2] for each in said] == [
        "the trace has no event sched_swich (nearest: sched_switch)"
    ]
