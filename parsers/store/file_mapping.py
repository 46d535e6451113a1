"""Map files into memory without a descriptor that stays open.

``mmap.mmap`` keeps a copy of the descriptor for as long as the mapping lives, so that a job of a
thousand ranks exceeds the usual limit of 1,024 open files. A mapping needs none: the system calls
are made here by hand until Python 3.13, which has ``trackfd=False``, is the oldest version.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import mmap
import os
import sys
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

PAGE = mmap.ALLOCATIONGRANULARITY

if sys.version_info >= (3, 13):

    class FileMapping(mmap.mmap):
        """The bytes of a file, read only, until nothing refers to them."""

        def __new__(cls, descriptor: int, size: int, begin: int) -> FileMapping:
            """Map ``size`` bytes from ``begin``; there is at least one. Raises OSError."""
            access = mmap.ACCESS_READ
            return super().__new__(
                cls, descriptor, size, access=access, offset=begin, trackfd=False
            )

else:

    class FileMapping:
        """The bytes of a file, read only, until nothing refers to them."""

        def __init__(self, descriptor: int, size: int, begin: int) -> None:
            """Map ``size`` bytes from ``begin``; there is at least one. Raises OSError."""
            library = _c_library()
            self._unmap, self._advise = library.munmap, library.madvise
            self._size = size
            self._address = library.mmap(
                None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, begin
            )
            if self._address == _FAILED:
                raise _error()

        @property
        def __array_interface__(self) -> dict[str, Any]:
            """Array interface of numpy: an array refers to this object, which unmaps the bytes."""
            return {
                "version": 3,
                "shape": (self._size,),
                "typestr": "|u1",
                "data": (self._address, True),
            }

        def madvise(self, option: int) -> None:
            """Tell the kernel how the bytes will be used. Raises OSError."""
            if self._advise(self._address, self._size, option):
                raise _error()

        def __del__(self) -> None:
            if getattr(self, "_address", _FAILED) != _FAILED:
                self._unmap(self._address, self._size)


_FAILED = ctypes.c_void_p(-1).value


@cache
def _c_library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    size, address, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    # off_t has the width of long in every build of Python that this runs on.
    library.mmap.argtypes = (address, size, number, number, number, ctypes.c_long)
    library.mmap.restype = address
    library.munmap.argtypes = (address, size)
    library.madvise.argtypes = (address, size, number)
    return library


def _error() -> OSError:
    code = ctypes.get_errno() or errno.EINVAL
    return OSError(code, os.strerror(code))


@cache
def _survive_cuts() -> None:
    """End the process with a line, not a crash, where a file is cut while it is mapped.

    Without compiled code SIGBUS ends it.
    """
    with contextlib.suppress(ImportError, OSError):
        importlib.import_module("ccltui.parsers.store._cut_files").end_in_order()


def map_file(descriptor: int, size: int, begin: int = 0) -> npt.NDArray[np.uint8]:
    """``size`` bytes of a file from ``begin``, a multiple of `PAGE`; the descriptor may be closed.

    Raises OSError.
    """
    if not size:
        return np.empty(0, np.uint8)
    _survive_cuts()
    mapping: Any = FileMapping(descriptor, size, begin)
    return np.asarray(mapping) if sys.version_info < (3, 13) else np.frombuffer(mapping, np.uint8)


def mapping_of(array: Any) -> FileMapping | None:
    """The mapped file that an array is a view of, None where it is in memory."""
    base = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base if isinstance(base, FileMapping) else None
