"""Print the CPU time of ``ccltui index`` on a private Slurm next to that on this machine.

python tests/slurm/index_cost.py [--ranks 64] [--rank-size 9] [--repeats 3]

The accounting of Slurm counts the jobs, the kernel the command that waits. Workers of dask are
killed in the end, which leaves nothing in the accounting: they are looked at five times a second.
Each row is the least of all repeats, which alternate: on a machine in use one run differs from the
next by a tenth.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from cluster import Cluster, private_directory
from daemons import processes_with
from presence import why_not

NODES = 4
WORKERS = 4
ENGINES: dict[str, tuple[str, ...]] = {
    "local, 1 process": ("--jobs", "1"),
    "local, 4 processes": ("--jobs", "4"),
    "slurm, tasks by size": ("--engine", "slurm"),
    "slurm, 4 tasks": ("--engine", "slurm", "--ranks-per-task", "16"),
    "dask, workers by size": ("--engine", "dask"),
    "dask, 4 workers": ("--engine", "dask", "--jobs", str(WORKERS)),
}


def columns(store: Path) -> dict[str, bytes]:
    """Return the content of every file of columns of a store, by its path there.

    A task that is killed while it writes leaves a hidden folder, which is removed when it is old.
    """
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in sorted(store.glob("[!.]*/columns.bin"))
    }


def cpu_of_jobs(cluster: Cluster, since: int) -> tuple[float, int]:
    """Return the CPU-s of all jobs from a number on, once they have ended, and their number."""
    deadline = time.monotonic() + 60
    while True:
        told = cluster.run(
            *("sacct", "-n", "-P", "-X", "--format=JobIDRaw,State", "-S", "now-1hours")
        ).stdout.split()
        states = [row.split("|") for row in told if "|" in row]
        mine = {number: state for number, state in states if int(number) >= since}
        if not any(state in {"RUNNING", "PENDING"} for state in mine.values()):
            break
        if time.monotonic() > deadline:
            raise TimeoutError(f"jobs that do not end: {mine}")
        time.sleep(0.5)
    steps = cluster.run(
        *("sacct", "-n", "-P", "--format=JobIDRaw,TotalCPU", "-S", "now-1hours")
    ).stdout.split()
    total = 0.0
    for row in steps:
        name, _, spent = row.partition("|")
        number, _, step = name.partition(".")
        if step and int(number) >= since:
            total += _seconds(spent)
    return total, len(mine)


def _seconds(text: str) -> float:
    """Convert [days-][hours:]minutes:seconds as sacct prints them."""
    days, _, rest = text.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = 60 * total + float(part)
    return total + 86400 * int(days or 0)


def next_job(cluster: Cluster) -> int:
    """Return the number that the next job gets at least."""
    told = cluster.run("scontrol", "show", "config").stdout
    line = next(line for line in told.splitlines() if line.startswith("NEXT_JOB_ID"))
    return int(line.partition("=")[2])


def cost(cluster: Cluster, job: Path, store: Path, options: Sequence[str]) -> tuple[float, int]:
    """Index into an empty store; return CPU-s of command and jobs, and the number of jobs.

    Raises:
        subprocess.CalledProcessError: The command failed.
    """
    shutil.rmtree(store, ignore_errors=True)
    first = next_job(cluster)
    before = os.times()
    command = [sys.executable, "-m", "ccltui", "index", str(job), "--store", str(store), *options]
    sampled: dict[int, float] = {}
    with subprocess.Popen(
        command,
        env=cluster.environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while process.poll() is None:
            if "dask" in options:
                sampled.update(_cpu_of_workers(cluster))
            time.sleep(0.2)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    after = os.times()
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    in_jobs, number = cpu_of_jobs(cluster, first)
    return spent + max(in_jobs, sum(sampled.values())), number


def _cpu_of_workers(cluster: Cluster) -> dict[int, float]:
    """Return the CPU-s so far of each process of Python in a job."""
    found = {}
    for pid in processes_with(f"SLURM_CONF={cluster.plan.conf}"):
        with contextlib.suppress(OSError, ValueError):
            folder = Path(f"/proc/{pid}")
            if b"SLURM_JOB_ID=" not in (folder / "environ").read_bytes():
                continue
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            found[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--rank-size", type=float, default=9, help="MB")
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args(arguments)
    reason = why_not()
    if reason is not None:
        print(f"no Slurm here: {reason}", file=sys.stderr)
        return 1
    with private_directory() as directory, tempfile.TemporaryDirectory() as scratch:
        job, store = Path(scratch) / "job", Path(scratch) / "store"
        site = Path(scratch) / "site.sh"
        site.write_text("SITE_ACCOUNT=m1234\nSITE_ANALYSIS_QOS=debug\n")
        demo = [sys.executable, "-m", "ccltui", "demo", str(job), "--no-open"]
        demo += [f"--ranks={chosen.ranks}", f"--rank-size={chosen.rank_size}"]
        subprocess.run(demo, check=True, stderr=subprocess.DEVNULL)
        cluster = Cluster(directory, nodes=NODES)
        cluster.start()
        try:
            _print_table(cluster, job, store, site, chosen.repeats)
        finally:
            cluster.stop()
    return 0


def _print_table(cluster: Cluster, job: Path, store: Path, site: Path, repeats: int) -> None:
    spent: dict[str, list[float]] = {name: [] for name in ENGINES}
    jobs: dict[str, int] = {}
    kept: dict[str, bytes] | None = None
    for _ in range(repeats):
        for name, options in ENGINES.items():
            where = ("--site", str(site)) if "dask" in options else ()
            used, jobs[name] = cost(cluster, job, store, (*options, *where))
            spent[name].append(used)
            found = columns(store)
            kept = found if kept is None else kept
            if not found or found != kept:
                raise AssertionError(f"{name}: other columns than on this machine")
    text = sum(file.stat().st_size for file in job.rglob("*") if file.is_file())
    print(f"{text / 1e6:,.0f} MB of traces, {len(kept or ())} entries, equal on all engines")
    least = min(spent["local, 1 process"])
    for name, found_s in spent.items():
        used = min(found_s)
        every = " ".join(f"{one:.2f}" for one in found_s)
        print(
            f"{name:22} {used:6.2f} CPU-s {used / least - 1:+7.1%} {jobs[name]:3} jobs  ({every})"
        )


if __name__ == "__main__":
    sys.exit(main())
