"""The pytest plugin records tests, and asserts of their loops what it is asked to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import meantime

TESTS = """
import asyncio
import sys
import select, time

import pytest


async def worker(queue):
    await queue.get()


def test_plain():
    assert ("meantime.collect" in sys.modules) == RECORDED


def test_all_is_well(max_blocked, no_pending_tasks):
    max_blocked("10s")
    asyncio.run(asyncio.sleep(0.001))


def test_a_step_is_too_long(max_blocked):
    async def main():
        time.sleep(0.002); await asyncio.sleep(0)
        select.select([], [], [], 0.04)
        await asyncio.sleep(0)

    max_blocked("5ms")
    asyncio.run(main())


def test_a_step_of_the_block_is_too_long(max_blocked):
    async def main():
        select.select([], [], [], 0.04)
        with max_blocked("10s"):
            await asyncio.sleep(0)
        with max_blocked("5ms"):
            select.select([], [], [], 0.04)

    asyncio.run(main())


def test_a_callback_is_too_long(max_blocked):
    async def main():
        asyncio.get_running_loop().call_soon(select.select, [], [], [], 0.04)
        await asyncio.sleep(0)

    max_blocked("5ms")
    asyncio.run(main())


def test_a_task_is_left(no_pending_tasks):
    async def main():
        left = asyncio.create_task(worker(asyncio.Queue()), name="left one")
        await asyncio.sleep(0)

    asyncio.run(main())


def test_a_task_is_left_just_now(no_pending_tasks):
    async def main():
        task = asyncio.create_task(worker(asyncio.Queue()))
        await asyncio.sleep(0)
        with pytest.raises(pytest.fail.Exception, match="a task is still pending"):
            no_pending_tasks()
        task.cancel()
        await asyncio.wait([task])
        no_pending_tasks()

    asyncio.run(main())


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def server():
    serving = asyncio.create_task(asyncio.sleep(100))
    yield
    serving.cancel()


@pytest.mark.anyio
async def test_with_anyio(server, max_blocked, no_pending_tasks):
    max_blocked("10s")
    await asyncio.sleep(0.001)


@pytest.mark.anyio
async def test_a_task_is_left_with_anyio(server, no_pending_tasks):
    global left
    left = asyncio.create_task(worker(asyncio.Queue()))
    await asyncio.sleep(0)


BLOCKED = 'no Loops/* in "blocked" for over '


@pytest.mark.meantime_rules(BLOCKED + "10 s", 'longest of "running" on Loops/* below 10 s')
def test_rules_hold():
    asyncio.run(asyncio.sleep(0.001))


@pytest.mark.meantime_rules(BLOCKED + "5 ms")
def test_a_rule_is_broken():
    async def main():
        select.select([], [], [], 0.04)

    asyncio.run(main())


def test_a_rule_is_broken_from_a_call_on(meantime_rules):
    async def main():
        select.select([], [], [], 0.04); await asyncio.sleep(0)
        meantime_rules('no Tasks/* in "running" for over 5 ms of wall time')
        await asyncio.sleep(0)
        select.select([], [], [], 0.04)
        await asyncio.sleep(0)

    asyncio.run(main())


@pytest.mark.meantime_rules("be fast")
def test_a_sentence_is_not_a_rule():
    pass


@pytest.mark.meantime_rules('p99 of "nothing" below 1 s')
def test_a_rule_is_about_nothing():
    asyncio.run(asyncio.sleep(0))
"""
# Patterns: a step is named by its stack if it takes 50 ms, as it may on a machine with much to do.
# After a step of 2 ms, what the next one waits for a processor is known by itself. They block in
# `select`, since `time.sleep` ends at a time that it takes before it may wait for a processor.
FAIL = {
    "test_a_step_is_too_long": r"by test_a_step_is_too_long\.<locals>\.main \(test_app\.py:"
    r"(28\), between test_app\.py:23 and test_app\.py:25|24\))",
    "test_a_step_of_the_block_is_too_long": r"main \(test_app\.py:"
    r"(39\), after test_app\.py:35|3[67]\))",
    "test_a_callback_is_too_long": "by select",
    "test_a_rule_is_broken": r"a rule is broken: no Loops/\* in \"blocked\" for over 5 ms: the"
    r" longest is [\d.]+ms",
    "test_a_rule_is_broken_from_a_call_on": r"a rule is broken: no Tasks/\* in \"running\" for over"
    r" 5 ms of wall time: the longest",
    "test_a_sentence_is_not_a_rule": "'be fast' is not a rule",
    "test_a_rule_is_about_nothing": "matches nothing",
    "test_a_task_is_left": r"left one, worker \(test_app\.py:53\), waits at test_app\.py:9",
    "test_a_task_is_left_with_anyio": r"worker \(test_app\.py:93\), waits at test_app\.py:9",
}
PASS = {
    "test_plain",
    "test_all_is_well",
    "test_rules_hold",
    "test_a_task_is_left_just_now",
    "test_with_anyio",
}


def _pytest(folder: Path, *words: str, recorded: bool = False, before: tuple[str, ...] = ()) -> str:
    (folder / "test_app.py").write_text(TESTS.replace("RECORDED", str(recorded)).lstrip())
    command = [sys.executable, "-m", "pytest", "-rA", *words]
    for plugin in ("meantime.plugins.pytest_plugin", "anyio.pytest_plugin"):
        command += ["-p", plugin]
    done = subprocess.run(
        [*before, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ
        | {
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(Path(meantime.__file__).parents[1]),
        },
    )
    return done.stdout + done.stderr


def _outcomes(output: str, word: str) -> set[str]:
    return set(re.findall(rf"^{word} test_app.py::(\w+)", output, re.MULTILINE))


def test_a_test_that_uses_a_fixture_is_checked(tmp_path: Path) -> None:
    output = _pytest(tmp_path)

    assert _outcomes(output, "PASSED") == PASS, output
    assert _outcomes(output, "FAILED") == set(FAIL), output
    for message in FAIL.values():
        assert re.search(message, output), output
    assert "run with --meantime DIR to keep the recording" in output


def test_each_test_has_its_recording(tmp_path: Path) -> None:
    for _ in range(2):
        output = _pytest(tmp_path, "--meantime", "rec", recorded=True)

    names = {path.name for path in (tmp_path / "rec").iterdir()}
    history = meantime.open(tmp_path / "rec" / "test_app.py-test_all_is_well.mtr")
    assert _outcomes(output, "PASSED") == PASS, output
    assert names == {f"test_app.py-{name}.mtr" for name in PASS | FAIL.keys()}
    assert len(history.quarks("Tasks/*/*")) > 0
    assert "recorded; see meantime statemap rec/test_app.py-test_a_task_is_left.mtr" in output
    assert "recording each test into rec" in output
    assert f"meantime: {len(names)} recordings in rec; see meantime view rec/" in output
    plain = meantime.open(tmp_path / "rec" / "test_app.py-test_plain.mtr")
    (test,) = plain.quarks("Tests/*/*").tolist()
    states = [plain.intervals([test])[row].value for row in range(6)]
    assert plain.attributes.path(test) == ("Tests", "test_app.py", "test_plain")
    assert states == [None, "setup", "call", "teardown", "passed", None]


def test_a_worker_of_xdist_has_one_recording(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "test_odd.py").write_text(
        "import pytest\n@pytest.mark.parametrize('x', ['[a]', '$(b)', 'c d'])\ndef test(x): ..."
    )
    words = ("-p", "xdist.plugin", "-n", "1", "--meantime", "rec", "test_odd.py")

    output = _pytest(tmp_path, *words)

    (path,) = (tmp_path / "rec").iterdir()
    assert path.name == "gw0.mtr"
    assert "meantime: 1 recording in rec; see meantime view rec/gw0.mtr" in output
    history = meantime.open(path)
    tests = [history.attributes.path(quark)[2] for quark in history.quarks("Tests/*/*").tolist()]
    assert tests == ["test[[a]]", "test[$(b)]", "test[c d]"]
    # without xdist, their names are those of files, which a shell takes as they are
    _pytest(tmp_path, "--meantime", "plain", "test_odd.py")
    names = [path.stem for path in (tmp_path / "plain").iterdir()]
    assert sorted(names) == ["test_odd.py-test-a", "test_odd.py-test-b", "test_odd.py-test-c-d"]


def test_a_run_that_is_recorded_as_a_whole_is_asserted_test_by_test(tmp_path: Path) -> None:
    record = (sys.executable, "-m", "meantime", "record", "-q", "-o", "all.mtr", "--")

    output = _pytest(tmp_path, recorded=True, before=record)

    assert _outcomes(output, "PASSED") == PASS, output
    assert _outcomes(output, "FAILED") == set(FAIL), output


def test_without_a_recorder_only_tests_that_use_a_fixture_are_skipped(
    tmp_path: Path,
) -> None:
    (tmp_path / "conftest.py").write_text("import sys\nsys.platform = 'other'\n")

    output = _pytest(tmp_path)

    assert _outcomes(output, "PASSED") == {"test_plain"}
    assert "recording is not possible on other yet: it needs Linux" in output
    assert f"{len(PASS | FAIL.keys()) - 1} skipped" in output


def test_the_example_runs(tmp_path: Path, root: Path) -> None:
    output = _pytest(tmp_path, str(root / "examples" / "test_shop.py"))

    assert "1 passed" in output


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    output = _pytest(tmp_path, "--meantime", "file/rec")

    assert "--meantime file/rec: Not a directory" in output
    assert "Traceback" not in output


def test_pytest_finds_the_plugin(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    (module,) = project["entry-points"]["pytest11"].values()

    assert callable(import_module(module).pytest_addoption)


@pytest.mark.parametrize("name", ["numpy", "asyncio", "meantime.collect"])
def test_the_plugin_imports_nothing_that_is_not_used(name: str) -> None:
    # pytest itself may load some of them: what counts is what the plugin adds
    code = (
        "import pytest, sys; before = set(sys.modules); import meantime.plugins.pytest_plugin; "
        f"print({name!r} in set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path(meantime.__file__).parents[1])},
    )

    assert done.stdout == "False\n"
