"""Write ``profile_summary.json``: the five longest ranges and calls, and notable findings."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from gpt2_run.stats_tables import Table

_KINDS: Final = {"nvtx_sum": ("nvtx", "Range"), "osrt_sum": ("osrt", "Name")}
_TOP: Final = 5
_GRADIENTS: Final = "allreduce_gradients"
_MUCH_PERCENT: Final = 20.0
_FROM_METRICS: Final = {
    "world_size": ("hardware", "world_size"),
    "gpu": ("hardware", "gpu_name"),
    "cuda": ("env", "cuda_version"),
    "torch": ("env", "torch_version"),
    "deepspeed": ("env", "deepspeed_version"),
    "slurm_job_id": ("scheduler", "job_id"),
    "seq_length": ("training_config", "seq_len"),
    "micro_batch_size_per_gpu": ("training_config", "micro_batch_size_per_gpu"),
    "grad_accum_steps": ("training_config", "grad_accum_steps"),
    "tokens_per_sec": ("summary", "mean_tokens_per_sec_global"),
    "total_wall_time_sec": ("summary", "total_wall_time_sec"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a table. ``time_percent`` is the share of all rows, which nest: never add them."""

    kind: str
    name: str
    time_percent: float
    total_time: str
    raw: str


def top_of(tables: Mapping[str, Table]) -> dict[str, list[Entry]]:
    """Return the longest rows of the NVTX and OS runtime tables; [] without a table.

    Raises KeyError or ValueError where a table has no such columns.
    """
    return {
        f"{kind}_top5": _top(tables.get(report), kind, name)
        for report, (kind, name) in _KINDS.items()
    }


def _top(table: Table | None, kind: str, name: str) -> list[Entry]:
    if table is None:
        return []
    total, share, place = table.times_ns("Total Time"), table.shares("Time"), table.place(name)
    order = sorted(range(len(total)), key=lambda row: -total[row])[:_TOP]
    return [
        Entry(
            kind=kind,
            name=table.rows[row][place],
            time_percent=share[row],
            total_time=f"{total[row]} ns",
            raw=" ".join(table.rows[row]),
        )
        for row in order
    ]


@dataclass(frozen=True, slots=True)
class Summary:
    """Content of the file; ``metrics`` is ``training_metrics.json`` of the run, or empty."""

    run_dir: Path
    per_file: Mapping[str, dict[str, list[Entry]]]
    reports: Sequence[str]
    metrics: Mapping[str, Any]

    def document(self) -> dict[str, Any]:
        """Return the content of the file; of several hosts the ranges of the first are used."""
        first = next(iter(self.per_file.values()))
        gradients = next((one for one in first["nvtx_top5"] if _GRADIENTS in one.name), None)
        return {
            "generated_at_utc": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}",
            "run_dir": str(self.run_dir),
            "hosts": [
                name.removeprefix("nsys_stats_").removesuffix(".txt") for name in self.per_file
            ],
            **{key: self._from_metrics(*path) for key, path in _FROM_METRICS.items()},
            "nsys_report": list(self.reports),
            "inputs": [f"profiles/{name}" for name in self.per_file],
            **{kind: [asdict(one) for one in entries] for kind, entries in first.items()},
            "likely_bottleneck": _bottleneck(gradients),
            "per_file": {
                name: {kind: [asdict(one) for one in entries] for kind, entries in top.items()}
                for name, top in self.per_file.items()
            },
        }

    def _from_metrics(self, *path: str) -> Any:
        value: Any = self.metrics
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


def _bottleneck(gradients: Entry | None) -> dict[str, Any]:
    if gradients is None:
        return {"allreduce_gradients_over_20pct": False}
    return {
        "allreduce_gradients_over_20pct": gradients.time_percent > _MUCH_PERCENT,
        "matched": {
            "name": gradients.name,
            "time_percent": gradients.time_percent,
            "total_time": gradients.total_time,
        },
    }
