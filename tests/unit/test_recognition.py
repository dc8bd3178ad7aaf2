"""Which format an input is taken for, and what is said where that is not clear."""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.cli import main
from meantime.errors import InputError
from meantime.readers.recognition import recognise, seen
from meantime.readers.source import HEAD_BYTES, Source, open_source

if TYPE_CHECKING:
    from pathlib import Path

# The header of a table, and lines that end in a number.
BOTH = "start ns;end;name 3\n1;2;x 5\n"
ROWS = [{"thread": "a", "name": "x", "start": 1, "end": 5}, {"thread": "b", "start": 2, "end": 3}]
SWITCH = "app-7 [001] d..2 100.123456: sched_wakeup: comm=b pid=2 prio=120 target_cpu=001"
LOGGED = {"timestamp": "2026-01-01T00:00:00Z", "level": "info", "message": "x"}
EVENT = '{"name": "x", "ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1}'


def format_of(content: str | bytes, name: str = "x") -> str:
    data = content.encode() if isinstance(content, str) else content
    return recognise(Source(name, io.BytesIO(data))).reader.FORMAT


@pytest.mark.parametrize(
    ("content", "name", "format_"),
    [
        # an object with a phase, or traceEvents, or cut before either
        (f"[{EVENT}]", "x", "chrome"),
        (f"[\n{EVENT},\n", "x.log", "chrome"),
        (f"{EVENT}\n{EVENT}\n", "x.jsonl.txt", "chrome"),
        (f'[{{"args": {{"a": {{}}}}, {EVENT[1:]}]', "x", "chrome"),
        ('{"traceEvents": []}', "x", "chrome"),
        ('{"otherData": {"states": 1}, "traceEvents": [', "x", "chrome"),
        ('{"metadata": {"' + 'x": 1, "' * HEAD_BYTES, "x", "chrome"),
        ("[", "x.json", "chrome"),
        # lines of objects, whatever their name
        ('{"a": {"b": 1}}\n{"a": {"b": 2}}\n', "trace.trace", "jsonl"),
        ('{"insertId": "1", "timestamp": "2026-01-01"}\n' * 2, "gcp.log", "jsonl"),
        ('{"ts": "2026-01-01T00:00:00Z", "host": "a", "state": "up"}\n' * 2, "x", "jsonl"),
        ('{"traceID": "1", "spanID": "2", "duration": "5ms", "msg": "a"}\n' * 2, "x", "jsonl"),
        # an array of logs is a table, whatever ids its rows have
        (json.dumps([LOGGED | {"traceId": "5b8efff798038103", "id": 17}]), "x", "table"),
        (json.dumps([LOGGED | {"traceId": "5b8e", "id": "a1", "duration": 5}]), "x", "table"),
        (json.dumps([LOGGED | {"traceID": "5b8e", "duration": 5}]), "x", "table"),
        (json.dumps([LOGGED | {"traceID": "5b8e", "spanID": "1", "startTime": 5}]), "x", "table"),
        ('[{"traceId": "5b8e", "id": "c1", "timestamp": 1, "duration": 5}]', "x", "zipkin"),
        ('[[{"traceId": "5b8e", "id": "c1", "localEndpoint": {}}]]', "x", "zipkin"),
        # a line of ftrace in quotation marks is not one
        (f'[{{"name": "{SWITCH}", "ph": "X", "ts": 1, "dur": 2}}]', "x", "chrome"),
        (f'{{"time": 1770000000, "message": "{SWITCH}"}}\n' * 2, "x", "jsonl"),
        (f'time,message\n1770000000,"{SWITCH}"\n' * 2, "x", "table"),
        (f"{SWITCH}\n", "x", "ftrace"),
        ("[kworker/0] 7 [000] 1.000000: 1 x: \n\t7f f (x)\n\n", "x", "perf"),
        # an array of objects is a table, also one of water
        (json.dumps(ROWS), "x", "table"),
        ('[{"time": "2026-01-01", "ph": 7.2}, {"time": "2026-01-02", "ph": 7.1}]', "x", "table"),
        # a magic is stronger than a form, and a form than any table
        (b"SLOW query: a;b 5\nSLOW query: a;c 7\n", "x", "folded"),
        (b"SLOW\x03\0\x20\0" + bytes(24), "x", "art"),
        ('2026-03-02 08:00:00,123 INFO read(3) = 5, "time"\n' * 3, "x.csv", "log"),
    ],
)
def test_the_strongest_sign_decides(content: str | bytes, name: str, format_: str) -> None:
    assert format_of(content, name) == format_


def test_every_sample_of_the_project_is_of_one_format(root: Path) -> None:
    found = Counter[str]()
    for path in sorted(
        path for part in ("examples", "tests/samples") for path in (root / part).rglob("*")
    ):
        if path.is_file():
            with open_source(path) as source:
                formats = seen(source.head(), source.name)
            assert len(formats) <= 1, (path, formats)
            found.update(formats.keys())

    # documents and programs are of none
    assert len(found) > 25
    assert {"statemap", "perf", "chrome", "otlp", "pprof"} <= found.keys()


def test_a_name_decides_between_equally_strong_signs() -> None:
    assert format_of(BOTH, "x.csv") == "table"
    assert format_of(BOTH, "x.folded.gz") == "folded"
    with pytest.raises(InputError, match=r"^x: its content fits folded \(.*\) and table \(.*\); c"):
        format_of(BOTH)


def test_a_tie_is_asked_about_with_a_command_that_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "two words").write_text(BOTH)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SystemExit, match="1"):
        main(["info", "two words"])
    said = capsys.readouterr().err
    assert "such as `meantime info 'two words' --format folded`" in said
    with pytest.raises(SystemExit, match="0"):
        main(["info", "two words", "--format", "folded"])
    assert "folded" in capsys.readouterr().out


def test_columns_overrule_what_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(f"[{EVENT}, {EVENT}]")

    assert meantime.open(path).metadata.format == "chrome"
    history = meantime.open(path, columns="start=ts:us,duration=dur:us,entity=tid,name=name")

    assert history.metadata.format == "table"
    assert [*history.attributes.children()]


def test_info_says_by_what_a_format_is_recognised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.json"
    path.write_text(f"[{EVENT}]")
    for words, why in (
        ([], "is JSON whose first object has the key ph"),
        (["--format", "chrome"], "was given as --format"),
    ):
        with pytest.raises(SystemExit):
            main(["info", str(path), *words])
        assert why in capsys.readouterr().out
        with pytest.raises(SystemExit):
            main(["info", str(path), "--json", *words])
        assert json.loads(capsys.readouterr().out)["recognised"] == why


def test_what_is_not_read_is_refused_only_where_no_format_is_seen_as_well() -> None:
    with pytest.raises(InputError, match="this is a session of pyinstrument"):
        format_of('{"sample_count": 2, "root_frame": {"name": "x"}}\n{"a": 1}\n')
    # a report of Go's goroutines has lines like those of perf
    with pytest.raises(InputError, match="this is a text dump of goroutines"):
        format_of("goroutine 7 [000] 1.000000: 1 x:\n\n" * 9)
    with pytest.raises(InputError, match="this is XML or a web page"):
        format_of("<html><body>")
    assert format_of("<html><testsuite>") == "junit"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        # events without a phase, rows without times, and lines without a time
        ('{"traceEvents": [{"name": "a"}, {"name": "b"}]}', []),
        ("node,start,end\na,,\nb,,\n", []),
        ('{"time_ns": 1}\n{"time_ns": 2}\n{"time_ns": 3}\n', ["--lenient"]),
    ],
)
def test_an_input_of_which_nothing_is_used_is_an_error(
    content: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / "x").write_text(content)
    with pytest.raises(InputError, match="x: nothing in it can be shown"):
        meantime.open(path, lenient=bool(words))
    with pytest.raises(SystemExit, match="1"):
        main(["statemap", str(path), "-o", str(tmp_path / "x.svg"), *words])
    assert "nothing in it can be shown" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="1"):
        main(["build", str(path), "-o", str(tmp_path / "x.mth"), *words])
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("content", ['{"traceEvents": []}', "[]", "start_ns,end_ns,path,value\n"])
def test_an_input_that_has_nothing_is_empty(content: str, tmp_path: Path) -> None:
    (path := tmp_path / "x").write_text(content)

    assert meantime.open(path).bounds == (0, 0)


def test_a_text_that_begins_with_an_empty_line_is_no_message_of_protobuf() -> None:
    for text in (
        "\nthis\nis an unknown\nformat\n",
        "\nthis is line *** an of\n= of 12 the =\nx an\nhello\nhello\n*** an this of the\n",
    ):
        with pytest.raises(InputError, match="unknown format"):
            recognise(Source("x", io.BytesIO(text.encode())))
