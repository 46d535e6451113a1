"""Keep entries that a process has mapped from being removed by other nodes.

A file that is removed stays readable where it is mapped only as far as one kernel: over NFS the
pages of a file that another node removed are gone, and touching them ends the process. A process
that maps entries of a store on such a file system therefore lists them in a file of the folder
``in_use``, which it touches every hour and removes at its end. Eviction leaves out what such files
list, unless they are of this node, or have not been touched for hours, as of a node that failed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ccltui.parsers.store.store_entry import read_plain, write_beside

FOLDER: Final = "in_use"
TOUCHED_S: Final = 3600
EXPIRY_S: Final = 3 * TOUCHED_S
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_LOCAL: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "bcachefs", "ramfs", "tmpfs"}
    | {"overlay", "apfs"}
)
"""File systems of one node; of others we cannot tell."""

_LISTS: Final[list[Path]] = []


def is_local(directory: Path) -> bool:
    """Whether only this node can reach a directory, by the type of its file system."""
    try:
        existing = next(place for place in (directory, *directory.parents) if place.exists())
        device = existing.stat().st_dev
        wanted = f"{os.major(device)}:{os.minor(device)}"
        lines = [line.split() for line in _MOUNTS.read_text("utf-8", "replace").splitlines()]
        types = {line[line.index("-") + 1] for line in lines if line[2:3] == [wanted]}
    except (OSError, ValueError, IndexError):
        return False
    return bool(types) and types <= _LOCAL


def pin(store: Path, keys: Iterable[str]) -> None:
    """List entries as in use until this process ends; nothing where no other node can see them."""
    if is_local(store.absolute()):
        return
    place = store / FOLDER / f"{_node()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    with contextlib.suppress(OSError):  # a store that cannot be written is trimmed by others only
        write_beside(store, place, "\n".join(keys).encode())
        if not _LISTS:
            atexit.register(_unpin, os.getpid())
            threading.Thread(target=_touch, name="pins", daemon=True).start()
        _LISTS.append(place)


def pinned(store: Path) -> frozenset[str]:
    """Return the keys of entries that processes of other nodes use; expired lists are removed."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for place in list((store / FOLDER).iterdir()):
            with contextlib.suppress(OSError):
                data, status = read_plain(place)
                if time.time() - status.st_mtime > EXPIRY_S:
                    place.unlink()
                elif not place.name.startswith(_node()):
                    found.update(data.decode("ascii", "replace").split())
    return frozenset(found)


def _node() -> str:
    try:
        return _BOOT.read_text("ascii").strip().replace("-", "")
    except (OSError, ValueError):
        return "unknown"


def _touch() -> None:
    while True:
        time.sleep(TOUCHED_S)
        for place in _LISTS:
            with contextlib.suppress(OSError):
                os.utime(place)


def _unpin(process: int) -> None:
    if os.getpid() != process:  # one that was forked from it
        return
    for place in _LISTS:
        with contextlib.suppress(OSError):
            place.unlink()
