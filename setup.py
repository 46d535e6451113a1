"""Builds what is compiled where a compiler is there; without one the install goes on.

setuptools hands sources in Cython to Cython itself. An extension that is ``optional`` and cannot
be compiled is left out with a warning; ``cythonize()`` would drop that word.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

# Symbols of a debugger are three quarters of each library: there for whoever asks for them.
_FLAGS = os.environ.get("CFLAGS", "").split()
_DEBUG = "-g" in _FLAGS
_SPEED = [] if any(flag.startswith("-O") for flag in _FLAGS) else ["-O3"]
_BARE = sys.platform == "linux" and not _DEBUG
_OPTIONS = {
    "extra_compile_args": [*_SPEED, *(["-g0"] if _BARE else [])],
    "extra_link_args": ["-Wl,--strip-all"] if _BARE else [],
    "optional": True,
}
SCANNER = Extension(
    "ccltui.parsers.kineto.scanner._scanner",
    ["ccltui/parsers/kineto/scanner/_scanner.pyx"],
    depends=[
        "ccltui/parsers/kineto/scanner/_lexer.pxd",
        *map(str, Path("ccltui/parsers/kineto/scanner").glob("*.pxi")),
    ],
    **_OPTIONS,
)
TABLES = Extension(
    "ccltui.parsers.nsys.sqlite._btree",
    ["ccltui/parsers/nsys/sqlite/_btree.pyx"],
    depends=[*map(str, Path("ccltui/parsers/nsys/sqlite").glob("*.pxi"))],
    **_OPTIONS,
)
INTERVALS = Extension(
    "ccltui.metrics.arrays._intervals", ["ccltui/metrics/arrays/_intervals.pyx"], **_OPTIONS
)
PASSES = Extension(
    "ccltui.metrics.arrays._passes", ["ccltui/metrics/arrays/_passes.pyx"], **_OPTIONS
)
CUT_FILES = Extension(
    "ccltui.parsers.store._cut_files", ["ccltui/parsers/store/_cut_files.pyx"], **_OPTIONS
)
LINES = Extension(
    "ccltui.parsers.inspector._line_scanner",
    ["ccltui/parsers/inspector/_line_scanner.pyx"],
    **_OPTIONS,
)
PACKETS = Extension(
    "ccltui.parsers.pftrace._packet_scanner",
    ["ccltui/parsers/pftrace/_packet_scanner.pyx"],
    **_OPTIONS,
)

setup(ext_modules=[SCANNER, TABLES, INTERVALS, PASSES, CUT_FILES, LINES, PACKETS])
