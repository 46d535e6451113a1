"""Send whole messages, with an open file where one is needed, between two processes.

``multiprocessing.connection`` frames the bytes. Its ``send_handle`` duplicates the socket for each
descriptor; one duplicate for the life of the channel is enough, and can be shut down from another
thread.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from multiprocessing.connection import Connection
from typing import Final

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
