"""Set the clipboard of the user's terminal, also through ssh, tmux and GNU screen (OSC 52)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

_SCREEN_CHUNK: Final = 700  # GNU screen drops longer strings


def osc52(text: str, environ: Mapping[str, str]) -> str:
    """Return the sequence that puts ``text`` on the clipboard.

    tmux handles the sequence itself if it is configured to set clipboards, and forwards a wrapped
    one if it is configured to let sequences pass. The configuration cannot be seen from here, so
    both are sent; tmux ignores what it does not allow. GNU screen only forwards, in pieces.
    """
    plain = f"\x1b]52;c;{base64.b64encode(text.encode()).decode('ascii')}\x07"
    if "TMUX" in environ:
        return plain + f"\x1bPtmux;{plain.replace(chr(27), chr(27) * 2)}\x1b\\"
    if environ.get("TERM", "").startswith("screen"):
        pieces = [plain[at : at + _SCREEN_CHUNK] for at in range(0, len(plain), _SCREEN_CHUNK)]
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return plain
