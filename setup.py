"""Builds the compiled scanner where a compiler is there; without one the install goes on."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SCANNER = Extension(
    "parsers.kineto._scanner",
    ["parsers/kineto/_scanner.pyx"],
    depends=["parsers/kineto/_lexer.pxd", *map(str, Path("parsers/kineto").glob("*.pxi"))],
    extra_compile_args=["-O3"],
    optional=True,
)

setup(ext_modules=cythonize([SCANNER]))
