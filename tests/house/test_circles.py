"""No module needs itself by way of others, not even for types."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def imports(source: Path) -> dict[str, set[str]]:
    """Return the modules below a directory, and those that each imports anywhere in its text."""
    modules = {}
    for path in source.rglob("*.py"):
        name = ".".join(path.relative_to(source).with_suffix("").parts)
        modules[name.removesuffix(".__init__")] = path
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        imported = graph[name] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names} & modules.keys()
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    imported |= {full if full in modules else node.module} & modules.keys()
    return graph


def test_no_module_imports_itself_through_others(root: Path) -> None:
    graph = imports(root / "src")
    try:
        TopologicalSorter(graph).prepare()
        circle = []
    except CycleError as error:
        circle = error.args[1]

    assert circle == []


def test_imports_for_types_and_inside_functions_count(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "__init__.py").write_text("import a.b\n")
    (tmp_path / "a" / "b.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import c\n"
    )
    (tmp_path / "a" / "c.py").write_text("def f():\n    from a.b import name\n")

    assert imports(tmp_path) == {"a": {"a.b"}, "a.b": {"a.c"}, "a.c": {"a.b"}}
