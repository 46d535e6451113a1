"""Measure the first metric of a large export of Nsight Systems, without a cache."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from bench.measure import Command, Run, RunError, Spread, run

METRIC = "coll_call_num"
_EXPORT_NAME = "node.sqlite"


class FirstMetric(Struct, frozen=True):
    """Cost of ``ccltui FILE --metric coll_call_num`` without a cache, as whole processes."""

    size_bytes: int
    cpu_s: Spread
    wall_s: Spread
    peak_mib: Spread  # of the largest process


def first_metric(
    folder: Path, megabytes: int, rounds: int, *, log: Callable[[str], None]
) -> FirstMetric:
    """Write the export if it is absent, then measure. Raises RunError."""
    export = folder / f"nsys-{megabytes}" / _EXPORT_NAME
    if not export.exists():
        export.parent.mkdir(parents=True, exist_ok=True)
        run(Command.child("make_nsys", export, megabytes))
    runs: list[Run] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="store-", dir=folder) as store:
            done = run(Command.child("metric", export, METRIC, store))
        if done.output["value"] is None:
            raise RunError(f"{METRIC} of {export} has no value")
        runs.append(done)
        log(f"  nsys: {done.wall_s:.2f} s, {done.cpu_s:.2f} CPU-s, {done.peak_mib:.0f} MiB")
    return FirstMetric(
        export.stat().st_size,
        Spread.of([one.cpu_s for one in runs]),
        Spread.of([one.wall_s for one in runs]),
        Spread.of([one.peak_mib for one in runs]),
    )
