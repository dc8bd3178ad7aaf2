"""The bill of materials of a release, and what its builds are made with."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

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
