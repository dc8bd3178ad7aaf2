"""The compiled core; all else is in pyproject.toml."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SOURCE = Path("src")


def extension(path: Path) -> Extension:
    return Extension(
        ".".join(path.relative_to(SOURCE).with_suffix("").parts),
        [str(path)],
        extra_compile_args=["-O3"],
        depends=[str(header) for header in path.parent.glob("*.h")],
    )


setup(
    ext_modules=cythonize(
        [extension(path) for path in sorted(SOURCE.rglob("*.pyx"))],
        language_level=3,
        compiler_directives={
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "embedsignature": True,
        },
    )
)
