"""`%%statemap` records a cell and shows what it did. Most of this needs IPython."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.collect import session
from meantime.plugins import jupyter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPAWN = """
import asyncio
async def worker():
    await asyncio.sleep(0.001)
tasks = [asyncio.create_task(worker()) for _ in range(3)]
await asyncio.gather(*tasks)
len(tasks)
"""


class _Notebook:
    """IPython, and what its cells showed."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.shown: list[Any] = []

    def run(self, cell: str) -> Any:
        return self._shell.run_cell(cell, store_history=False)

    def display(self, *things: object) -> None:
        self.shown += things


@pytest.fixture
def notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[_Notebook]:
    request.getfixturevalue("no_running_loop")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    interactive = pytest.importorskip("IPython.core.interactiveshell", exc_type=ImportError)
    display = pytest.importorskip("IPython.display", exc_type=ImportError)
    shell = interactive.InteractiveShell.instance()
    made = _Notebook(shell)
    monkeypatch.setattr(display, "display", made.display)
    monkeypatch.chdir(tmp_path)
    shell.run_cell("%load_ext meantime")
    yield made
    shell.run_cell("%unload_ext meantime")
    interactive.InteractiveShell.clear_instance()


@pytest.mark.parametrize(
    ("first", "becomes"),
    [
        ("%%statemap\n", "get_ipython().run_line_magic('_statemap_begin', '')\n"),
        ("%%statemap -o a.mtr\n", "get_ipython().run_line_magic('_statemap_begin', '-o a.mtr')\n"),
        ("%%statemaps\n", "%%statemaps\n"),
        ("1 + 1\n", "1 + 1\n"),
    ],
)
def test_only_the_first_line_of_a_cell_changes(first: str, becomes: str) -> None:
    assert jupyter._transform([first, "await x()\n"]) == [becomes, "await x()\n"]
    assert jupyter._transform([]) == []


def test_a_cell_runs_as_any_other_and_shows_what_it_did(notebook: _Notebook) -> None:
    result = notebook.run("%%statemap" + SPAWN)

    (view,) = notebook.shown
    names = [name for panel in view.data.panels for name in panel.entities]
    assert result.result == 3
    assert sum("worker" in name for name in names) == 3
    assert any(name.startswith("Loops/") for name in names)
    assert session.recording_path() is None


def test_the_magic_can_be_called(notebook: _Notebook) -> None:
    notebook.run(f"get_ipython().run_cell_magic('statemap', '', {SPAWN!r})")

    assert len(notebook.shown) == 1


def test_the_recording_can_be_kept(notebook: _Notebook, tmp_path: Path) -> None:
    notebook.run("%%statemap -o kept.mtr" + SPAWN)

    assert len(meantime.open(tmp_path / "kept.mtr").quarks("Tasks/*/*")) >= 3


def test_a_cell_that_fails_is_shown_too(notebook: _Notebook) -> None:
    result = notebook.run("%%statemap" + SPAWN + "1 / 0")

    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert len(notebook.shown) == 1
    assert session.recording_path() is None


@pytest.mark.in_child_process
def test_a_cell_without_tasks_is_reported(
    notebook: _Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.run("%%statemap\n1 + 1")

    assert "ran no task" in capsys.readouterr().out
    assert notebook.shown == []


@pytest.mark.parametrize("arguments", ["-x", "-o", "name.mtr"])
def test_wrong_arguments_are_reported_and_the_cell_does_not_run(
    notebook: _Notebook, capsys: pytest.CaptureFixture[str], arguments: str
) -> None:
    notebook.run(f"%%statemap {arguments}\nprint('ran')")

    output = capsys.readouterr()
    assert "UsageError: %%statemap [-o NAME.mtr]" in output.out + output.err
    assert "ran\n" not in output.out


def test_an_existing_name_is_reported(
    notebook: _Notebook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kept.mtr").mkdir()

    notebook.run("%%statemap -o kept.mtr\nprint('ran')")

    output = capsys.readouterr()
    assert "kept.mtr: exists already" in output.out + output.err
    assert "ran\n" not in output.out


def test_nothing_is_left_when_it_is_unloaded(notebook: _Notebook) -> None:
    notebook.run("%unload_ext meantime")

    result = notebook.run("get_ipython().run_cell_magic('statemap', '', '1')")

    assert "not found" in str(result.error_in_exec)
    notebook.run("%load_ext meantime")
