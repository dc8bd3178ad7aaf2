from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import meantime
from meantime.cli import cli
from meantime.errors import InputError, UsageError
from meantime.history.directory.loaded import VERSION
from meantime.opening.cache import READING_RULES, cache_directory
from meantime.opening.provenance import fingerprint

if TYPE_CHECKING:
    from meantime.history import HistoryBuilder
    from meantime.model.events import Event

PROVIDER = """
[[on]]
event = "*"
change = [{ path = "State", set = "{name}" }]
"""


class Names(meantime.StateProvider):
    handled = 0

    def handle(self, event: Event, state: HistoryBuilder) -> None:
        Names.handled += 1
        state.modify(event.time_ns, state.quark("State"), event.name)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Names, "handled", 0)
    monkeypatch.setattr(Names, "version", 1)
    return tmp_path / "cache" / "meantime"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "x.jsonl"
    file.write_text('{"ts": 1, "name": "a"}\n{"ts": 3, "name": "b"}\n')
    return file


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    file = tmp_path / "states.toml"
    file.write_text(PROVIDER)
    return file


def opened(trace: Path, provider: Any = Names, **options: Any) -> tuple[list[Any], list[str]]:
    said: list[str] = []
    history = meantime.open(trace, provider=provider, cache=True, notify=said.append, **options)
    return [interval.value for interval in history.iterate(history.quark("State"), 1)], said


def test_a_history_is_made_once_and_used_again(trace: Path, cache: Path) -> None:
    assert opened(trace) == opened(trace) == (["a", "b"], [])
    assert Names.handled == 2
    os.utime(trace, (0, 0))
    assert opened(trace) == (["a", "b"], [])
    assert Names.handled == 2
    assert [path.suffix for path in cache.iterdir()] == [".mth"]


def test_without_the_cache_nothing_is_kept(trace: Path, cache: Path) -> None:
    meantime.open(trace, provider=Names)
    meantime.open(trace, provider=Names)

    assert Names.handled == 4
    assert not cache.exists()


def test_it_is_rebuilt_when_the_trace_changes(trace: Path) -> None:
    opened(trace)
    trace.write_text(trace.read_text().replace("b", "c"))

    assert opened(trace) == (["a", "c"], [f"{trace}: rebuilding: the trace has changed"])


def test_it_is_rebuilt_when_the_providers_version_changes(trace: Path) -> None:
    opened(trace)
    Names.version = 2

    assert opened(trace)[1] == [f"{trace}: rebuilding: provider version changed from 1 to 2"]
    assert opened(trace)[1] == []


def test_it_is_rebuilt_when_the_code_of_the_class_changes(trace: Path) -> None:
    opened(trace)

    def other() -> type[meantime.StateProvider]:
        class Names(meantime.StateProvider):
            def handle(self, event: Event, state: HistoryBuilder) -> None:
                state.modify(event.time_ns, state.quark("State"), event.name.upper())

        return Names

    assert opened(trace, other()) == (
        ["A", "B"],
        [f"{trace}: rebuilding: the provider's code has changed"],
    )


def test_it_is_rebuilt_when_the_declaration_was_edited(trace: Path, toml: Path) -> None:
    assert opened(trace, toml) == opened(trace, toml) == (["a", "b"], [])
    toml.write_text(PROVIDER.replace("{name}", "{name}!"))

    assert opened(trace, toml) == (
        ["a!", "b!"],
        [f"{trace}: rebuilding: the provider's code has changed"],
    )


def test_it_is_rebuilt_when_the_format_version_differs(
    trace: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as later:
        for module in ("read", "write"):
            later.setattr(f"meantime.history.directory.{module}.VERSION", VERSION + 1)
        opened(trace)

    [said] = opened(trace)[1]

    assert f"is of version {VERSION + 1}; this meantime reads up to" in said
    assert opened(trace)[1] == []
    assert len(list(cache.iterdir())) == 1


def test_a_history_read_by_other_rules_is_rebuilt(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(trace)
    now = READING_RULES + 1
    monkeypatch.setattr("meantime.opening.cache.READING_RULES", now)

    reason = f"meantime's reading rules changed from {READING_RULES} to {now}"
    assert opened(trace) == (["a", "b"], [f"{trace}: rebuilding: {reason}"])
    assert opened(trace) == (["a", "b"], [])


def test_a_history_cached_before_there_were_rules_is_rebuilt(trace: Path, cache: Path) -> None:
    opened(trace)
    [kept] = cache.iterdir()
    shutil.rmtree(kept)
    meantime.build(trace, Names, kept)

    [said] = opened(trace)[1]

    assert "rebuilding: meantime's reading rules changed from 0 to " in said


def test_a_history_that_a_user_built_is_not_stale_by_other_rules(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.mth"
    built = meantime.build(trace, Names, path)
    monkeypatch.setattr("meantime.opening.cache.READING_RULES", READING_RULES + 1)
    said: list[str] = []

    again = meantime.build(trace, Names, path, resume=True, notify=said.append)

    assert said == [f"{path}: the build was already finished"]
    assert again.provenance == meantime.open(path).provenance == built.provenance


def test_a_damaged_one_is_rebuilt(trace: Path, cache: Path) -> None:
    opened(trace)
    [kept] = cache.iterdir()
    (kept / "manifest").write_bytes(b"x\n")

    values, [said] = opened(trace)

    assert values == ["a", "b"]
    assert "line 1 is damaged" in said


def test_two_providers_and_two_traces_do_not_displace_each_other(
    trace: Path, toml: Path, cache: Path
) -> None:
    other = trace.with_name("y.jsonl")
    other.write_text(trace.read_text())
    for provider in (Names, toml):
        for file in (trace, other):
            opened(file, provider)

    assert all(opened(f, p)[1] == [] for p in (Names, toml) for f in (trace, other))
    assert len(list(cache.iterdir())) == 4


def test_an_unwritable_cache_is_reported_and_not_used(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")

    values, [said] = opened(trace)

    assert values == ["a", "b"]
    assert "not cached" in said


def test_what_fails_leaves_nothing_in_the_cache(trace: Path, cache: Path) -> None:
    trace.write_text(trace.read_text() + "bad\n")

    with pytest.raises(InputError, match=r"x\.jsonl:3"):
        opened(trace)
    assert list(cache.iterdir()) == []
    assert opened(trace, lenient=True) == (["a", "b"], [])


def test_what_killed_builds_left_is_cleared_after_a_day(trace: Path, cache: Path) -> None:
    old, new = cache / ".building-old", cache / ".building-new"
    for folder in (old, new):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))

    opened(trace)

    assert (old.exists(), new.exists()) == (False, True)


def test_a_large_trace_that_was_edited_between_the_blocks_read_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("_WHOLE_BYTES", 16), ("_BLOCKS", 2), ("_BLOCK_BYTES", 4)):
        monkeypatch.setattr(f"meantime.opening.provenance.{name}", size)
    large = tmp_path / "large"
    large.write_bytes(b"a" * 100)
    os.utime(large, ns=(1, 1))
    before = fingerprint(large)

    large.write_bytes(b"a" * 50 + b"b" + b"a" * 49)
    os.utime(large, ns=(1, 1))
    assert fingerprint(large) == before
    os.utime(large, ns=(1, 2))
    assert fingerprint(large) != before


def test_the_cache_is_where_the_system_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for home in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", home)
        assert cache_directory() == Path.home() / ".cache" / "meantime"


def test_a_history_needs_no_provider(trace: Path, tmp_path: Path) -> None:
    meantime.build(trace, Names, tmp_path / "x.mth")

    with pytest.raises(InputError, match="a provider needs the original trace"):
        meantime.open(tmp_path / "x.mth", provider=Names)


def test_commands_take_a_provider_and_keep_what_it_makes(
    trace: Path, toml: Path, tmp_path: Path
) -> None:
    def run(*words: object) -> Any:
        return CliRunner().invoke(cli, list(map(str, words)))

    asked = ("query", trace, "state", "State", "abs:2ns", "--provider", toml, "--json")
    assert json.loads(run(*asked).stdout)["value"] == "a"
    toml.write_text(PROVIDER.replace("{name}", "{name}!"))
    again = run(*asked)
    assert json.loads(again.stdout)["value"] == "a!"
    assert "the provider's code has changed" in again.stderr
    told = json.loads(run("info", trace, "--json", "--provider", toml).stdout)
    assert (told["records"], told["entities"]) == (2, 1)
    stats = json.loads(run("stats", trace, "--json", "--provider", toml).stdout)
    assert [(row["key"], row["total_ns"]) for row in stats["rows"]] == [("a!", 2), ("b!", 1)]
    drawn = run("statemap", trace, "--provider", toml, "-o", tmp_path / "x.svg")
    assert drawn.exit_code == 0
    assert "2 records processed, 2 rectangles" in drawn.stderr
    dumped = run("dump", trace, "--kind", "intervals", "--provider", toml).stdout.splitlines()
    assert [json.loads(line)["value"] for line in dumped] == ["a!", "b!"]
    assert isinstance(run("dump", trace, "--provider", toml).exception, UsageError)
    built = run("build", trace, "--provider", toml, "-o", tmp_path / "x.mth")
    assert "1 attributes" in built.stdout
