"""Print the facts about a job before it starts, as ``launcher_metadata.json``.

With ``CONFIG -- ARGUMENT...`` it also tells what the training program was given: the arguments,
and the values that the configuration file has with them on top. LAUNCHER_SWITCHES names the
variables that say which artifacts the run will have.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from train_config import effective_values

_ENVIRONMENT = ("CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "MASTER_PORT")


def main(words: Sequence[str] = ()) -> None:
    """Write one JSON document to standard output."""
    nodes = os.environ.get("SLURM_JOB_NODELIST")
    document = {
        "checkpoint_path": None,
        "rank0_host": os.environ.get("MASTER_ADDR"),
        "world_size": int(os.environ["WORLD_SIZE"]),
        "git_commit": _output("git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"),
        "profile_mode": os.environ.get("PROFILE_MODE"),
        "train_program": os.environ.get("TRAIN_PROGRAM"),
        "nsys_steps": _recorded_by_nsys(),
        **_training(words),
        "slurm": {
            "job_id": os.environ.get("SLURM_JOB_ID"),
            "nodelist": nodes,
            "hosts": _output("scontrol", "show", "hostnames", nodes) if nodes else None,
        },
        "env": _variables(_ENVIRONMENT),
        "switches": _variables(os.environ.get("LAUNCHER_SWITCHES", "").split()),
        "started_utc": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}",
        "nccl_env": _variables(sorted(name for name in os.environ if "NCCL_" in name)),
    }
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")


def _recorded_by_nsys() -> str | None:
    """Return the steps that nsys records, None where it records by time or not at all."""
    steps = os.environ.get("NSYS_STEPS", "none")
    by_steps = os.environ.get("PROFILE_MODE") in {"nsys", "both"} and steps != "none"
    return steps if by_steps and os.environ.get("SITE_DEVICE") != "cpu" else None


def _training(words: Sequence[str]) -> dict[str, object]:
    """Return the further arguments of the training program, and the resulting configuration."""
    if not words:
        return {}
    config, arguments = Path(words[0]), list(words[1:])
    if arguments[:1] == ["--"]:
        del arguments[0]
    return {"train_arguments": arguments, "train_config": effective_values(config, arguments)}


def _output(*command: str) -> str | None:
    """Return the output of a program, None if it does not exist or fails."""
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _variables(names: Iterable[str]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


if __name__ == "__main__":
    main(sys.argv[1:])
