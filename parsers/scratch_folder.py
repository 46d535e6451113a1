"""Temporary folders that do not outlast a killed process: the next one removes them.

A folder is locked while it is in use, and the system frees the lock when the process ends, however
that is. Some file systems keep locks within a host, so that only folders of this host are judged by
them; others have no locks, and there folders stay until something else removes them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

_ATTEMPTS = 5
_IN_USE: set[Path] = set()


@contextlib.contextmanager
def scratch_folder(
    prefix: str = "ccltui-", directory: Path | None = None, *, tidies: bool = True
) -> Iterator[Path]:
    """Make a folder for this user alone, and remove it with its content at the end.

    Args:
        prefix: Beginning of its name.
        directory: Where it is made; None means the temporary directory.
        tidies: Whether folders of the same prefix that killed processes left there are removed
            first.

    Raises:
        OSError: The folder cannot be made.
    """
    place = Path(tempfile.gettempdir()) if directory is None else directory
    if tidies:
        with contextlib.suppress(OSError):
            remove_abandoned(place, prefix)
    folder, lock = _made(place, prefix + _of_host())
    _IN_USE.add(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _IN_USE.discard(folder)
        os.close(lock)


def remove_in_use() -> None:
    """Remove all folders of this process, before it exits without leaving its threads in order."""
    for folder in list(_IN_USE):
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(directory: Path, prefix: str) -> None:
    """Remove folders of `scratch_folder` whose processes have ended. Raises OSError."""
    with os.scandir(directory) as listing:
        names = [entry.name for entry in listing if entry.name.startswith(prefix + _of_host())]
    for name in names:
        with contextlib.suppress(OSError):
            _remove_if_free(directory / name)


def _made(place: Path, prefix: str) -> tuple[Path, int]:
    """Return a new folder and the descriptor that holds its lock. Raises OSError.

    Between the two calls another process may take the folder for an abandoned one.
    """
    for _ in range(_ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError:
            with contextlib.suppress(OSError):
                folder.rmdir()
            raise
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder, lock
        os.close(lock)
    raise FileNotFoundError(f"{prefix}*: another process removes new folders in {place}")


def _remove_if_free(folder: Path) -> None:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(folder, flags)
    try:
        if os.fstat(lock).st_uid != os.geteuid():
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _of_host() -> str:
    """Return the part of a name that tells hosts which share a file system apart."""
    return f"{zlib.crc32(os.uname().nodename.encode()):08x}-"
