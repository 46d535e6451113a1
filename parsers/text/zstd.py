"""Decompress zstd: by the standard library from Python 3.14 on, else by the package zstandard.

Both take the same bytes and give the same text. A window of up to 2 GiB is accepted: the largest
that `zstd --long=31` writes.
"""

from __future__ import annotations

import sys
from typing import Protocol

_WINDOW_LOG = 31


class ZstdFrame(Protocol):
    """One frame while it is decompressed."""

    @property
    def eof(self) -> bool:
        """Whether the frame has ended."""

    @property
    def unused_data(self) -> bytes:
        """Bytes after the end of the frame."""

    def decompress(self, data: bytes, /) -> bytes:
        """Return the text of the next bytes. Raises ZstdError."""


if sys.version_info >= (3, 14):
    from compression.zstd import DecompressionParameter, ZstdDecompressor, ZstdError

    def zstd_frame() -> ZstdFrame:
        """Return a decompressor of one frame."""
        return ZstdDecompressor(options={DecompressionParameter.window_log_max: _WINDOW_LOG})

else:
    from zstandard import ZstdDecompressor, ZstdError

    def zstd_frame() -> ZstdFrame:
        """Return a decompressor of one frame."""
        return ZstdDecompressor(max_window_size=1 << _WINDOW_LOG).decompressobj()


__all__ = ["ZstdError", "ZstdFrame", "zstd_frame"]
