"""Run scripts in a small environment of their own, with stand-ins for the tools of a cluster."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

SBATCH = Path(__file__).resolve().parents[2] / "sbatch"
TIMEOUT_S = 60
_KEPT = ("PATH", "HOME", "LANG", "CCLTUI_CACHE_DIR")


class Done(Struct, frozen=True):
    """How a script ended."""

    status: int
    out: str
    talk: str


def script(
    path: str | Path, *words: str | Path, env: Mapping[str, str] | None = None, cwd: Path = SBATCH
) -> Done:
    """Run ``sbatch/PATH``; nothing of the user's settings reaches it."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    done = subprocess.run(
        ["bash", str(SBATCH / path), *map(str, words)],
        check=False,
        cwd=cwd,
        env={**kept, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def stand_in(folder: Path, name: str, text: str) -> Path:
    """An executable of that name which runs ``text`` as a shell script."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)
    return path


def environment_with(folder: Path, *, before: str = ":", ccltui: bool = True) -> Path:
    """A VENV_DIR whose Python does what ``before`` says and is this one for all else.

    Without ccltui it has the standard library alone, and starts in a tenth of the time.
    """
    alone = "" if ccltui else " -S"
    text = f'{before}\nexec {shlex.quote(sys.executable)}{alone} "$@"'
    return stand_in(folder / "bin", "python", text).parent.parent


def path_with(folder: Path) -> str:
    """A PATH on which the stand-ins of ``folder`` come first."""
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
