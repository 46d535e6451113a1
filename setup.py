"""Builds what is compiled where a compiler is there; without one the install goes on.

setuptools hands sources in Cython to Cython itself. An extension that is ``optional`` and cannot
be compiled is left out with a warning; ``cythonize()`` would drop that word.

``CCLTUI_WHEEL`` chooses what a wheel of a release is built for: ``abi3`` for every Python from 3.11
on, which costs time in the largest loops (docs/install.md), ``pure`` without compiled modules for
every machine, ``require`` for this Python alone with every module. In the first and the last a
module that cannot be compiled is an error. Without it the wheel is for this Python.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# Symbols of a debugger are three quarters of each library: there for whoever asks for them.
_FLAGS = os.environ.get("CFLAGS", "").split()
_DEBUG = "-g" in _FLAGS
_SPEED = [] if any(flag.startswith("-O") for flag in _FLAGS) else ["-O3"]
_BARE = sys.platform == "linux" and not _DEBUG
_WHEEL = os.environ.get("CCLTUI_WHEEL", "")
if _WHEEL not in ("", "abi3", "pure", "require"):
    sys.exit(f"setup.py: CCLTUI_WHEEL={_WHEEL} is none of abi3, pure and require")
_ABI3 = _WHEEL == "abi3"
# A function that the limited API lacks would be looked up when it is called, and end the process.
_STRICT = ["-Werror=implicit-function-declaration"] if _ABI3 else []
_OPTIONS = {
    "extra_compile_args": [*_SPEED, *_STRICT, *(["-g0"] if _BARE else [])],
    "extra_link_args": ["-Wl,--strip-all"] if _BARE else [],
    "optional": _WHEEL == "",
    "py_limited_api": _ABI3,
    # Python 3.11 is the first whose limited API has the buffers that every module takes.
    "define_macros": [("Py_LIMITED_API", "0x030B0000")] if _ABI3 else [],
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
    "ccltui.metrics.arrays._intervals",
    ["ccltui/metrics/arrays/_intervals.pyx"],
    depends=[
        "ccltui/metrics/arrays/_time_of_class.pxi",
        "ccltui/metrics/arrays/_parts_of_time.pxi",
    ],
    **_OPTIONS,
)
PASSES = Extension(
    "ccltui.metrics.arrays._passes",
    ["ccltui/metrics/arrays/_passes.pyx"],
    depends=[*map(str, Path("ccltui/metrics/arrays").glob("*.pxi"))],
    **_OPTIONS,
)
NEAR_ENDS = Extension(
    "ccltui.metrics.arrays._near_ends",
    ["ccltui/metrics/arrays/_near_ends.pyx"],
    depends=[*map(str, Path("ccltui/metrics/arrays").glob("*.pxi"))],
    **_OPTIONS,
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


def _cpus() -> int:
    """Return how many CPUs this process may use, which may be few of a large machine."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


class BuildAtOnce(build_ext):
    """Compiles all modules at once, in a thread each: a compiler is a process of its own.

    Cython is not made for threads, so its part comes first; the threads find sources in C.
    """

    def build_extensions(self) -> None:
        """Translate one after the other, then compile."""
        from Cython.Build import cythonize  # noqa: PLC0415 (a wheel of Python alone needs none)

        self.check_extensions_list(self.extensions)
        for module in self.extensions:
            module.sources = cythonize(module, force=self.force, quiet=True)[0].sources
        self.parallel = self.parallel or _cpus()
        super().build_extensions()


EXTENSIONS = [SCANNER, TABLES, INTERVALS, PASSES, NEAR_ENDS, CUT_FILES, LINES, PACKETS]

setup(
    cmdclass={"build_ext": BuildAtOnce},
    ext_modules=[] if _WHEEL == "pure" else EXTENSIONS,
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if _ABI3 else {},
)
