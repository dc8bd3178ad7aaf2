"""Print the bill of materials of a release, as CycloneDX: `python release/write_sbom.py`.

It has what is installed beside meantime, and what compiles the core and the scripts of pages, which
is in no file of the release: its scope is `excluded`.
"""

import base64
import json
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINNED = re.compile(r"^([\w.-]+)==([\w.]+)")
NAME = re.compile(r"[\w.-]+")


def component(name: str, kind: str, scope: str, **facts: object) -> dict[str, object]:
    """Return a component; `kind` is the type of its package URL."""
    version = facts.get("version")
    purl = f"pkg:{kind}/{name.replace('@', '%40')}{f'@{version}' if version else ''}"
    described = {"type": "library", "bom-ref": purl, "name": name, "purl": purl, "scope": scope}
    return described | {key: value for key, value in facts.items() if value}


def installed(project: dict[str, list[str]]) -> list[dict[str, object]]:
    """Return what `pip` installs with meantime; it chooses the versions."""
    return [
        component(NAME.match(each)[0].lower(), "pypi", "required", description=each)
        for each in project["dependencies"]
    ]


def compilers_of_the_core() -> list[dict[str, object]]:
    """Return what is pinned for the build of wheels."""
    found = []
    for line in (ROOT / "release/build-requirements.txt").read_text().splitlines():
        if pinned := PINNED.match(line):
            found.append(component(pinned[1], "pypi", "excluded", version=pinned[2], hashes=[]))
        elif "--hash=sha256:" in line:
            digest = line.partition("sha256:")[2].strip(" \\")
            found[-1].setdefault("hashes", []).append({"alg": "SHA-256", "content": digest})
    return found


def compilers_of_the_scripts() -> list[dict[str, object]]:
    """Return what is locked for the build of the scripts."""
    lock = json.loads((ROOT / "web/package-lock.json").read_text())
    found = []
    for path, package in lock["packages"].items():
        if not path:
            continue
        if not package.get("dev"):
            raise SystemExit(f"{path} is not only for development: pages would contain it")
        digest = base64.b64decode(package["integrity"].removeprefix("sha512-")).hex()
        found.append(
            component(
                path.rpartition("node_modules/")[2], "npm", "excluded", version=package["version"],
                hashes=[{"alg": "SHA-512", "content": digest}],
                licenses=[{"expression": package["license"]}],
            )
        )  # fmt: skip
    return found


def bill() -> dict[str, object]:
    """Return the whole bill, the same for the same sources."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "src/meantime/__init__.py").read_text()
    version = re.search(r'__version__ = "(.+)"', text)[1]
    licence = [{"expression": project["license"]}]
    itself = component("meantime", "pypi", "required", version=version, licenses=licence)
    parts = [*installed(project), *compilers_of_the_core(), *compilers_of_the_scripts()]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": itself},
        "components": sorted(parts, key=lambda part: str(part["bom-ref"])),
    }


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=1)
    sys.stdout.write("\n")
