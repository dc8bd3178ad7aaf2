"""Runs CPython's own tests of asyncio, unrecorded and recorded, and compares the results.

    python benchmarks/asyncio_tests.py [--tests FOLDER] [--jobs N] [MODULE...]

The tests are those of the running interpreter, or the package `test` in FOLDER where a distribution
has it apart, as Debian's libpython3.14-testsuite. Each module, such as `test_tasks`, runs in a
process of its own. A test whose result differs is run twice more in both ways: what does not differ
each time depends on the machine. Differences that docs/reference/asyncio-tests.md lists with a
reason are expected; the exit status is 1 if there are others.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LISTED = ROOT / "docs" / "reference" / "asyncio-tests.md"
TIMEOUT_S = 900
AGAIN = 2
# Runs the tests of a module, or some of them, and writes the result of each.
RUN = """
import json, sys, unittest

folder, output, *names = sys.argv[1:]
import test
if folder:
    # a part of the package may be in the standard library
    test.__path__.append(folder + "/test")
from test import support
# those that need the network or much time are skipped, as in `python -m test`
support.use_resources = {} if sys.version_info >= (3, 15) else []

class Result(unittest.TextTestResult):
    found = {}
    def note(self, test, outcome):
        # a part of a test that fails makes all of it fail
        self.found.setdefault(test.id().partition(" ")[0], outcome)
    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "passed")
    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.found[test.id().partition(" ")[0]] = "failed"
    addError = addFailure
    def addSubTest(self, test, part, error):
        super().addSubTest(test, part, error)
        if error is not None:
            self.found[test.id().partition(" ")[0]] = "failed"
    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped")
    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        self.note(test, "failed as expected")
    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, "passed unexpectedly")

suite = unittest.TestSuite()
for name in names:
    try:
        suite.addTest(unittest.defaultTestLoader.loadTestsFromName(name))
    except unittest.SkipTest:
        # of another system
        Result.found[name] = "skipped"
unittest.TextTestRunner(resultclass=Result, verbosity=0).run(suite)
with open(output, "w") as file:
    json.dump(Result.found, file)
"""


class Difference(NamedTuple):
    """A test whose result differs.

    Attributes:
        test: Its name below `test.test_asyncio`.
        without: Its result unrecorded.
        recorded: Its result recorded.
    """

    test: str
    without: str
    recorded: str


def results(folder: str, names: list[str], *, recorded: bool) -> dict[str, str]:
    """Return the results of tests, by their names."""
    with tempfile.TemporaryDirectory() as temporary:
        script, output = Path(temporary, "run.py"), Path(temporary, "results.json")
        script.write_text(RUN, encoding="utf-8")
        command = [sys.executable, str(script), folder, str(output)]
        command += [f"test.test_asyncio.{name}" for name in names]
        if recorded:
            record = [sys.executable, "-m", "meantime", "record", "-q", "--trace", "both"]
            command = [*record, "-o", f"{temporary}/run.mtr", "--", *command]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        try:
            subprocess.run(
                command,
                env=environment,
                cwd=temporary,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return dict.fromkeys(names, "did not end")
        if recorded and not list(Path(temporary, "run.mtr").glob("*.facts")):
            raise SystemExit("nothing was recorded: is the recorder compiled for this Python?")
        if not output.exists():
            return dict.fromkeys(names, "ended without a result")
        found: dict[str, str] = json.loads(output.read_text(encoding="utf-8"))
    return {name.removeprefix("test.test_asyncio."): outcome for name, outcome in found.items()}


def differing(without: dict[str, str], recorded: dict[str, str]) -> list[Difference]:
    """Return the tests whose results differ."""
    return [
        Difference(name, without.get(name, "absent"), recorded.get(name, "absent"))
        for name in sorted(without.keys() | recorded.keys())
        if without.get(name) != recorded.get(name)
    ]


def compare(folder: str, module: str) -> tuple[Counter[str], list[Difference]]:
    """Return how many tests of a module had which result unrecorded, and which differ each time."""
    without = results(folder, [module], recorded=False)
    found = differing(without, results(folder, [module], recorded=True))
    for _ in range(AGAIN if found else 0):
        names = [each.test for each in found]
        again = differing(
            results(folder, names, recorded=False), results(folder, names, recorded=True)
        )
        found = [each for each in again if each.test in names]
    return Counter(without.values()), found


def expected() -> dict[str, str]:
    """Return the tests of this version that are listed, with the reasons."""
    version = f"3.{sys.version_info[1]}"
    rows = re.findall(
        r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", LISTED.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {test: reason.strip() for test, versions, reason in rows if version in versions}


def modules_in(folder: str) -> list[str]:
    """Return the names of all modules of tests."""
    base = Path(folder) if folder else Path(os.__file__).parent
    return sorted(path.stem for path in (base / "test" / "test_asyncio").glob("test_*.py"))


def main() -> None:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tests", default="", metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("modules", nargs="*")
    given = parser.parse_args()
    folder = str(Path(given.tests).resolve()) if given.tests else ""
    modules = given.modules or modules_in(folder)
    if not modules:
        raise SystemExit("this Python comes without its tests: name their folder by --tests")
    total: Counter[str] = Counter()
    found: list[Difference] = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for counts, differences in pool.map(lambda module: compare(folder, module), modules):
            total.update(counts)
            found += differences
    listed = expected()
    print(f"Python {sys.version.split()[0]}: {sum(total.values()):,} tests, {dict(total)}")
    for each in found:
        reason = listed.get(each.test, "NOT LISTED")
        print(f"{each.test}: {each.without}, recorded {each.recorded}: {reason}")
    unlisted = [each for each in found if each.test not in listed]
    print(f"{len(found)} differ, {len(unlisted)} of them are not listed")
    sys.exit(bool(unlisted))


if __name__ == "__main__":
    main()
