"""Install ccltui into an empty environment with pip, and compare numbers of the demo job.

``check_install.py [SOURCE] [--wheels FOLDER] [--versions newest|minimum]``: SOURCE is a wheel or a
checkout; without it, what pip chooses from a folder of wheels.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from minimum_versions import constraints

# Of the demo job: 8 ranks, 6 steps of about 58 ms, rank 1 late by construction.
_KNOWN = {("straggler_lag", "worst_straggler"): 1, ("straggler_lag", "num_collectives"): 870}


def main(arguments: list[str]) -> int:
    """Install, run, compare; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", nargs="?")
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--versions", choices=("newest", "minimum"), default="newest")
    options = parser.parse_args(arguments)
    if (options.source is None) == (options.wheels is None):
        parser.error("give either SOURCE or --wheels")
    with tempfile.TemporaryDirectory() as folder:
        return _check(Path(folder), options)


def _check(folder: Path, options: argparse.Namespace) -> int:
    venv.create(folder / "env", with_pip=True)
    commands = folder / "env" / "bin"
    install = [str(commands / "python"), "-m", "pip", "install", "--quiet"]
    if options.versions == "minimum":
        (folder / "minimum.txt").write_text("\n".join(constraints()) + "\n", encoding="utf-8")
        install += ["--constraint", str(folder / "minimum.txt")]
    if options.wheels is not None:
        install += ["--find-links", str(options.wheels), "--only-binary", "ccltui", "ccltui"]
    subprocess.run(install + [options.source] * (options.source is not None), check=True)

    ccltui = str(commands / "ccltui")
    print(_output(ccltui, "--version", "--verbose"))
    job = str(folder / "job")
    _output(ccltui, "demo", job, "--no-open")
    metrics = ("--metric", "straggler_lag", "--metric", "iter_time", "--format", "json")
    results = json.loads(_output(ccltui, job, *metrics, "--no-cache"))["results"]
    found = {one["metric"]: one["details"] for one in results}
    wrong = [
        f"{metric}.{key} is {found[metric][key]}, not {value}"
        for (metric, key), value in _KNOWN.items()
        if found[metric][key] != value
    ]
    _output(ccltui, "report", job, "-o", str(folder / "report.html"))
    _output(str(commands / "python"), "-c", "import ccltui.tui.app")
    print("\n".join(wrong) or f"the demo's numbers are right with the {options.versions} versions")
    return 1 if wrong else 0


def _output(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
