"""Who may read what is made: of a private trace, only its owner."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import meantime
from meantime.cli import cli
from meantime.collect import session
from meantime.errors import OutputError
from meantime.files import mode_of, private_folder, write_whole
from meantime.opening.cache import cache_directory, cached_history
from meantime.server.notes import Notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meantime.views.picture import Picture

EXAMPLE = Path(__file__).parents[2] / "examples" / "postgres.statemap.gz"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "pg.statemap.gz"
    path.write_bytes(EXAMPLE.read_bytes())
    path.chmod(0o600)
    return path


def test_the_cache_is_private_also_if_it_was_not(trace: Path) -> None:
    cache_directory().mkdir(parents=True)
    cache_directory().chmod(0o755)

    assert cached_history(trace, None) is not None

    assert mode(cache_directory()) == 0o700


def modes_of(folder: Path) -> set[int]:
    return {mode(path) for path in folder.rglob("*")}


def test_each_file_of_a_cached_history_is_as_private_as_the_trace(trace: Path) -> None:
    cached_history(trace, None)

    assert modes_of(cache_directory()) == {0o700, 0o600}


def test_what_an_older_version_cached_becomes_private(trace: Path) -> None:
    cached_history(trace, None)
    for path in cache_directory().rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)

    cached_history(trace, None)

    assert modes_of(cache_directory()) == {0o700, 0o600}


def test_a_cache_that_others_may_look_into_becomes_private_as_a_whole(trace: Path) -> None:
    (cache_directory() / "stores").mkdir(parents=True)
    (cache_directory() / "stores" / "manifest").touch()
    (cache_directory() / "link").symlink_to(trace)
    trace.chmod(0o644)
    cached_history(trace, None)
    cache_directory().chmod(0o755)

    cached_history(trace, None)

    assert mode(cache_directory() / "stores" / "manifest") == 0o600
    assert mode(trace) == 0o644  # a link is not followed


def test_a_joined_file_is_for_those_who_may_read_all_that_it_names(
    tmp_path: Path, trace: Path
) -> None:
    words = ["join", str(trace), "-o", str(tmp_path / "j.mtj")]
    done = CliRunner().invoke(cli, words)

    assert not done.exit_code, done.stderr
    assert mode(tmp_path / "j.mtj") == 0o600


def test_a_folder_of_somebody_else_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)

    private_folder(tmp_path)

    assert mode(tmp_path) == 0o755


@pytest.mark.parametrize(
    ("of_trace", "of_history"), [(0o600, 0o700), (0o640, 0o750), (0o644, 0o755)]
)
def test_a_history_is_for_those_who_may_read_the_trace(
    tmp_path: Path, trace: Path, of_trace: int, of_history: int
) -> None:
    trace.chmod(of_trace)

    meantime.build(trace, path=tmp_path / "pg.mth")

    assert mode(tmp_path / "pg.mth") == of_history
    assert modes_of(tmp_path / "pg.mth") <= {of_history, of_trace}


@pytest.mark.parametrize(("of_trace", "wanted"), [(0o600, 0o600), (0o444, 0o644)])
@pytest.mark.parametrize(
    "command",
    [
        "convert {trace} {folder}/out.json --to-format chrome",
        "view {trace} -o {folder}/out.html",
        "statemap {trace} -o {folder}/out.svg",
        "heatmap {folder}/*.gz -o {folder}/out.html",
        "query {trace} intervals * --arrow {folder}/out.arrow",
        "query {trace} intervals * --parquet {folder}/out.parquet",
    ],
)
def test_what_commands_make_of_a_trace_is_for_those_who_may_read_it(
    tmp_path: Path, trace: Path, of_trace: int, wanted: int, command: str
) -> None:
    trace.chmod(of_trace)
    words = command.format(trace=trace, folder=tmp_path).split()
    done = CliRunner().invoke(cli, words)

    assert not done.exit_code, done.output
    [output] = tmp_path.glob("out.*")
    assert mode(output) == wanted


@pytest.mark.parametrize("draw", [meantime.statemap, meantime.heatmap, meantime.view])
def test_a_picture_that_is_saved_is_for_those_who_may_read_the_trace(
    tmp_path: Path, trace: Path, draw: Callable[[Path], Picture]
) -> None:
    path = tmp_path / f"out.{'html' if draw is meantime.view else 'svg'}"

    draw(trace).save(path)

    assert mode(path) == 0o600


def test_a_flame_graph_is_for_those_who_may_read_both_that_it_compares(tmp_path: Path) -> None:
    for name, bits in (("a.folded", 0o644), ("b.folded", 0o600)):
        (tmp_path / name).write_text("f;g 1\n")
        (tmp_path / name).chmod(bits)
    a, b, out = (str(tmp_path / name) for name in ("a.folded", "b.folded", "out.svg"))

    CliRunner().invoke(cli, ["flame", a, "-o", out], catch_exceptions=False)
    assert mode(tmp_path / "out.svg") == 0o644
    CliRunner().invoke(cli, ["flame", a, "--against", b, "-o", out], catch_exceptions=False)
    assert mode(tmp_path / "out.svg") == 0o600

    meantime.flame(a, against=b).save(tmp_path / "saved.svg")
    assert mode(tmp_path / "saved.svg") == 0o600


def test_a_link_of_somebody_else_in_a_shared_folder_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "shared" / "out").symlink_to(tmp_path / "mine")
    owner = os.lstat(tmp_path).st_uid
    state = os.stat_result((0o41777, 0, 0, 1, owner + 2, 0, 0, 0, 0, 0))
    folder_stat = Path.stat

    def stat_of(path: Path, **how: bool) -> os.stat_result:
        return state if path.name == "shared" else folder_stat(path, **how)

    monkeypatch.setattr(Path, "stat", stat_of)
    write_whole(tmp_path / "shared" / "out", [b"as its owner"])
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    with pytest.raises(PermissionError, match="link of another user"):
        write_whole(tmp_path / "shared" / "out", [b"as another user"])

    assert (tmp_path / "mine").read_text() == "as its owner"


def test_no_history_is_built_in_a_folder_of_somebody_else(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pg.mth").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)

    with pytest.raises(OutputError, match="belongs to another user"):
        meantime.build(trace, path=tmp_path / "pg.mth")

    assert not [*(tmp_path / "pg.mth").iterdir()]


def test_notes_have_the_mode_of_their_trace(trace: Path) -> None:
    notes = Notes(str(trace))
    _, digest = notes.read()

    notes.write(b'{"notes":[]}', digest)

    assert mode(trace.with_name(f"{trace.name}.notes.json")) == 0o600


def test_several_sources_are_for_those_who_may_read_all(tmp_path: Path) -> None:
    for name, bits in (("a", 0o644), ("b", 0o660)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(bits)

    assert mode_of([tmp_path / "a", tmp_path / "b", "s3://bucket/c", None]) == 0o640


def test_a_recording_is_private_and_has_no_secrets(tmp_path: Path) -> None:
    path = tmp_path / "app.mtr"

    session.create(str(path), ["python", "app.py", "--token=a1", "--password", "b2"])

    assert mode(path) == 0o700
    assert mode(path / "recording.json") == 0o600
    written = json.loads((path / "recording.json").read_text())
    assert written["command"] == ["python", "app.py", "--token=***", "--password", "***"]


def test_secrets_in_names_of_processes_and_in_facts_are_hidden(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    name, fact = "app --token=a1 --port 80", "https://me:b2@host/run?api_key=c3"
    program = "def f(x):\n    sort(x, key=len)\n    get('https://me:d4@host')\n"
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": name}},
        {"ph": "X", "name": "f", "pid": 1, "tid": 1, "ts": 1, "dur": 5, "args": {"db_password": 4}},
        {
            "ph": "X",
            "name": "f",
            "pid": 1,
            "tid": 1,
            "ts": 9,
            "dur": 5,
            "args": {"db_password": ""},
        },
    ]
    path.write_text(json.dumps({"traceEvents": events, "otherData": {"x": [fact, 1, program]}}))

    hidden, shown = meantime.open(path), meantime.open(path, include="env")

    process = hidden.quark("Processes", "1")
    assert hidden.names[process] == "app --token=*** --port 80"
    assert json.loads(hidden.facts["otherData"]) == {
        "x": ["https://me:***@host/run?api_key=***", 1, program.replace("d4", "***")]
    }
    assert hidden.anomalies["private_field"] == 3
    assert shown.names[process] == name
    assert json.loads(shown.facts["otherData"]) == {"x": [fact, 1, program]}
    assert "private_field" not in shown.anomalies


def meantime_runs(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "meantime", *words], check=True)


RECORDED = "import sys, asyncio; asyncio.run(asyncio.sleep(0))"


@pytest.mark.parametrize("options", [[], ["--include", "command"]])
def test_all_files_of_a_recording_are_private_and_secrets_are_there_on_request(
    tmp_path: Path, options: list[str]
) -> None:
    path = tmp_path / "app.mtr"

    meantime_runs(
        "record", "-q", *options, "-o", str(path), sys.executable, "-c", RECORDED, "--key=hunter2"
    )

    assert {mode(each) for each in path.iterdir()} == {0o600}
    texts = [each.read_text() for each in path.glob("*.json")]
    assert len(texts) == 2
    assert all(("hunter2" in text) == bool(options) for text in texts)
    meantime_runs("pack", str(path))
    assert mode(tmp_path / "app.mtrz") == 0o600
