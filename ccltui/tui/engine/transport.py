"""Whole messages between two processes, with an open file beside one where it needs it."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from typing import Final

_HEAD: Final = struct.Struct("<Q")
_PIECE: Final = 1 << 20


class Channel:
    """One end of a pair of connected sockets. Any thread may send, one receives."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._sending = threading.Lock()

    def send(self, data: bytes, descriptor: int | None = None) -> None:
        """Send a message, and an open file. Raises OSError where nobody is there any more."""
        head = _HEAD.pack(len(data))
        with self._sending:
            if descriptor is None:
                self._socket.sendall(head)
            else:
                socket.send_fds(self._socket, [head], [descriptor])
            self._socket.sendall(data)

    def receive(self) -> tuple[bytearray, int | None]:
        """The next message; whoever receives a descriptor closes it. Raises EOFError at the end."""
        try:
            head, descriptors, _, _ = socket.recv_fds(self._socket, _HEAD.size, 1)
        except OSError:
            raise EOFError from None
        if not head:
            raise EOFError
        descriptor = descriptors[0] if descriptors else None
        try:
            (size,) = _HEAD.unpack(head + self._exactly(_HEAD.size - len(head)))
            return self._exactly(size), descriptor
        except EOFError:
            if descriptor is not None:
                os.close(descriptor)
            raise

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view, done = memoryview(data), 0
        while done < size:
            got = 0
            with contextlib.suppress(OSError):
                got = self._socket.recv_into(view[done : done + _PIECE])
            if not got:
                raise EOFError
            done += got
        return data

    def close(self) -> None:
        """Neither end sends or receives any more."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
