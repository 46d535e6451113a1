"""Place and size limit of the column store. Imports the standard library only."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from ccltui.parsers.errors import GrammarError

LIMIT_VARIABLE: Final = "CCLTUI_STORE_LIMIT"
DEFAULT_LIMIT_BYTES: Final = 20 << 30
_SIZE: Final = re.compile(r"(\d{1,15})([KMGTP]?)(?:i?B)?", re.IGNORECASE)
_UNITS: Final = "KMGTP"


def default_cache_dir() -> Path:
    """``CCLTUI_STORE``, ``CCLTUI_CACHE_DIR``, else ``ccltui`` in the user's cache directory."""
    stated = os.environ.get("CCLTUI_STORE") or os.environ.get("CCLTUI_CACHE_DIR")
    if stated:
        return Path(stated)
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "ccltui"
    try:
        return Path.home() / ".cache" / "ccltui"
    except RuntimeError:  # no HOME and no entry in the password file
        import tempfile  # noqa: PLC0415  (4 ms, for this case alone)

        return Path(tempfile.gettempdir()) / f"ccltui-{os.getuid()}"


def store_limit() -> int:
    """Return the most bytes of the store: ``CCLTUI_STORE_LIMIT``, else 20 GiB.

    Raises:
        GrammarError: The variable is not a size.
    """
    stated = os.environ.get(LIMIT_VARIABLE)
    if not stated:
        return DEFAULT_LIMIT_BYTES
    try:
        return parse_size(stated)
    except GrammarError as error:
        raise GrammarError(f"{LIMIT_VARIABLE}: {error}") from None


def parse_size(text: str) -> int:
    """Return the bytes of a size: ``200G`` is 200 GiB; units are powers of 1024.

    Raises:
        GrammarError: ``text`` is not a whole number with an optional unit K, M, G, T or P.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or int(found[1]) == 0:
        raise GrammarError(f"{text[:40]!r} is not a size above 0, as in 500M, 200G or 2T")
    return int(found[1]) << 10 * (1 + _UNITS.index(found[2].upper()) if found[2] else 0)
