"""Whether a cluster can run here, and what becomes of its tests where it cannot."""

from __future__ import annotations

import os
import subprocess
from typing import Final, NoReturn

import pytest
from daemons import missing_programs

NEEDED: Final = (
    *("slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun"),
    *("munged", "munge", "setpriv", "unshare", "mount"),
)


def why_not() -> str | None:
    """Why no cluster can run here, None where it can."""
    if os.geteuid() != 0:
        return "needs root: device files and name spaces"
    absent = missing_programs(NEEDED)
    if absent:
        return f"not installed: {', '.join(absent)}"
    unshare = ["unshare", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "true"]
    tried = subprocess.run(unshare, check=False, capture_output=True, text=True)
    return f"no name spaces here: {tried.stderr.strip()}" if tried.returncode else None


def absent(reason: str) -> NoReturn:
    """A visible skip; a failure where all has to be there: CCLTUI_SLURM=require, as in CI."""
    if os.environ.get("CCLTUI_SLURM") == "require":
        pytest.fail(reason)
    pytest.skip(reason)
