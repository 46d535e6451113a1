"""Print the findings of ``ccltui doctor``, one per line; required ones begin with «missing».

A trace without GPU events counts as missing unless the job trained on the CPU, and so does one from
which ccltui reads nothing. Other findings are printed only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

_FATAL = frozenset({"files", "ranks"})


def main() -> int:
    """Print the findings; the exit status is always 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--profile", choices=("torch", "nsys", "both"), default="torch")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    command = [
        sys.executable,
        "-P",
        "-m",
        "ccltui",
        "doctor",
        options.directory,
        "--format",
        "json",
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = {}
    checks = document.get("checks", [])
    if not checks:
        print(nothing_read(options.profile, done.stderr))
    for check in checks:
        print(line_of(check, options.device))
    return 0


def nothing_read(profile: str, said: str) -> str:
    """A report of nsys alone can only be read where there is an nsys to export it."""
    why = " ".join(said.split()) or "ccltui doctor said nothing"
    return f"not checked: {why}" if profile == "nsys" else f"missing traces that can be read: {why}"


def line_of(check: dict[str, Any], device: str) -> str:
    """Return one finding as one line."""
    name, state, message = check["check"], check["state"], check["message"]
    message = message.removesuffix(", see below")  # notes of files are not printed here
    no_gpu = name == "GPU events" and state in {"problem", "warning"}
    if no_gpu and device == "cuda":
        return f"missing GPU events: {message}"
    if name in _FATAL and state == "problem":
        return f"missing {name}: {message}"
    return f"{name}: {state}, {message}"


if __name__ == "__main__":
    sys.exit(main())
