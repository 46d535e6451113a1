"""Submit to a cluster and wait: what a user does between ``sbatch`` and the result."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final

from cluster import Cluster
from msgspec import Struct

ENDED: Final = frozenset(
    {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"}
)


class JobState(Struct, frozen=True):
    """What the controller knows of a job; ``exit_code`` is that of its script."""

    state: str
    reason: str
    exit_code: int
    nodes: str


def submit(cluster: Cluster, *arguments: str | Path, cwd: Path) -> str:
    """Id of a submitted job; a refusal is an error of the test."""
    done = cluster.run("sbatch", "--parsable", *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def state_of(cluster: Cluster, job: str) -> JobState:
    """State of one job (or of one task of an array: ``12_3``)."""
    told = cluster.run("scontrol", "show", "job", "-o", job)
    assert told.returncode == 0, told.stderr
    fields = dict(re.findall(r"(\w+)=(\S*)", told.stdout.splitlines()[0]))
    code = int(fields["ExitCode"].partition(":")[0])
    return JobState(fields["JobState"], fields["Reason"], code, fields.get("NodeList", ""))


def wait_for_end(cluster: Cluster, job: str, *, seconds: float = 60) -> JobState:
    """State of the job once it has ended. Polls: ``sbatch --wait`` itself pauses for long."""
    deadline = time.monotonic() + seconds
    while (found := state_of(cluster, job)).state not in ENDED:
        assert time.monotonic() < deadline, f"job {job} is still {found}"
        time.sleep(0.1)
    return found


def wait_for_state(cluster: Cluster, job: str, wanted: str, *, seconds: float = 30) -> JobState:
    """State of the job once it, or its reason, is ``wanted``."""
    deadline = time.monotonic() + seconds
    while wanted not in ((found := state_of(cluster, job)).state, found.reason):
        assert time.monotonic() < deadline, f"job {job} is {found}, not {wanted}"
        time.sleep(0.1)
    return found


def script(directory: Path, text: str, *directives: str, name: str = "job.sbatch") -> Path:
    """A batch script of these lines."""
    head = ["#!/bin/bash", *(f"#SBATCH {directive}" for directive in directives)]
    path = directory / name
    path.write_text("\n".join([*head, "set -euo pipefail", text]) + "\n")
    return path
