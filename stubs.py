"""Writes the stub of each kernel, NAME.pyi, for type checkers: setup.py does so before it builds.

Types are those of C. An annotation in a kernel has what these do not say, such as the type of a
result, and a comment that begins with `#:` has it for the `cdef` attributes of a line.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

DOCSTRING = re.compile(r'"""(?:[^\\]|\\.)*?"""', re.DOTALL)
LITERAL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
COMMENT = re.compile(r"\s*(?:#(?!:).*)?$")
TYPE = re.compile(r"(?:(?:cdef )?class|cpdef (enum)) (\w+)(?:\((.*)\))?:$")
ENUMERATION = re.compile(r"(\w+) = IntEnum\((.*)\)$")
FUNCTION = re.compile(r"( {0,4})def (\w+)\((.*)\)(?: -> (.+))?:$")
ATTRIBUTES = re.compile(r" {4}cdef (?:public|readonly) (\w+) ([\w, ]+?)(?: +#: (.+))?$")
MEMBERS = re.compile(r" {4}(\w+(?:, \w+)*)(: [^=]+)?(?: = .*)?$")
CONSTANTS = re.compile(r"([A-Z][A-Z0-9_]*(?:, [A-Z][A-Z0-9_]*)*)(?:: (.+?))? = (.*)$")
NUMBERS = re.compile(r"(?:<int> ?)?[\w, ()*-]+$")
INTEGER = re.compile(r"u?int(?:\d+_t)?|Py_ssize_t|size_t|long|short|char|unsigned \w+")
PYTHON = {"bint": "bool", "double": "float", "float": "float", "object": "Any", "": "Any"}
ITEMS = {"double": "float64", "float": "float32", "Py_ssize_t": "intp", "char": "int8"}
IMPORTS = {
    "Any": "typing",
    "Buffer": "typing_extensions",
    "Callable": "collections.abc",
    "Event": "meantime.model.events",
    "Int32s": "meantime.model.columns",
    "Int64s": "meantime.model.columns",
    "IntEnum": "enum",
    "IntervalFilter": "meantime.history.interval_filter",
    "Iterable": "collections.abc",
    "NamedTuple": "typing",
    "Question": "meantime.history.source",
    "Self": "typing",
    "Sequence": "collections.abc",
    "TypeVar": "typing",
    "Value": "meantime.model.columns",
}
# An array of any items, and another one of the same.
ITEM = '_T = TypeVar("_T", bound=np.generic[Any])'


def without_literals(line: str) -> str:
    """Return a line with as many other characters in place of its strings."""
    return LITERAL.sub(lambda found: "_" * len(found[0]), line)


def statements(source: str) -> Iterator[str]:
    """Yield the statements of a kernel, each as one line, without comments that are not types."""
    lines = iter(DOCSTRING.sub("", source).splitlines())
    for first in lines:
        line, statement, depth = first, "", 0
        while True:
            code = COMMENT.sub("", without_literals(line))
            depth += sum(map(code.count, "([{")) - sum(map(code.count, ")]}"))
            part = line[: len(code)]
            statement = f"{statement} {part.strip()}" if statement else part
            if depth <= 0:
                break
            line = next(lines)
        yield statement


def divided(text: str, mark: str) -> list[str]:
    """Return the parts of a text between marks that no brackets are around."""
    parts, depth = [""], 0
    for character, code in zip(text, without_literals(text), strict=True):
        depth += (code in "([{") - (code in ")]}")
        if code == mark and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def python_type(declared: str) -> str:
    """Return the Python type of what has a type of C."""
    declared = declared.removeprefix("const ")
    item, _, dimensions = declared.partition("[")
    if ":" not in dimensions:
        return "int" if INTEGER.fullmatch(declared) else PYTHON.get(declared, declared)
    item = ITEMS.get(item, item.removesuffix("_t"))
    if "," not in dimensions and item in {"int32", "int64"}:
        return f"Int{item[3:]}s"
    return f"npt.NDArray[np.{item}]"


def parameter(declared: str) -> str:
    """Return a parameter with its Python type."""
    declared, *default = divided(declared, "=")
    declared, *annotation = divided(declared, ":")
    if declared in {"self", "*", "/"}:
        return declared
    name = re.search(r"\**\w*$", declared := declared.removesuffix(" not None"))[0]  # type: ignore[index] # it matches
    c_type = declared.removesuffix(name)
    found = annotation[0] if annotation else python_type(c_type.strip())
    if default and re.search(r"[A-Z_]{2}", default[0]):
        default = ["..."]  # a name of the kernel's own
    return f"{name}: {found}" + (f" = {default[0]}" if default else "")


class Stub:
    """The stub of a kernel, made of its statements and of those of its `.pxd`."""

    def __init__(self, declared: Iterable[str], defined: Iterable[str]) -> None:
        # By class, its bases and its members; functions and constants are those of "".
        self.members: dict[str, list[str]] = {"": []}
        self.bases: dict[str, str] = {}
        self._owner: str | None = ""
        self._decorator = ""
        for statement in (*declared, *defined):
            self._add(statement)

    def _add(self, statement: str) -> None:
        if not statement.strip():
            return
        if statement[0] not in " @":
            self._owner = ""
        if found := TYPE.match(statement):
            self._begin(found[2], "IntEnum" if found[1] else found[3] or "")
        elif found := ENUMERATION.match(statement):
            self._begin(found[1], "IntEnum")
            self._put(*(f"{name} = ..." for name in re.findall(r'"(\w+)":', found[2])))
        elif found := FUNCTION.match(statement):
            self._put_function(*found.groups(default=""))
        elif found := CONSTANTS.match(statement):
            kind = found[2] or ("np.dtype[np.void]" if found[3].startswith("np.dtype(") else "")
            kind = kind or ("int" if NUMBERS.match(found[3]) else "")
            self._put(*(f"{name}: {kind}" for name in found[1].split(", ") if kind))
        elif found := ATTRIBUTES.match(statement):
            kind = found[3] or python_type(found[1])
            self._put(*(f"{name}: {kind}" for name in found[2].split(", ")))
        elif self.bases.get(self._owner or "") and (found := MEMBERS.match(statement)):
            names = found[1].split(", ")
            self._put(*(f"{name}{found[2] or ' = ...'}" for name in names))
        self._decorator = statement if statement.lstrip().startswith("@") else ""

    def _begin(self, name: str, bases: str) -> None:
        self._owner = None if name.startswith("_") else name
        if self._owner:
            self.members.setdefault(name, [])
            self.bases[name] = bases

    def _put(self, *members: str) -> None:
        if self._owner is not None:
            self.members[self._owner] += members

    def _put_function(self, indent: str, name: str, parameters: str, result: str) -> None:
        if not indent:
            self._owner = ""
        if name == "__getbuffer__":
            self._put("def __buffer__(self, flags: int, /) -> memoryview: ...")
        elif name == "__dealloc__" or (name.startswith("_") and not name.startswith("__")):
            return
        else:
            # what is allocated first takes the same arguments
            name = "__init__" if name == "__cinit__" else name
            shown = ", ".join(parameter(each) for each in divided(parameters, ",") if each)
            lines = [f"def {name}({shown}) -> {result or None}: ..."]
            if re.search(r"@(property|staticmethod|classmethod|\w+\.setter)$", self._decorator):
                lines.insert(0, self._decorator.strip())
            elif name == "__init__" and self._owner:
                own = self.members[self._owner]
                own[:] = [line for line in own if not line.startswith("def __init__(")]
            self._put(*lines)

    def text(self, known: dict[str, str]) -> str:
        """Return the stub; `known` has by name of a type where it is imported from."""
        lines = [*self.members[""]]
        for name, bases in self.bases.items():
            lines.append(f"class {name}({bases}):" if bases else f"class {name}:")
            lines += [f"    {line}" for line in self.members[name] or ["..."]]
        body = "\n".join([*([ITEM] if "[_T]" in "".join(lines) else []), *lines, ""])
        head = [f"import {each}" for each in ("numpy as np", "numpy.typing as npt")]
        head += [
            f"from {module} import {name}"
            for module, name in sorted(zip(known.values(), known, strict=True))
            if name not in self.bases and re.search(rf"\b{name}\b", body)
        ]
        return "\n".join([*head, "", body])


def write_stubs(folder: Path) -> None:
    """Write the stubs of all kernels in a folder, if they are not there as they should be."""
    stubs = {}
    for path in sorted(folder.glob("*.pyx")):
        files = [each for each in (path.with_suffix(".pxd"), path) if each.exists()]
        *declared, defined = ([*statements(each.read_text(encoding="utf-8"))] for each in files)
        stubs[path.stem] = Stub([line for each in declared for line in each], defined)
    known = {name: f"meantime.kernels.{kernel}" for kernel in stubs for name in stubs[kernel].bases}
    for path in folder.glob("*.pyi"):
        if path.stem not in stubs:
            path.unlink()
    for kernel, stub in stubs.items():
        path, text = folder / f"{kernel}.pyi", stub.text(known | IMPORTS)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
