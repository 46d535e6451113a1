"""Install or find other programs that read the same files, in virtual environments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

from bench.measure import SAFE_PATH

DOES_NOT_APPLY = {"nsys-ai": "does not read Kineto (it reads files of nsys)"}
_PACKAGES = ("traceinsight==0.6.1", "pandas<3")  # with pandas 3 it fails on some traces


class Peer(Struct, frozen=True):
    """The interpreter with traceinsight, or the reason that there is none."""

    python: Path | None
    reason: str = ""


def given(python: Path) -> Peer:
    """Return the interpreter given by the user, if it has traceinsight."""
    return _checked(python)


def installed(folder: Path, *, install: bool) -> Peer:
    """Return the environment in ``folder``; create it if ``install`` is set."""
    python = folder / "bin" / "python"
    if not python.exists():
        if not install:
            return Peer(None, "absent (--peers installs it)")
        subprocess.run([sys.executable, "-P", "-m", "venv", str(folder)], check=True)
        subprocess.run(
            [str(python), "-P", "-m", "pip", "install", "--quiet", *_PACKAGES],
            check=True,
            stdout=sys.stderr,
        )
    return _checked(python)


def _checked(python: Path) -> Peer:
    command = [str(python), "-c", "import hta"]
    try:
        environment = {**os.environ, **SAFE_PATH}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except OSError as error:
        return Peer(None, f"absent ({python}: {error.strerror})")
    if done.returncode:
        return Peer(None, f"absent ({python} cannot import it)")
    return Peer(python)
