"""The built page scripts are those of the sources in web/."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from meantime.model.state_classes import CLASSES

if TYPE_CHECKING:
    from pathlib import Path

STATIC = files("meantime.views") / "static"
PLAIN = (
    "../src/meantime/views/static/thresholds.bin",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "build.mjs",
)
MEND = "run `npm ci && npm run build` in web/ and commit what it writes"


def noted() -> dict[str, str]:
    lines = (STATIC / "built.sha256").read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def test_the_scripts_were_built_from_these_sources(root: Path) -> None:
    web = root / "web"
    if not web.is_dir():
        pytest.skip("the sources of the page scripts are not here")
    names = [*PLAIN]
    for folder in ("shared", "svg-script", "viewer"):
        names += (
            path.relative_to(web).as_posix()
            for path in (web / folder).rglob("*")
            if path.suffix in {".ts", ".css", ".html"}
        )
    digest = sha256()
    for name in sorted(names):
        text = (web / name).read_bytes()
        digest.update(f"{name}\n{len(text)}\n".encode() + text)

    assert noted()["sources"] == digest.hexdigest(), MEND


def test_pages_contain_no_packages_of_others(root: Path) -> None:
    web = root / "web"
    if not web.is_dir():
        pytest.skip("the sources of the page scripts are not here")
    imported = {
        name
        for path in web.rglob("*.ts")
        if "node_modules" not in path.parts
        for name in re.findall(r'(?:from|^import) "([^"]+)";$', path.read_text(), re.MULTILINE)
    }

    assert imported
    assert [
        name for name in imported if not name.startswith("./") and not name.startswith("../")
    ] == []
    assert "dependencies" not in json.loads((web / "package.json").read_text())


def test_the_classes_of_states_have_the_same_colours_everywhere(root: Path) -> None:
    source = root / "web" / "shared" / "state-classes.ts"
    if not source.is_file():
        pytest.skip("the sources of the page scripts are not here")
    pattern = r'^  "?([a-z/]+)"?: \["(#[0-9a-f]{6})", "(#[0-9a-f]{6})"\],$'

    assert re.findall(pattern, source.read_text(), re.MULTILINE) == [
        (each.name, each.light, each.dark) for each in CLASSES
    ]


def test_no_script_was_changed_by_hand() -> None:
    for name, digest in noted().items():
        if name != "sources":
            assert sha256((STATIC / name).read_bytes()).hexdigest() == digest, f"{name}: {MEND}"


def test_a_script_can_be_in_a_separate_file() -> None:
    for name in noted():
        if name.endswith(".js"):
            script = (STATIC / name).read_bytes()

            assert b"]]>" not in script
            assert not {b"import ", b"import("} & {line[:7] for line in script.splitlines()}
