"""Facts about the machine and software that the figures of a run depend on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

from ccltui.parsers.kineto.scanner.typed_event import compiled


def facts() -> dict[str, str | int]:
    """Return processor, interpreter, libraries, and the decoder that ccltui uses."""
    return {
        "processor": _processor(),
        "cpus": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "scanner": "compiled" if compiled() else "not built: ccltui is the general decoder",
        **{name: version(name) for name in ("numpy", "orjson", "msgspec")},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
