"""Measure the reading of NCCL Inspector logs of many ranks and hours, and their reopening.

    python -m bench.inspector FOLDER [--ranks N] [--hours H] [--workers N]

Writes logs with a planted late rank and a slow group (23 GB for 64 ranks and 24 hours; logs of the
same size that are there already are used), then asks for both metrics, first with an empty store.
Prints records, CPU seconds, records a CPU second, wall seconds and the largest sum of the memory
of all processes (PSS) in MiB, and whether what was planted is found.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import asdict

from bench.inspector_logs import LogSpec, write_inspector_logs

_LOOK_S: Final = 0.25


def main(arguments: Sequence[str] | None = None) -> int:
    """Write logs, measure, and print one JSON line for each opening."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--workers", type=int, default=2, help="processes that write the logs")
    options = parser.parse_args(arguments)
    hours = options.hours
    spec = LogSpec(options.ranks, hours, late_hours=(hours * 5 / 24, hours * 9 / 24))
    logs, store = options.folder / "logs", options.folder / "store"
    if not _is_there(logs, spec):
        write_inspector_logs(logs, spec, workers=options.workers)
    shutil.rmtree(store, ignore_errors=True)
    is_right = True
    for name in ("first", "again"):
        cost = _measured(logs, store, options.folder / f"{name}.json")
        found = json.loads((options.folder / f"{name}.json").read_text())
        right = _names_what_is_planted(found, spec)
        is_right = is_right and right
        rate = round(spec.num_records / cost["cpu_s"])
        row = {"opening": name, "records": spec.num_records, **cost, "records_per_cpu_s": rate}
        print(json.dumps({**row, "planted_found": right}))
    return 0 if is_right else 1


def _is_there(logs: Path, spec: LogSpec) -> bool:
    try:
        truth = json.loads((logs / "truth.json").read_text())
    except (OSError, ValueError):
        return False
    wanted = json.loads(json.dumps(asdict(spec)))
    return all(truth.get(name) == value for name, value in wanted.items())


def _measured(logs: Path, store: Path, output: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "ccltui", str(logs), "--cache-dir", str(store)]
    command += ["--metric", "duration_lag", "--metric", "inspector_busbw"]
    command += ["--format", "json", "--output", str(output)]
    before, started = _cpu_s(), time.perf_counter()
    process = subprocess.Popen(command)
    peak_kib = 0
    while process.poll() is None:
        peak_kib = max(peak_kib, sum(map(_pss_kib, _tree(process.pid))))
        time.sleep(_LOOK_S)
    return {
        "cpu_s": round(_cpu_s() - before, 2),
        "wall_s": round(time.perf_counter() - started, 2),
        "peak_mib": round(peak_kib / 1024, 1),
    }


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tree(root: int) -> list[int]:
    """Return a process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(place.name))
    found, waiting = [], [root]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += children.get(one, [])
    return found


def _pss_kib(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _names_what_is_planted(found: dict[str, Any], spec: LogSpec) -> bool:
    """Whether the late rank and the slow group are named, and nobody else."""
    metrics = {one["metric"]: one["details"] for one in found["results"]}
    slow = metrics["inspector_busbw"]["slow_groups"]
    wanted = [str(rank) for rank in range(spec.slow_group, spec.ranks, 8)]
    late = metrics["duration_lag"]["late_ranks"] == [str(spec.late_rank)]
    return late and bool(slow) and all(one == wanted for one in slow)


if __name__ == "__main__":
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parent.parent)
    raise SystemExit(main())
