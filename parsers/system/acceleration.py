"""Whether compiled code is used where it was built: ``CCLTUI_ACCEL=0`` turns all of it off."""

from __future__ import annotations

import os


def wanted() -> bool:
    """Whether the environment allows it."""
    return os.environ.get("CCLTUI_ACCEL", "1") != "0"
