"""The compiled core; all else is in pyproject.toml."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SOURCE = Path("src")
PROCESSORS = os.cpu_count() or 1


def extension(path: Path) -> Extension:
    return Extension(
        ".".join(path.relative_to(SOURCE).with_suffix("").parts),
        [str(path)],
        extra_compile_args=["-O3", "-g0"],
        depends=[str(header) for header in path.parent.glob("*.h")],
    )


setup(
    ext_modules=cythonize(
        [extension(path) for path in sorted(SOURCE.rglob("*.pyx"))],
        nthreads=PROCESSORS,
        language_level=3,
        compiler_directives={
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "embedsignature": True,
        },
    ),
    options={"build_ext": {"parallel": PROCESSORS}},
)
