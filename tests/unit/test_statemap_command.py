"""The command line of `meantime statemap`: options, sentences, statuses, files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.cli import main
from meantime.errors import InputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

TRACE = """
{"start": [100, 0], "title": "t", "states": {"a": {"value": 0}, "b": {"value": 1}}}
{"time": "10", "entity": "x", "state": 0}
{"time": "20", "entity": "x", "state": 1}
{"time": "15", "entity": "y", "state": 1}
{"time": "40", "entity": "x", "state": 0}
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "t.statemap"
    path.write_text(TRACE)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["statemap", *arguments])
    out, err = capsys.readouterr()
    return stopped.value.code, out, err


def test_the_page_has_commands_for_its_inputs_and_options(
    capsys: pytest.CaptureFixture[str], trace: str, tmp_path: Path
) -> None:
    out = tmp_path / "out.svg"
    options = ["-b", "12", "-c", "9", "--lenient", "-s", "a", "-o", str(out)]

    one = run(capsys, *options, trace)[0], head(out)["commands"]
    two = run(capsys, *options, trace, trace)[0], head(out)["commands"]

    draw = f"meantime statemap -s a --lenient {trace}"
    assert one == (0, {"draw": draw, "figures": f"meantime stats --by state --lenient {trace}"})
    assert two == (0, {"draw": f"{draw} {trace}", "figures": None})


def test_the_commands_of_a_page_say_how_its_table_was_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "out.svg"
    table.write_text("who,start,end,what\nx,2025-10-25T06:00,2025-10-26T06:00,work\n")
    reading = "--columns entity=who,start=start,end=end,state=what --zone Europe/Berlin"

    assert run(capsys, *reading.split(), "-o", str(out), str(table))[0] == 0

    found = head(out)
    assert found["commands"] == {
        "draw": f"meantime statemap {reading} {table}",
        "figures": f"meantime stats --by state {reading} {table}",
    }
    assert found["zone"]["name"] == "Europe/Berlin"
    hours = [int(offset) // (3600 * 10**9) for _, _, offset in found["zone"]["pieces"]]
    assert hours == [2, 1]


def head(page: Path) -> dict[str, Any]:
    """Return what the script of a page reads as JSON."""
    text = page.read_text().partition('<metadata data-block="head">')[2]
    found: dict[str, Any] = json.loads(text.partition("</metadata>")[0])
    return found


def window(capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: str) -> tuple[int, int]:
    status, _, err = run(capsys, *arguments, "-o", str(tmp_path / "out.json"))
    assert status == 0, err
    drawn = json.loads((tmp_path / "out.json").read_text())["maps"][0]
    return drawn["start_ns"], drawn["end_ns"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], (0, 40)),
        (["-b", "12"], (12, 40)),
        (["-e", "30"], (0, 30)),
        (["-d30"], (0, 30)),
        (["-b12", "-d", "8"], (12, 20)),
        (["-e", "30", "-d", "8ns"], (22, 30)),
        (["--begin=12", "--end=30"], (12, 30)),
        (["--from", "@100.000000012", "--to", "1970-01-01T00:01:40.00000003Z"], (12, 30)),
        (["-d", "1us"], (0, 1000)),
        (["-e", "0"], (0, 40)),
    ],
)
def test_the_window_is_what_the_options_say(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    trace: str,
    options: list[str],
    expected: tuple[int, int],
) -> None:
    assert window(capsys, tmp_path, *options, trace) == expected


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "must specify a data file"),
        (["-b", "soon", "T"], 'value for begin is not a valid expression of time: "soon"'),
        (["-e", "nan", "T"], 'value for end is not a valid expression of time: "nan"'),
        (["-d", "1x", "T"], 'value for duration is not a valid expression of time: "1x"'),
        (["-d", "-1", "T"], 'value for duration is negative: "-1"'),
        (["-b1", "-e2", "-d1", "T"], "cannot specify all of begin, end, and duration"),
        (["-e", "1", "-d", "2", "T"], "duration cannot exceed end offset"),
        (["-b", "2", "-e", "1", "T"], "begin offset must be less than end offset"),
        (["-c", "many", "T"], "coalesce factor must be an integer"),
        (["-c", "-1", "T"], "coalesce factor must be an integer"),
        (["-h", "1.5", "T"], "state height must be an integer"),
        (["--offset", "U=1s", "T"], "--offset 'U=1s': write FILE=TIME with one of the files"),
        (["-j", "2", "T"], "-j does not apply to maps of their own; add --hosts"),
        (["-o", "x.png", "T"], "'x.png' must end in .svg or .json"),
    ],
)
def test_what_the_options_alone_show_to_be_wrong_exits_with_2(
    capsys: pytest.CaptureFixture[str], trace: str, options: list[str], sentence: str
) -> None:
    arguments = [trace if option == "T" else option for option in options]

    status, out, err = run(capsys, *arguments)

    assert (status, out, err) == (2, "", f"meantime: {sentence}\n")


def test_an_option_with_two_names_is_one(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    status, _, err = run(capsys, "-b", "1", "--from", "2", trace)

    assert status == 2
    assert "Option 'begin' given more than once; see meantime statemap --help" in err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-s", "c"], 'cannot sort by state "c": no such state'),
        (["-S", "c"], 'unknown stack sorting state "c"'),
    ],
)
def test_a_state_that_is_not_in_the_file_exits_with_1_and_no_output(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    trace: str,
    options: list[str],
    sentence: str,
) -> None:
    status, out, err = run(capsys, *options, trace, "-o", str(tmp_path / "out.svg"))

    assert (status, out) == (1, "")
    assert sentence in err
    assert not (tmp_path / "out.svg").exists()


EARLY = [
    (["-s", "c"], 'cannot sort by state "c": no such state; there are "a", "b"', 1),
    (["-S", "c"], 'unknown stack sorting state "c"; there are "a", "b"', 1),
    (["-c", "0"], "the coalesce factor is 0: it must be at least 1", 2),
    (
        ["-f", "["],
        "the filter '[' is not a regular expression: unterminated character set at position 0",
        2,
    ),
]


@pytest.mark.parametrize(("options", "sentence", "expected"), EARLY)
def test_options_are_checked_before_the_input_is_read(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: list[str],
    sentence: str,
    expected: int,
) -> None:
    path = tmp_path / "t.statemap"
    path.write_text(TRACE + "this cannot be read")

    status, out, err = run(capsys, *options, str(path), "-o", str(tmp_path / "out.svg"))

    assert (status, out, err) == (expected, "", f"meantime: {sentence}\n")


def test_colors_are_checked_before_the_input_is_read_and_name_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, trace: str
) -> None:
    path = tmp_path / "other.statemap"
    red = TRACE.replace('{"value": 0}', '{"value": 0, "color": "rouge"}')
    far = '{"entity": "x", "description": "it stands far behind the beginning"}' * 2_000
    for text in (red + "this cannot be read", far + red):
        path.write_text(text)

        status, out, err = run(capsys, trace, str(path), "-o", str(tmp_path / "out.svg"))

        assert (status, out) == (1, "")
        assert err == (
            f'meantime: {path}: illegal color "rouge" for state "a":'
            " it must be #rgb, #rrggbb or a CSS color name\n"
        )


def test_a_file_without_states_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, trace: str
) -> None:
    path = tmp_path / "x.folded"
    path.write_text("a;b 1\n")

    status, _, err = run(capsys, trace, str(path), "-o", str(tmp_path / "out.svg"))

    assert (status, err) == (1, f"meantime: {path}: there are no states to draw in this trace\n")


EVENTS = """
{"time": "12", "entity": "x", "event": "e", "target": "z"}
{"time": "12", "entity": "x", "event": "e", "target": "y"}
{"time": "13", "entity": "z", "event": "e", "target": "x"}
{"time": "14", "entity": "z", "event": "e"}
{"time": "50", "entity": "x", "event": "e"}
"""


@pytest.mark.parametrize("options", [["-n"], ["-o", "out.svg"]])
def test_events_that_are_not_drawn_whole_are_counted(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "t.statemap"
    path.write_text(TRACE + EVENTS)

    status, _, err = run(capsys, str(path), *options)

    assert status == 0
    assert [line.split(": ")[1] for line in err.splitlines()[1:]] == [
        "1 event_after_end",
        "2 event_without_row",
        "1 target_without_row",
    ]
    status, _, err = run(capsys, str(path), *options, "--strict")
    assert status == 1
    assert "with --strict: 1 event_after_end" in err


def test_standard_output_is_the_svg(capsysbinary: pytest.CaptureFixture[bytes], trace: str) -> None:
    with pytest.raises(SystemExit):
        main(["statemap", trace])

    out, err = capsysbinary.readouterr()
    assert out.startswith(b"<svg ")
    assert err == b"t.statemap: 4 records processed, 3 rectangles\n"


def test_a_dry_run_counts_and_draws_nothing(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    status, out, err = run(capsys, "-ns", "no such state", trace)

    assert (status, out) == (0, "")
    assert err == "t.statemap: 4 records processed, 3 rectangles\n"


def test_short_options_are_bundled_and_the_old_spellings_work(
    capsys: pytest.CaptureFixture[str], trace: str
) -> None:
    status, _, _ = run(capsys, "-inc25", "--stateHeight=3", "--ignoreTags", "--", trace)

    assert status == 0


def test_anomalies_are_reported_and_strict_rejects_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "cut.statemap"
    path.write_text(TRACE + '{"time": "41", "ent')

    status, _, err = run(capsys, "-n", str(path))
    refused, _, reason = run(capsys, "-n", "--strict", str(path))

    assert status == 0
    assert "cut.statemap: 1 truncated: the input ends inside a record" in err
    assert refused == 1
    assert "with --strict: 1 truncated" in reason


def test_two_runs_write_the_same_bytes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, trace: str
) -> None:
    for name in ("first.svg", "second.svg"):
        run(capsys, trace, trace, "-o", str(tmp_path / name))

    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()


HEAD = '{"start": [0, 0], "title": "t", "states": {"a": {"value": 0}, "b": {"value": 1}}}\n'


@pytest.mark.parametrize(
    "data",
    [
        "",
        '{"entity": "x", "description": "never seen"}',
        '{"time": "7", "entity": "x", "state": 0}',
        '{"time": "0", "entity": "x", "state": 0}',
    ],
)
@pytest.mark.parametrize("suffix", ["svg", "json"])
def test_a_trace_in_which_no_time_passes_is_drawn_empty(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, data: str, suffix: str
) -> None:
    path, out = tmp_path / "t.statemap", tmp_path / f"out.{suffix}"
    path.write_text(HEAD + data)

    status, _, err = run(capsys, str(path), "-o", str(out))

    assert (status, "0 rectangles" in err) == (0, True)
    assert out.stat().st_size


@pytest.mark.parametrize("suffix", ["svg", "json"])
def test_the_latest_time_there_is_is_drawn(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str
) -> None:
    path, out = tmp_path / "t.statemap", tmp_path / f"out.{suffix}"
    path.write_text(
        HEAD
        + '{"time": "0", "entity": "x", "state": 0}'
        + f'{{"time": "{2**63 - 2}", "entity": "x", "state": 1}}'
    )

    status, _, err = run(capsys, str(path), "-o", str(out))

    assert (status, err) == (0, "t.statemap: 2 records processed, 1 rectangles\n")
    assert out.stat().st_size


def test_what_comes_after_the_end_need_not_make_sense(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "late.statemap"
    path.write_text(TRACE + '{"time": "50", "entity": "x", "state": 7}')

    status, _, err = run(capsys, "-n", "-e", "45", str(path))
    refused, _, reason = run(capsys, "-n", "-e", "50", str(path))

    assert status == 0
    assert "1 unread_after_end" in err
    assert refused == 1
    assert '"state" is 7' in reason


def test_contradicting_options_are_reported_before_files(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, _, err = run(capsys, "-b2", "-e1", "no such file")

    assert (status, err) == (2, "meantime: begin offset must be less than end offset\n")


def test_the_library_has_the_window_and_the_checks_of_the_command(
    trace: str, tmp_path: Path
) -> None:
    def drawn(**given: Any) -> tuple[int, int]:
        (panel,) = meantime.statemap(trace, **given).data.panels
        return panel.start_ns, panel.end_ns

    assert drawn(start="12", duration="8") == drawn(start=12, end=20) == (12, 20)
    assert drawn(end=30, duration=8) == (22, 30)
    with pytest.raises(UsageError, match="cannot specify all of begin, end, and duration"):
        drawn(start=1, end=2, duration=1)
    with pytest.raises(InputError, match="no entity that the filter 'none' matches"):
        drawn(filter="none")
    late = tmp_path / "late.statemap"
    late.write_text(TRACE + '{"time": "50", "entity": "x", "state": 7}')
    assert meantime.statemap(late, end="45").counts[0].anomalies["unread_after_end"] == 1
    with pytest.raises(InputError, match='"state" is 7'):
        meantime.statemap(late)
