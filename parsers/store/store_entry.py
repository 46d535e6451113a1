"""Rename finished entries of the store into place, check them, and mark them as used."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

SCRATCH_PREFIX = ".writing-"
COLUMNS_NAME = "columns.bin"
MANIFEST_NAME = "manifest.json"
EXPORT_NAME = "export.sqlite"
"""Name of the file that nsys writes into a scratch folder; a killed reader leaves it there."""
FRESH_S = 24 * 3600
_CHECKSUM_BYTES = 16
_ATTEMPTS = 3  # other writers may put an entry there between looking and replacing


def put_in_place(finished: Path, target: Path, is_usable: Callable[[], bool]) -> None:
    """Rename a folder to ``target``, which replaces what is there unless it is usable.

    Where it is, another writer was first with equal content, and ``finished`` stays. Raises
    OSError, also where what is there is not usable and belongs to another user.
    """
    for _ in range(_ATTEMPTS):
        try:
            finished.rename(target)
        except OSError:
            if not os.path.lexists(target):
                raise
        else:
            return
        if is_usable():
            return
        remove_entry(target)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


def remove_entry(target: Path) -> None:
    """Remove what cannot be used; a folder by another name first, as it may be in use.

    Raises OSError, also where it belongs to another user.
    """
    if target.lstat().st_uid != os.geteuid():
        # Renaming it would succeed and removing it fail, so that it would remain.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    if not target.is_dir() or target.is_symlink():
        target.unlink()
        return
    import shutil  # noqa: PLC0415  (only writing needs it)
    import tempfile  # noqa: PLC0415

    aside = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=target.parent))
    try:
        target.rename(aside)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def is_shared(directory: Path) -> bool:
    """Whether a store is shared with its group: the directory has the set-group-ID bit.

    What is written below it then belongs to that group. One that everybody may write to is not
    shared, as anybody could have put entries there.
    """
    try:
        mode = directory.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISGID) and not mode & stat.S_IWOTH


def let_group_read(folder: Path) -> None:
    """Let the group read a folder that was made for its owner alone, and the files in it."""
    for file in folder.iterdir():
        file.chmod(0o640)
    folder.chmod(0o2750)


def is_private(directory: Path) -> bool:
    """Whether nobody but this user and root can have put anything into a directory."""
    try:
        status = directory.stat()
    except OSError:
        return False
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid in (0, os.geteuid()) and not writable


class ForeignError(ValueError):
    """A place in a store belongs to another user, or others may write to it."""


def require_trusted(places: Iterable[Path], *, shared: bool) -> None:
    """Raise ForeignError where a place is a link, of another user but root, or a folder for others.

    Others could have written anything there, and could change it while it is mapped. The folder is
    made by `mkdtemp` and admits nobody else, so that the umask of its files does not matter. In a
    ``shared`` store the owner may be any member of the group; only the owner can change an entry.
    """
    for path in places:
        status = path.lstat()
        writable = stat.S_ISDIR(status.st_mode) and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        stranger = not shared and status.st_uid not in (0, os.geteuid())
        if stat.S_ISLNK(status.st_mode) or writable or stranger:
            raise ForeignError(path)


def read_plain(path: Path) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a small file that is no link, and its status. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        return os.read(descriptor, status.st_size), status
    finally:
        os.close(descriptor)


def write_beside(store: Path, place: Path, data: bytes) -> None:
    """Write a file of a folder below a store under another name, and rename it. Raises OSError."""
    group = is_shared(store)
    store.mkdir(parents=True, exist_ok=True, mode=0o700)
    place.parent.mkdir(exist_ok=True)
    with contextlib.suppress(OSError):  # another user's
        place.parent.chmod(0o2770 if group else 0o700)
    scratch = place.with_name(f".{uuid.uuid4().hex}")
    try:
        scratch.write_bytes(data)
        scratch.chmod(0o640 if group else 0o600)
        scratch.replace(place)
    finally:
        scratch.unlink(missing_ok=True)


def with_checksum(text: bytes) -> bytes:
    """Return a text of one line with its checksum on a second one."""
    return b"%b\n%b" % (text, _checksum(text))


def checked(data: bytes) -> bytes:
    """Return the text of `with_checksum`; ValueError where its checksum is another."""
    text, _, checksum = data.rpartition(b"\n")
    if checksum != _checksum(text):
        raise ValueError("the checksum does not match")
    return text


def _checksum(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_CHECKSUM_BYTES).hexdigest().encode()


def flush(files: Iterable[Path]) -> None:
    """Wait until the files are on disk: after a crash an entry must not exist without its bytes.

    Raises OSError, which network file systems do here first where there is no room.
    """
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def set_used(files: Iterable[Path]) -> None:
    """Mark files as used now, for our own clean-up and that of the system; reading does not.

    All get one time, in whole seconds, which every file system keeps: a file that somebody changed
    has another than those beside it.
    """
    now = int(time.time())
    for path in files:
        with contextlib.suppress(OSError):  # another user's, or a read-only file system
            os.utime(path, (now, now))
