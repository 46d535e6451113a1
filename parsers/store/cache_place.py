"""Place of the column cache. Imports the standard library only."""

from __future__ import annotations

import os
from pathlib import Path


def default_cache_dir() -> Path:
    """``CCLTUI_CACHE_DIR``, else ``ccltui`` in the user's cache directory."""
    stated = os.environ.get("CCLTUI_CACHE_DIR")
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
