#!/usr/bin/env python
"""Measure a cluster before training on it: network, GPUs, storage, processors, memory.

Started by torchrun on every node, or alone on one. Rank 0 writes logs/benchmark_JOBID.yaml.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from cluster_benchmark import collectives, devices, host, network, report, storage
from cluster_benchmark.row import Row
from cluster_benchmark.world import World, join, leave

PARTS = ("network", "gpu", "collectives", "storage", "cpu")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts asked for; return 1 if one of them failed (the others are in the file)."""
    options = _parser().parse_args(arguments)
    began, started = datetime.datetime.now(), time.perf_counter()
    world = join(options.device)
    try:
        rows, problems = _measure(world, options)
        if world.rank == 0:
            about = _about(world, began.isoformat(), time.perf_counter() - started)
            job = about.job_id or "local"
            path = options.output or Path("logs") / f"benchmark_{job}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(report.text_of(about, rows), encoding="utf-8")
            _say(f"{len(rows)} values in {path}")
            for problem in problems:
                _say(f"error: {problem}")
    finally:
        leave()
    return 1 if problems else 0


def _measure(world: World, options: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """Return rows of all parts, and the errors; every rank takes part in every part."""
    message = options.message_mib << 20
    plan = storage.Plan(options.storage, options.storage_mib << 20, options.storage_workers)
    parts: dict[str, Callable[[], list[Row]]] = {
        "network": lambda: network.measure(world, message),
        "gpu": lambda: devices.measure(world),
        "collectives": lambda: collectives.measure(world, message),
        "storage": lambda: _storage(world, plan),
        "cpu": lambda: _once_a_host(world, host.measure),
    }
    rows: list[Row] = []
    problems: list[str] = []
    for name in options.parts:
        if world.rank == 0:
            _say(f"{name} …")
        try:
            rows += parts[name]()
        except (OSError, RuntimeError) as error:
            if name in ("network", "collectives"):
                raise  # the other ranks wait for this one: only the launcher can end them
            problems.append(f"{name}: {error}")
    return rows, [problem for found in world.gathered(problems) for problem in found]


def _once_a_host(world: World, measured: Callable[[], list[Row]]) -> list[Row]:
    """Measure each host by its first rank; an exception there is raised on every rank."""
    rows: list[Row] = []
    problem = None
    if world.leads:
        try:
            rows = [row.on(world.host) for row in measured()]
        except OSError as error:
            problem = f"{world.host}: {error}"
    found = world.gathered((rows, problem))
    problems = [one for _, one in found if one is not None]
    if problems:
        raise OSError("; ".join(problems))
    return [row for rows_of_rank, _ in found for row in rows_of_rank]


def _storage(world: World, plan: storage.Plan) -> list[Row]:
    rows = _once_a_host(world, lambda: storage.measure(plan))

    def everywhere(seconds: float) -> list[float]:
        found = world.gathered(seconds if world.leads else None)
        return [one for one in found if one is not None]

    if world.leads:
        together = storage.measure_together(plan, world.barrier, everywhere)
    else:
        together = []
        for _ in range(2):  # what the first rank of a host waits for, the others pass through
            world.barrier()
            everywhere(0.0)
    of_first: list[Row] = world.gathered(together)[0]
    return rows + of_first


def _about(world: World, timestamp: str, total_s: float) -> report.About:
    cuda = world.device.type == "cuda"
    versions = {"python": platform.python_version(), "torch": str(torch.__version__)}
    if cuda:
        versions["cuda"] = str(torch.version.cuda)
        versions["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return report.About(
        timestamp=timestamp,
        hostname=world.host,
        total_s=total_s,
        job_id=os.environ.get("SLURM_JOB_ID"),
        device=world.device.type,
        backend=world.backend,
        gpu_name=torch.cuda.get_device_name(world.device) if cuda else None,
        hosts=world.nodes,
        world_size=world.size,
        versions=versions,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="default: all")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="default: cuda if there is one")
    parser.add_argument("--output", type=Path, help="default: logs/benchmark_JOBID.yaml")
    parser.add_argument(
        "--message-mib", type=_count, default=256, help="of a message; default: 256"
    )
    parser.add_argument("--storage", type=Path, default=Path(), help="folder to write in")
    parser.add_argument("--storage-mib", type=_count, default=1024, help="a file; default: 1024")
    parser.add_argument("--storage-workers", type=_count, default=16, help="default: 16")
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 on")
    return value


def _say(text: str) -> None:
    print(f"benchmark: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
