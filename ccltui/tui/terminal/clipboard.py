"""The clipboard of the terminal that the user sits at, through whatever lies between (OSC 52)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

_SCREEN_CHUNK: Final = 700  # GNU screen drops longer strings


def osc52(text: str, environ: Mapping[str, str]) -> str:
    """What to write so that ``text`` is on the clipboard.

    tmux takes the sequence itself where it may set clipboards, and hands a wrapped one on where
    it lets sequences pass; which of the two is allowed cannot be seen from here, and what is not
    is ignored. GNU screen only hands on, in pieces.
    """
    plain = f"\x1b]52;c;{base64.b64encode(text.encode()).decode('ascii')}\x07"
    if "TMUX" in environ:
        return plain + f"\x1bPtmux;{plain.replace(chr(27), chr(27) * 2)}\x1b\\"
    if environ.get("TERM", "").startswith("screen"):
        pieces = [plain[at : at + _SCREEN_CHUNK] for at in range(0, len(plain), _SCREEN_CHUNK)]
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return plain
