"""Builds what is compiled where a compiler is there; without one the install goes on."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

_OPTIONS = {"extra_compile_args": ["-O3"], "optional": True}
SCANNER = Extension(
    "parsers.kineto._scanner",
    ["parsers/kineto/_scanner.pyx"],
    depends=["parsers/kineto/_lexer.pxd", *map(str, Path("parsers/kineto").glob("*.pxi"))],
    **_OPTIONS,
)
TABLES = Extension(
    "parsers.nsys._btree",
    ["parsers/nsys/_btree.pyx"],
    depends=[*map(str, Path("parsers/nsys").glob("*.pxi"))],
    **_OPTIONS,
)
INTERVALS = Extension("metrics._intervals", ["metrics/_intervals.pyx"], **_OPTIONS)
PASSES = Extension("metrics.collectives._passes", ["metrics/collectives/_passes.pyx"], **_OPTIONS)

setup(ext_modules=cythonize([SCANNER, TABLES, INTERVALS, PASSES]))
