"""Whether a Chrome trace records computation on a device, without decoding its events."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Final

from ccltui.parsers.text.file_heads import text_pieces

_KERNEL: Final = re.compile(
    rb'"cat"\s*:\s*"(?:[^"]{0,40},)?\s*(?:[Kk]ernel|mtia_ccp_events)\s*[",]'
)
"""The categories whose events are computation; of several in one string each is looked at."""
_WORDS: Final = (b'ernel"', b"ernel,", b'mtia_ccp_events"', b"mtia_ccp_events,")
_LONGEST_MATCH: Final = 128
_PIECE_BYTES: Final = 1 << 20
_MAX_BYTES: Final = 64 << 20
"""Text that is searched: about 0.2 s of work. PyTorch writes the kernels after the operators."""


def has_kernels(path: str) -> bool | None:
    """Return whether an event of the file is a kernel, None where its beginning has none.

    Args:
        path: A plain or compressed file.
    """
    read = 0
    before = b""
    try:
        with closing(text_pieces(path, _PIECE_BYTES)) as pieces:
            for piece in pieces:
                text = before + piece
                # Searching words is ten times as fast, and operators of the host have neither.
                if any(word in text for word in _WORDS) and _KERNEL.search(text):
                    return True
                before = piece[-_LONGEST_MATCH:]
                read += len(piece)
                if read >= _MAX_BYTES:
                    return None
    except OSError:
        return None
    return False
