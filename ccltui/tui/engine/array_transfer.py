"""Send messages between two processes; large arrays go in a file that the other one maps.

The file has no name, so nothing is left behind however a process ends. Mapped pages count as
memory of each process that has read them, until :func:`release_pages` returns them to the kernel.
``multiprocessing.connection`` frames the bytes. Its ``send_handle`` duplicates the socket for each
descriptor; one duplicate for the life of the channel is enough, and can be shut down from another
thread.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import pickle
import socket
import tempfile
import threading
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ccltui.parsers.store.stored_columns import FileMapping


_MARK: Final = b"\0"
"""The byte that begins a message: a descriptor can only travel beside data."""


class Channel:
    """One end of a pair of connected sockets. Any thread may send, one thread receives."""

    def __init__(self, connected: socket.socket) -> None:
        """Take over ``connected``: it is closed with the channel."""
        self._socket = connected
        self._messages = Connection(os.dup(connected.fileno()))
        self._sending = threading.Lock()

    def send(self, data: bytes, descriptor: int | None = None) -> None:
        """Send a message, and the open file ``descriptor`` where it is given.

        Raises:
            OSError: The other end is closed.
        """
        with self._sending:
            if descriptor is None:
                self._socket.sendall(_MARK)
            else:
                socket.send_fds(self._socket, [_MARK], [descriptor])
            self._messages.send_bytes(data)

    def receive(self) -> tuple[bytes, int | None]:
        """Return the next message, and the descriptor sent with it, which the caller closes.

        Raises:
            EOFError: The other end is closed, or this one is shut down.
        """
        try:
            mark, descriptors, _, _ = socket.recv_fds(self._socket, len(_MARK), 1)
        except OSError:
            raise EOFError from None
        if not mark:
            raise EOFError
        descriptor = descriptors[0] if descriptors else None
        try:
            return self._messages.recv_bytes(), descriptor
        except (EOFError, OSError):
            if descriptor is not None:
                os.close(descriptor)
            raise EOFError from None

    def shut_down(self) -> None:
        """End sending and receiving at both ends; `receive` raises EOFError from then on."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Shut down and close the descriptors. Only the thread that receives may call this."""
        self.shut_down()
        with self._sending:
            self._socket.close()
            self._messages.close()


_LARGE_BYTES: Final = 128
"""Bytes from which an array goes into the file: one that stays in the message takes 600 bytes more
in memory than its numbers."""
_ALIGNED: Final = 64
_mapped: weakref.WeakSet[FileMapping] = weakref.WeakSet()
_mapped_lock: Final = threading.Lock()


def pack(thing: object, refer: Callable[[object], object]) -> tuple[bytes, IO[bytes] | None]:
    """Serialise an object.

    Args:
        thing: Any object that can be pickled.
        refer: Returns a reference that is sent instead of an object, None for one sent whole.

    Returns:
        The object as bytes, and the file of its arrays of at least 128 bytes, None without any.

    Raises:
        OSError: There is no room for the file.
    """
    buffers: list[memoryview] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _LARGE_BYTES:
            return True
        buffers.append(raw)
        return False

    class Pickler(pickle.Pickler):
        def persistent_id(self, one: object) -> object:
            return refer(one)

    stream = io.BytesIO()
    Pickler(stream, protocol=5, buffer_callback=keep).dump(thing)
    spans, end = [], 0
    for buffer in buffers:
        spans.append((end, buffer.nbytes))
        end += -(-buffer.nbytes // _ALIGNED) * _ALIGNED
    file = _file_of(buffers, spans, end) if buffers else None
    return pickle.dumps((end, spans)) + stream.getvalue(), file


def _file_of(buffers: list[memoryview], spans: list[tuple[int, int]], size: int) -> IO[bytes]:
    try:
        return _filled(tempfile.TemporaryFile(buffering=0), buffers, spans, size)
    except OSError:
        if not hasattr(os, "memfd_create"):
            raise
        file = open(os.memfd_create("ccltui"), "w+b", buffering=0)  # noqa: SIM115, PTH123
        return _filled(file, buffers, spans, size)


def _filled(
    file: IO[bytes], buffers: list[memoryview], spans: list[tuple[int, int]], size: int
) -> IO[bytes]:
    """Return the file with all buffers written to it; close it if that fails."""
    with contextlib.ExitStack() as stack:
        stack.callback(file.close)
        for (offset, length), buffer in zip(spans, buffers, strict=True):
            done = 0
            while done < length:
                done += os.pwrite(file.fileno(), buffer[done:], offset + done)
        file.truncate(size)
        stack.pop_all()
    return file


def unpack(data: bytes, descriptor: int | None, resolve: Callable[[Any], object]) -> Any:
    """Return the object; its large arrays are read-only views of the mapped file.

    Args:
        data: Bytes of :func:`pack`.
        descriptor: The open file of the arrays, None without any.
        resolve: Returns the object of a reference.
    """
    stream = io.BytesIO(data)
    size, spans = pickle.load(stream)
    buffers: list[memoryview] = []
    if descriptor is not None:
        from ccltui.parsers.store.stored_columns import map_file, mapping_of  # noqa: PLC0415  (imports numpy)

        array = map_file(descriptor, size)
        mapped = mapping_of(array)
        if mapped is not None:
            with _mapped_lock:
                _mapped.add(mapped)
        whole = array.data
        buffers = [whole[offset : offset + length] for offset, length in spans]

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, name: Any) -> object:
            return resolve(name)

    return Unpickler(stream, buffers=buffers).load()


def release_pages() -> None:
    """Release the memory of all mapped arrays; the next access reads them from the file again."""
    with _mapped_lock:
        known = list(_mapped)
    for mapped in known:
        mapped.madvise(mmap.MADV_DONTNEED)
