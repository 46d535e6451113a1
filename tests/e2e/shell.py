"""Run the commands as a user's shell does, in a controlled environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

SCRIPTS = Path(sys.executable).parent
TIMEOUT_S = 120

CCLTUI = (str(SCRIPTS / "ccltui"),)
CCL_METRICS = (str(SCRIPTS / "ccl-metrics"),)
MODULE = (sys.executable, "-m", "ccltui")


def run(
    command: Sequence[str],
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str | None] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Output and exit status of a command without a terminal; ``env`` None removes a variable."""
    return subprocess.run(
        [*command, *map(str, arguments)],
        check=False,
        cwd=cwd,
        env=environment(env or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
    )


def environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """This process's environment with ``changes``; None removes a variable.

    A safe path is left out, which importing a command sets: a user's shell has none.
    """
    merged: dict[str, str | None] = {**os.environ, "PYTHONSAFEPATH": None, **changes}
    return {name: value for name, value in merged.items() if value is not None}
