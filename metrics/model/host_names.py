"""The host that a rank ran on."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

from ccltui.parsers.columns import RankTrace

_DEFAULT_NAME: Final = re.compile(r"(?P<host>.+)_\d+\.\d{13,}\.pt\.trace\.json(?:\.gz)?")
"""What PyTorch's `tensorboard_trace_handler` calls a file by default: host, process, and time."""


def host_of(trace: RankTrace) -> str:
    """Return the host that a file states, else that in its name, "" where neither is known."""
    if trace.host:
        return trace.host
    found = _DEFAULT_NAME.fullmatch(PurePath(trace.source.path).name)
    return found["host"] if found else ""
