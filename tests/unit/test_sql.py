"""SQL: a schema that is the same for every history, and statements that read what they need."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meantime
from meantime.errors import HistoryError, UsageError
from meantime.history import HistoryBuilder
from meantime.query.confined import Confined
from meantime.query.sql import connection
from meantime.query.sql.schema import TABLES, VERSION, columns_of
from meantime.testing import history_from_picture, history_from_spans

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History

pytest.importorskip("duckdb", reason="the extra [sql] is not installed")
pytest.importorskip("pyarrow", reason="the extra [sql] is not installed")


def rows(history: History, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    found = meantime.sql(history, statement, [*parameters] or None).to_arrow()
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.fixture(scope="module")
def full() -> History:
    """A history with something in each table that is not derived from statistics."""
    builder = HistoryBuilder()
    main = builder.quark("Processes", "1", "Threads", "7")
    other = builder.quark("Threads", "9")
    status = builder.quark("Status", parent=other)
    load, rate = builder.quark("load"), builder.quark("rate")
    builder.lanes("load", kind="counter", unit="jobs")
    builder.modify(0, status, "asleep")
    builder.modify(40, status, "awake", tag=builder.tag({"by": "main", "n": 2}))
    builder.modify(0, load, 7)
    builder.modify(50, rate, 1.5)
    builder.add_spans(
        [main] * 4,
        ["outer", "inner", "empty", "last"],
        [0, 10, 20, 90],
        [80, 30, 20, 100],
        categories=["a", None, None, "a"],
        arguments=['{"id": 1}', None, None, None],
    )
    builder.add_points([main], ["mark"], [15], arguments=["{}"])
    builder.add_flows([main, main], [12, 85], [other, other], [40, 120], ["wakes", "late"])
    builder.add_samples([main, main], [["f", "g"], ["f"]], [5, 6], weights=[3, 4], event="cycles")
    return builder.close(100)


def test_the_schema_is_that_of_the_reference_for_every_history(full: History) -> None:
    empty = HistoryBuilder().close(0)
    types = {"int32": "int32", "int64": "int64", "double": "double", "bool": "bool"}
    for history in (full, empty, history_from_picture("cpu0  ab."), history_from_picture("")):
        with meantime.database(history) as db:
            for name in TABLES:
                schema = db.sql(f"from {name}").to_arrow().schema
                expected = {
                    column: types.get(kind, "string") for column, kind in columns_of(name).items()
                }
                assert {each.name: str(each.type) for each in schema} == expected, name


def test_tables_have_what_the_history_has(full: History) -> None:
    def one(table: str, order: str = "all") -> list[tuple[Any, ...]]:
        return rows(full, f"from {table} order by {order}")

    assert one("bounds") == [(0, 100, 100, "unknown", None, None, None)]
    assert rows(full, "select path, name, parent, has_values from attributes where quark < 2") == [
        ("Processes", "Processes", None, False),
        ("Processes/1", "1", 0, False),
    ]
    assert rows(full, "select tid, pid from threads order by tid") == [("7", "1"), ("9", None)]
    assert one("processes") == [(1, "1", None)]
    assert rows(full, "select attribute, unit, value from counters") == [
        ("load", "jobs", 7.0),
        ("rate", None, None),
        ("rate", None, 1.5),
    ]
    assert one("tags") == [(0, "by", "main"), (0, "n", "2")]
    spans = "select span, parent, depth, self_ns, name, category, process, arguments from spans"
    assert rows(full, f"{spans} order by span") == [
        (0, None, 0, 60, "outer", "a", 1, '{"id": 1}'),
        (1, 0, 1, 20, "inner", None, 1, None),
        (2, 1, 2, 0, "empty", None, 1, None),
        (3, None, 0, 10, "last", "a", 1, None),
    ]
    assert one("points") == [(15, 3, "mark", "{}")]
    assert rows(full, "select time_ns, weight, event, stack, process from samples") == [
        (5, 3, "cycles", 1, 1),
        (6, 4, "cycles", 0, 1),
    ]
    assert one("stacks") == [(0, None, 0, 0), (1, 0, 1, 1)]
    assert one("frames") == [(0, "f"), (1, "g")]
    ends = "select name, from_span, from_state, to_span, to_state from flows"
    assert rows(full, ends) == [
        ("wakes", 1, None, None, "awake"),
        ("late", None, None, None, None),  # outside of spans, and of the history
    ]


def test_values_have_columns_by_type_and_are_texts_too(full: History) -> None:
    found = rows(
        full,
        "select attribute, value, value_int, value_float from intervals where value is not null"
        " and attribute not like 'Processes%' order by all",
    )
    assert found == [
        ("Threads/9/Status", "asleep", None, None),
        ("Threads/9/Status", "awake", None, None),
        ("load", "7", 7, None),
        ("rate", "1.5", None, 1.5),
    ]


COMPARED = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Row = dict[str, Any]


@st.composite
def histories(draw: st.DrawFn) -> tuple[History, list[Row]]:
    """Return a history and its intervals, from the changes that were made."""
    builder = HistoryBuilder(start_ns=-3)
    expected: list[Row] = []
    end_ns = 20
    for quark, kind in enumerate(draw(st.lists(st.sampled_from("sif"), min_size=1, max_size=4))):
        builder.quark(f"{kind}/{quark}" if quark % 2 else f"{kind}{quark}")
        times = sorted(draw(st.sets(st.integers(-2, 19), max_size=8)))
        by_kind: dict[str, list[Any]] = {
            "s": ["a", "b", "7"],
            "i": [7, 8, -1],
            "f": [7.5, 0.5, -2.0],
        }
        values = by_kind[kind]
        value: Any = None
        begin_ns = -3
        for time_ns in [*times, end_ns]:
            new = None if time_ns == end_ns else draw(st.sampled_from([None, *values]))
            if time_ns < end_ns:
                builder.modify(time_ns, quark, new)
            if new == value and time_ns < end_ns:
                continue
            expected.append({"quark": quark, "start_ns": begin_ns, "end_ns": time_ns, "v": value})
            value, begin_ns = new, time_ns
    history = builder.close(end_ns)
    low_ns = history.bounds[0]
    for row in expected:
        row["start_ns"] = max(row["start_ns"], low_ns)
        row["attribute"] = history.attributes.text(row["quark"])
        value = row.pop("v")
        row["value"] = value if value is None or isinstance(value, str) else f"{value:g}"
        row["value_int"] = value if isinstance(value, int) else None
        row["duration_ns"] = row["end_ns"] - row["start_ns"]
    return history, [row for row in expected if row["end_ns"] > low_ns]


NUMBERS = st.sampled_from(["quark", "start_ns", "end_ns", "duration_ns", "value_int"])


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> tuple[str, Any]:
    """Return a condition as SQL, and what it is of a row: true, false or None."""
    kind = draw(st.sampled_from(["number", "text", "in", "null"] + ["and", "or", "not"] * depth))
    if kind in {"and", "or"}:
        (first, f), (second, g) = draw(conditions(depth - 1)), draw(conditions(depth - 1))
        return f"({first} {kind} {second})", lambda row: _three(
            f(row), g(row), decisive=kind == "or"
        )
    if kind == "not":
        inner, f = draw(conditions(depth - 1))
        return f"(not {inner})", lambda row: None if f(row) is None else not f(row)
    if kind == "number":
        name, sign = draw(NUMBERS), draw(st.sampled_from([*COMPARED]))
        number = draw(st.integers(-4, 22))
        return (
            f"{name} {sign} {number}",
            lambda row: None if row[name] is None else COMPARED[sign](row[name], number),
        )
    name = draw(st.sampled_from(["value", "attribute"]))
    texts = st.sampled_from(["a", "b", "7", "8", "s0", "i\\/1", "none", "*"])
    if kind == "text":
        text = draw(texts)
        return f"{name} = '{text}'", lambda row: None if row[name] is None else row[name] == text
    if kind == "in":
        several = draw(st.lists(texts, min_size=2, max_size=3))
        listed = ", ".join(f"'{text}'" for text in several)
        return (
            f"{name} in ({listed})",
            lambda row: None if row[name] is None else row[name] in several,
        )
    return f"{name} is null", lambda row: row[name] is None


def _three(*both: bool | None, decisive: bool) -> bool | None:
    """Return what `or` or `and` makes of two values, of which the decisive one decides."""
    if decisive in both:
        return decisive
    return None if None in both else not decisive


@given(histories(), st.data())
def test_random_conditions_select_what_a_plain_model_does(
    made: tuple[History, list[Row]], data: st.DataObject
) -> None:
    history, expected = made
    columns = ["quark", "attribute", "start_ns", "end_ns", "duration_ns", "value", "value_int"]
    with meantime.database(history) as db:
        for condition, holds in data.draw(st.lists(conditions(), min_size=1, max_size=6)):
            found = db.sql(f"from intervals where {condition}").to_arrow().select(columns)
            wanted = [tuple(row[name] for name in columns) for row in expected if holds(row)]
            got = [tuple(row.values()) for row in found.to_pylist()]
            assert sorted(got, key=repr) == sorted(wanted, key=repr), condition


@given(
    st.lists(
        st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 9), st.integers(0, 5)), max_size=12
    ),
    st.integers(-1, 12),
    st.integers(-1, 12),
)
def test_a_narrow_question_about_spans_has_rows_of_the_whole_table(
    made: list[tuple[str, int, int]], low: int, high: int
) -> None:
    history = history_from_spans({"t": [(name, at, at + long) for name, at, long in made]})
    with meantime.database(history) as db:
        whole = db.sql("from spans").to_arrow().to_pylist()
        for condition, holds in (
            (
                f"start_ns < {high} and end_ns > {low}",
                lambda r: r["start_ns"] < high and r["end_ns"] > low,
            ),
            (
                f"start_ns >= {low} and end_ns <= {high}",
                lambda r: r["start_ns"] >= low and r["end_ns"] <= high,
            ),
            (f"end_ns = {low} and name = 'x'", lambda r: r["end_ns"] == low and r["name"] == "x"),
            (f"span in (1, {high}) or span = {low}", lambda r: r["span"] in {1, high, low}),
        ):
            found = db.sql(f"from spans where {condition}").to_arrow().to_pylist()
            assert found == [row for row in whole if holds(row)], condition


def test_a_narrow_statement_reads_what_it_selects(monkeypatch: pytest.MonkeyPatch) -> None:
    history = history_from_picture("\n".join(f"cpu{n}  abababababab" for n in range(9)))
    asked: list[tuple[list[int], int, int]] = []
    read = meantime.History.interval_batches

    def watched(self: History, quarks: Any, start_ns: int, end_ns: int, **more: Any) -> Any:
        asked.append((np.asarray(quarks).tolist(), start_ns, end_ns))
        return read(self, quarks, start_ns, end_ns, **more)

    monkeypatch.setattr(meantime.History, "interval_batches", watched)
    with meantime.database(history) as db:
        for statement, parameters in (
            ("select 1", None),
            ("from intervals where attribute = 'cpu3' and start_ns < 5 and end_ns > 3", None),
            ("from intervals where quark in (1, 2) and start_ns <= ? and end_ns > ?", [4, 4]),
            ("from intervals where start_ns between 6 and 7 and (quark = 0 or quark = 8)", None),
            ("from intervals where value = 'zz'", None),
            ("from intervals where attribute = 'cpu99'", None),
            ("from intervals where end_ns < 0", None),
            ("from intervals where value_int > 3", None),
        ):
            db.sql(statement, parameters)
    assert asked == [([3], 3, 5), ([1, 2], 4, 5), ([0, 8], 6, 8)]


def test_a_statement_asks_only_for_its_columns(
    full: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("meantime.history.spans.SpanTable.arguments", refused)
    assert rows(full, "select count(*), min(name) from spans") == [(4, "empty")]
    with pytest.raises(AssertionError):  # what a table raises, and not how DuckDB reports it
        rows(full, "select arguments from spans")


def test_sums_are_plain_numbers() -> None:
    history = history_from_picture("cpu0  aab.")
    found = meantime.sql(
        history,
        "select sum(duration_ns) low, sum(9e18::bigint) high, 1.5 a, avg(duration_ns) b"
        " from intervals where value is not null",
    ).to_arrow()

    assert [str(each) for each in found.schema.types] == ["int64", "double", "double", "double"]
    assert found.to_pylist() == [{"low": 3, "high": 1.8e19, "a": 1.5, "b": 1.5}]


def test_a_database_keeps_what_is_created_and_saves_it(tmp_path: Path) -> None:
    one, other = history_from_picture("cpu0  aab."), history_from_picture("cpu0  abb.")
    with meantime.database(one) as db:
        db.execute("create view named as select value, duration_ns from intervals where value > ''")
        db.execute("create macro longest(least) as table from named where duration_ns >= least")
        db.execute("create table mine as select 5 x")
        assert db.sql("select value from longest($least)", {"least": 2}).to_arrow().to_pylist() == [
            {"value": "a"}
        ]
        db.add("other", other)
        both = (
            "select i.value a, o.value b from intervals i join other.intervals o using (start_ns)"
        )
        assert len(db.sql(both)) == 2
        db.add("frame", db.sql("select 'a' as value, 1 as weight").to_arrow())
        assert len(db.sql("from intervals join frame using (value)")) == 1
        db.save(tmp_path / "mine.db")
        db.save(tmp_path / "mine.db")
    assert [each.name for each in tmp_path.iterdir()] == ["mine.db"]
    with meantime.database(other, tmp_path / "mine.db") as again:
        assert again.sql("select value from longest(2)").to_arrow().to_pylist() == [{"value": "b"}]
        assert again.sql("from mine").to_arrow().to_pylist() == [{"x": 5}]
        with pytest.raises(UsageError, match="other"):
            again.sql("from other.intervals")


def test_a_saved_file_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = history_from_picture("cpu0  a.")
    with meantime.database(history) as db:
        db.save(tmp_path / "mine.db")
        db.connection.execute(f"attach '{tmp_path}/other.db' as other")
        db.connection.execute("create table other.t as select 1 x")
        db.connection.execute("detach other")
    with pytest.raises(UsageError, match=r"other\.db: it has no version: another program wrote it"):
        meantime.database(history, tmp_path / "other.db")
    for version, advice in ((VERSION + 1, "again"), (0, "install a newer meantime")):
        monkeypatch.setattr(connection, "VERSION", version)
        with pytest.raises(UsageError, match=f"for the tables of version {VERSION}, .*{advice}"):
            meantime.database(history, tmp_path / "mine.db")


def test_a_view_that_does_not_fit_is_named(tmp_path: Path) -> None:
    history = history_from_picture("cpu0  a.")
    with meantime.database(history) as db:
        db.execute("create table t as select 1 x; create view doubled as select 2 * x y from t")
        db.execute("alter table t rename x to z")
        with pytest.raises(UsageError, match=r"the view doubled does not fit the tables here, .*x"):
            db.sql("select y from doubled")
        db.save(tmp_path / "mine.db")
    with (
        meantime.database(history, tmp_path / "mine.db") as again,
        pytest.raises(UsageError, match="the view doubled does not fit"),
    ):
        again.sql("select y from doubled")


def test_tables_are_made_known_when_a_statement_names_them() -> None:
    with meantime.database(history_from_picture("cpu0  aab.")) as db:
        assert len(db.sql('select * from "INTERVALS" where start_ns >= 0')) == 3
        assert len(db.sql("from query_table(?)", ["bounds"])) == 1
        assert len(db.sql("from intersection('intervals', 'bounds')")) == 3
        with pytest.raises(UsageError, match='Did you mean "attributes"'):
            db.sql("from atributes")
    with meantime.database(history_from_picture("cpu0  aab.")) as db:
        assert {"spans", "intervals"} < {*db.sql("show tables").to_arrow()["name"].to_pylist()}
        with pytest.raises(UsageError, match="there is a table spans"):
            db.add("spans", db.sql("select 1").to_arrow())


def test_what_a_database_refuses(tmp_path: Path) -> None:
    history = history_from_picture("cpu0  a.")
    (tmp_path / "text.db").write_text("no database" * 1000)
    with pytest.raises(UsageError, match=r"text\.db: SQL: "):
        meantime.database(history, tmp_path / "text.db")
    with pytest.raises(UsageError, match="there is no such file"):
        meantime.database(history, tmp_path / "none.db")
    with meantime.database(history) as db:
        for statement in ("selec", "from nothing", "", "select value_in from intervals"):
            with pytest.raises(UsageError):
                db.sql(statement)
        with pytest.raises(UsageError, match="there is a table spans"):
            db.add("spans", db.sql("select 1").to_arrow())
        with pytest.raises(HistoryError, match="cannot be written"):
            db.save(tmp_path / "none" / "mine.db")
        db.execute("create table t as select 1 x")


def test_a_growing_history_is_queried_as_it_is() -> None:
    builder = HistoryBuilder()
    builder.modify(0, builder.quark("cpu0"), "a")
    with meantime.database(builder.history) as db:
        builder.modify(5, 0, "b")
        assert db.sql("select value, end_ns from intervals").to_arrow().to_pylist() == [
            {"value": "a", "end_ns": 1}
        ]
    assert rows(builder.history, "select value from intervals") == [("a",), ("b",)]


@given(histories(), st.integers(1, 4), st.integers(-3, 19), st.integers(1, 9))
def test_shares_and_durations_are_those_of_the_library(
    made: tuple[History, list[Row]], bins: int, from_ns: int, long_ns: int
) -> None:
    history, expected = made
    begin_ns, end_ns = history.bounds
    low_ns, high_ns = max(from_ns, begin_ns), min(from_ns + long_ns, end_ns)
    with meantime.database(history) as db:
        found = db.sql(f"from shares({bins}, from_ns := {from_ns}, to_ns := {from_ns + long_ns})")
        sums: dict[tuple[int, int, str | None], int] = {}
        for row in found.to_arrow().to_pylist():
            length = high_ns - low_ns
            edges = [low_ns + -(-at * length // bins) for at in (row["bin"], row["bin"] + 1)]
            assert [row["start_ns"], row["end_ns"]] == edges
            key = row["quark"], row["bin"], row["value"]
            sums[key] = sums.get(key, 0) + row["duration_ns"]
        plain: dict[tuple[int, int, str | None], int] = {}
        for row in expected:
            for part in range(bins if low_ns < high_ns else 0):
                edges = [low_ns + -(-at * (high_ns - low_ns) // bins) for at in (part, part + 1)]
                lasted = min(row["end_ns"], edges[1]) - max(row["start_ns"], edges[0])
                if lasted > 0 and history.has_values([row["quark"]])[0]:
                    key = row["quark"], part, row["value"]
                    plain[key] = plain.get(key, 0) + lasted
        assert sums == plain
        total = "select kind, name, count, total_ns, p99_ns from durations()"
        assert db.sql(total).to_arrow().to_pylist() == [
            {
                "kind": each.kind,
                "name": each.key,
                "count": each.count,
                "total_ns": each.total_ns,
                "p99_ns": each.p99_ns,
            }
            for each in meantime.stats(history).rows
        ]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=10),
    st.lists(st.integers(1, 29), max_size=6, unique=True),
    st.integers(0, 9),
)
def test_functions_of_spans_are_those_of_a_plain_model(
    made: list[tuple[int, int]], changes: list[int], asked: int
) -> None:
    builder = HistoryBuilder()
    thread = builder.quark("Processes", "1", "Threads", "7")
    status = builder.quark("Threads", "7", "Status")
    builder.modify(0, status, "0")
    for time_ns in sorted(changes):
        builder.modify(time_ns, status, str(time_ns))
    starts, ends = [at for at, _ in made], [at + long for at, long in made]
    builder.add_spans([thread] * len(made), ["f"] * len(made), starts, ends)
    with meantime.database(builder.close(30)) as db:
        spans = {row["span"]: row for row in db.sql("from spans").to_arrow().to_pylist()}
        above: dict[int, list[int]] = {}
        for span, row in spans.items():
            above[span], parent = [], row["parent"]
            while parent is not None:
                above[span].append(parent)
                parent = spans[parent]["parent"]
        found = db.sql("select * exclude distance from ancestors(?) order by distance", [asked])
        assert found.to_arrow().to_pylist() == [spans[each] for each in above.get(asked, [])]
        pairs = "select s.span, a.span as other, distance from spans s, ancestors(s.span) a"
        assert sorted(
            map(tuple, (row.values() for row in db.sql(pairs).to_arrow().to_pylist()))
        ) == sorted(
            (span, each, at) for span, all_of in above.items() for at, each in enumerate(all_of, 1)
        )
        found = db.sql("select span, distance from descendants(?)", [asked])
        assert sorted(tuple(row.values()) for row in found.to_arrow().to_pylist()) == sorted(
            (span, all_of.index(asked) + 1) for span, all_of in above.items() if asked in all_of
        )
        begins = [0, *sorted(changes)]
        expected = sorted(
            (span, str(begin), min(end, row["end_ns"]) - max(begin, row["start_ns"]))
            for span, row in spans.items()
            for begin, end in zip(begins, [*begins[1:], 30], strict=True)
            if max(begin, row["start_ns"]) < min(end, row["end_ns"])
        )
        states = db.sql("select span, state, duration_ns from span_states()").to_arrow().to_pylist()
        assert sorted(tuple(row.values()) for row in states) == expected
        few = db.sql("select span, state, duration_ns from span_states() where span = ?", [asked])
        assert sorted(tuple(row.values()) for row in few.to_arrow().to_pylist()) == [
            each for each in expected if each[0] == asked
        ]


def test_a_function_says_what_is_wrong_with_its_arguments(full: History) -> None:
    for statement, message in (
        ("select s.span from spans s, shares(s.span + 1)", "has to be a constant or a parameter"),
        ("from shares(0)", "shares has from 1 to"),
        ("from shares(99999999999)", "shares has from 1 to"),
        ("from durations('colour')", "durations are by state, entity"),
    ):
        with meantime.database(full) as db, pytest.raises(UsageError, match=message):
            db.sql(statement)


def test_functions_of_a_confined_statement_answer_and_fail_alike(full: History) -> None:
    for statement in ("from shares(2) order by all", "from ancestors(2) order by all"):
        with Confined(statement).answer(full) as found:
            assert found.arrow_batches().read_all().to_pylist() == (
                meantime.sql(full, statement).to_arrow().to_pylist()
            )
    for statement, message in (
        ("from durations('colour')", "durations are by state"),
        ("from shares(99999999999)", "shares has from 1 to"),
    ):
        with pytest.raises(UsageError, match=message), Confined(statement).answer(full) as found:
            found.arrow_batches().read_all()


def test_wake_ups_and_arrows_have_functions(full: History) -> None:
    wakers = "select path, count from wakers(?)"
    assert rows(full, wakers, 0) == []
    assert rows(full, wakers, full.quark("Threads", "9")) == [("Processes/1/Threads/7", 1)]
    assert rows(full, "select name, to_ns from flow_next(1)") == [("wakes", 40)]
    both = "select first.span a, second.span b from intersection('spans', 'spans')"
    assert rows(full, f"{both} where duration_ns > 0 order by all") == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (3, 3),
    ]
