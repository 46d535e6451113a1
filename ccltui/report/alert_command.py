"""Start the program that a user wants to be told of an alert by."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import IO, Any, Final

from ccltui.report.gates import Verdict

_COMMAND_S: Final = 60.0
"""Seconds after which the command is ended: headless no look happens while it runs."""


def run_command(command: str, verdict: Verdict, path: str, *, output: int | IO[Any]) -> str | None:
    """Start the command of an alert without a shell, and wait for it.

    Args:
        command: Program with arguments.
        verdict: The alert; its condition and value are in the environment of the program.
        path: The directory that is followed, also there.
        output: Where the program's standard output and error go.

    Returns:
        Why it failed, None where it did not.
    """
    words = shlex.split(command)
    alert = {
        "CCLTUI_ALERT": verdict.gate.text,
        "CCLTUI_ALERT_VALUE": str(verdict.value),
        "CCLTUI_ALERT_PATH": path,
    }
    try:
        done = subprocess.run(
            words,
            check=False,
            env={**os.environ, **alert},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=_COMMAND_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"--alert-command: {error}"
    if done.returncode:
        return f"--alert-command: {words[0]} ended with status {done.returncode}"
    return None
