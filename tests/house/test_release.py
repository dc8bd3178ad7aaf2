"""The bill of materials of a release, and what its builds are made with."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def bill() -> dict[str, Any]:
    printed = subprocess.run(
        [sys.executable, ROOT / "release/write_sbom.py"], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(printed.stdout)
    return found


def test_a_bill_has_what_is_installed_and_what_compiles() -> None:
    components = bill()["components"]
    required = {each["name"] for each in components if each["scope"] == "required"}
    excluded = [each for each in components if each["scope"] == "excluded"]

    assert required == {Requirement(each).name for each in PROJECT["project"]["dependencies"]}
    assert {"cython", "setuptools", "typescript", "vite"} <= {each["name"] for each in excluded}
    assert all(each["version"] and each["hashes"] for each in excluded)
    assert all(each["licenses"] for each in excluded if each["purl"].startswith("pkg:npm/"))
    assert len({each["bom-ref"] for each in components}) == len(components)


def test_builds_are_made_with_pinned_versions_that_the_project_accepts() -> None:
    text = (ROOT / "release/build-requirements.txt").read_text()
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))

    for each in map(Requirement, PROJECT["build-system"]["requires"]):
        assert each.specifier.contains(pinned[each.name.lower()])


BUILD = """
import os, pathlib, runpy, sys
os.umask(int(sys.argv[1], 8))
sys.argv[:] = ["setup.py", "-q", "bdist_wheel"]
runpy.run_path("setup.py", run_name="__main__")
"""


def test_a_wheel_is_the_same_wherever_and_whenever_it_is_built(tmp_path: Path) -> None:
    wheels: list[Path] = []
    places = (
        ("first", "022", "UTC", "C", 0),
        ("another/second", "077", "Asia/Kathmandu", "C.UTF-8", 9),
    )
    for folder, mask, zone, language, age_days in places:
        copy = tmp_path / folder
        copy.mkdir(parents=True)
        for name in ("setup.py", "stubs.py", "pyproject.toml", "README.md", "LICENSE", "src"):
            ignored = shutil.ignore_patterns("*.so", "*.pyc", "__pycache__", "*.egg-info")
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, copy / name, ignore=ignored)
            else:
                shutil.copy2(ROOT / name, copy / name)
        for path in copy.rglob("*"):
            path.chmod(0o777 & ~int(mask, 8) if path.is_dir() else 0o666 & ~int(mask, 8))
            os.utime(path, (10**9 + age_days * 86400,) * 2)
            # all others are compiled in the same way
            if path.suffix == ".pyx" and path.stem != "record_kinds":
                path.unlink()
        subprocess.run(
            [sys.executable, "-c", BUILD, mask],
            cwd=copy,
            env={**os.environ, "TZ": zone, "LC_ALL": language, "SOURCE_DATE_EPOCH": "1760000000"},
            check=True,
            capture_output=True,
        )
        wheels += (copy / "dist").glob("*.whl")

    first, second = wheels
    assert first.name == second.name
    contents = []
    for wheel in wheels:
        with ZipFile(wheel) as file:
            contents.append(
                {each.filename: (each.CRC, each.external_attr) for each in file.infolist()}
            )
    assert contents[0] == contents[1]
    assert first.read_bytes() == second.read_bytes()
    assert any(name.endswith(".so") for name in contents[0])
