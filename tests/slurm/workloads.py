"""Submit the tiny training job through the project's own scripts, as a user submits a large one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cluster import Cluster
from daemons import free_port
from msgspec import Struct

ROOT: Final = Path(__file__).resolve().parent.parent.parent
ANALYSE: Final = (ROOT / "sbatch" / "analysis" / "submit.sh",)
TWO_NODES: Final = ROOT / "sbatch" / "workloads" / "qwen3-32b-torchtitan-3d-perlmutter-16"
HERE: Final = Path(__file__).resolve().parent


_NSYS: Final = """\
#!/usr/bin/env bash
# Leaves what a report begins with, its host and its delay where nsys would, then runs the command.
[[ $1 == profile ]] && shift
while [[ $1 == --* ]]; do
    case $1 in
    --output=*) report=${1#--output=}.nsys-rep ;;
    --delay=*) delay=${1#--delay=} ;;
    esac
    shift
done
printf 'NVIDIA Tegra Profiler Report %-2000s\\n' 2025@3@1 >"$report"
echo "$(hostname) after $delay s" >>"$report"
exec "$@"
"""


def stand_in_nsys(folder: Path) -> None:
    """A program ``nsys`` in a new folder that records who called it."""
    folder.mkdir()
    path = folder / "nsys"
    path.write_text(_NSYS)
    path.chmod(0o755)


class Workload(Struct, frozen=True):
    """A workload folder with the ``run.sbatch`` of the project, and where its traces go."""

    folder: Path
    traces: Path
    environment: dict[str, str]
    submit: Path = ROOT / "sbatch" / "lib" / "submit.sh"  # what its run.sh calls


def tiny_workload(directory: Path, **variables: str) -> Workload:
    """The tiny job below ``directory``; ``variables`` are added to its environment."""
    folder = directory / "tiny"
    shutil.copytree(HERE / "tiny_workload", folder)
    shutil.copy(TWO_NODES / "run.sbatch", folder)
    environment = {
        **on_processors(directory),
        "SITE_ACCOUNT": "m1234",
        "SITE_GPUS_PER_NODE": "2",
        "SITE_CPUS_PER_TASK": "2",
        "CCLTUI_TRAIN_PROGRAM": str(HERE / "tiny_train.py"),
        # Another test run's cluster may have a job of the same number, hence the same port.
        "MASTER_PORT": str(free_port()),
        "PYTHONPATH": str(ROOT),
        **variables,
    }
    return Workload(folder, directory / "scratch" / "ccl-bench-traces" / "tiny", environment)


def submit_workload(cluster: Cluster, workload: Workload, *options: str) -> str:
    """Id of the submitted training job."""
    return submitted(cluster, workload, (workload.submit, workload.folder), *options)


def submitted(
    cluster: Cluster, workload: Workload, command: Sequence[Path], *options: str | Path
) -> str:
    """Id that one of our commands prints, in the workload's environment."""
    done = cluster.run(*command, "--parsable", *options, env=workload.environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def submit_script(
    cluster: Cluster, directory: Path, script: Path, *words: str | Path, **variables: str
) -> str:
    """Id of a batch script that is submitted as it is, from ``directory``, for two nodes."""
    environment = {
        **on_processors(directory),
        "CCLTUI_SBATCH": str(ROOT / "sbatch"),
        "GPUS_PER_NODE": "2",
        **variables,
    }
    done = cluster.run(
        *("sbatch", "--parsable", "--account=m1234", "--constraint=gpu", "--nodes=2"),
        *("--gpus-per-node=2", "--cpus-per-task=2", script, *words),
        cwd=directory,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def on_processors(directory: Path) -> dict[str, str]:
    """The variables with which every script of the project trains on CPUs, in this environment."""
    return {
        "CCLTUI_SITE": "generic",
        "SITE_DEVICE": "cpu",
        "SITE_SCRATCH": str(directory / "scratch"),
        "VENV_DIR": sys.prefix,
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }


def log_of(workload: Workload, job: str) -> str:
    """What a job has printed."""
    (path,) = workload.traces.parent.glob(f"logs/*_{job}.out")
    return path.read_text(errors="replace")
