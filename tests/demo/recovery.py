"""Jobs that differ in one parameter each, and their results from readers and metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from ccltui.demo import Cut, LateStart, SlowLink, Spec, Straggler, Truth, write_job
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

QUICK = {
    "steps": 3,
    "layers": 2,
    "micro_batches": 2,
    "gemm_ns": 71_017,
    "attention_ns": 57_011,
    "grad_norm_ns": 30_011,
    "optimizer_ns": 140_009,
    "hidden": 1024,
    "seq_len": 512,
}


def quick(**changes: Any) -> Spec:
    """A small quiet job of eight ranks on two hosts, changed."""
    return Spec.quiet(**{**QUICK, **changes})


def slow(cause: Any, extra_ns: int = 900_000, steps: tuple[int, ...] | None = None) -> Spec:
    """A small job whose rank 3 is delayed."""
    return quick(stragglers=(Straggler(3, cause, extra_ns, steps),))


FAMILY: dict[str, Spec] = {
    "the demo": Spec(),
    "nothing injected": quick(),
    # shape
    "tensor parallel alone": quick(tp=4, pp=1, dp_shard=1),
    "sequence parallel": quick(pp=1, sequence_parallel=True),
    "pipeline of four": quick(tp=1, pp=4, dp_shard=1, layers=4, micro_batches=6),
    "gpipe": quick(tp=1, pp=2, dp_shard=1, micro_batches=4, pipeline="gpipe"),
    "sharded data parallel": quick(tp=1, pp=1, dp_shard=4),
    "replicated data parallel": quick(tp=1, pp=1, dp_replicate=4, dp_shard=1),
    "hybrid sharding": quick(tp=1, pp=1, dp_replicate=2, dp_shard=2),
    "experts": quick(tp=1, pp=2, dp_shard=2, experts=True),
    "ranks of three": quick(tp=3, pp=1, dp_shard=2, gpus_per_node=3),
    "one step": quick(steps=1),
    # time
    "no overlap": quick(pp=1, overlap_dp=False),
    "free running host": quick(sync_each_step=False),
    "jitter": quick(jitter_ns=7_001),
    "uneven ends": quick(end_skew_ns=3_001),
    "slow products": slow("compute"),
    "waiting for data": slow("data_loading", 4_000_000, (1,)),
    "slow stage": quick(stragglers=(Straggler(5, "compute", 900_000),), jitter_ns=1_009),
    "silent host": slow("host", 4_000_000, (2,)),
    "slow link": quick(slow_links=(SlowLink("tp", 3, 300_000),)),
    # clocks
    "second host ahead": quick(clock_offsets_ns=(0, 5_000_000), jitter_ns=2_003),
    "second host behind": quick(clock_offsets_ns=(0, -41_000_007), jitter_ns=2_003),
    "every host its own": quick(gpus_per_node=2, clock_offsets_ns=(0, 1_000_003, -7, 90_000_001)),
    "whole epochs apart": quick(clock_offsets_ns=(0, 86_400_000_000_000)),
    # writing
    "communicator ids": quick(metadata="comms_id"),
    "no sequence numbers": quick(metadata="no_seq"),
    "metadata on the host only": quick(metadata="cpu_side"),
    "labels that repeat": quick(local_group_names=True),
    "old library": quick(library="nccl_old"),
    "rccl": quick(library="rccl"),
    "one line": quick(layout="one_line"),
    "indent 4": quick(layout="indent4"),
    "metadata last": quick(layout="metadata_last"),
    "bare list": quick(layout="bare_list"),
    "whole microseconds": quick(layout="integer_us"),
    "every optional row": quick(with_python=True, with_sync_rows=True),
    "plain files": quick(compress=False),
    # losses
    "late profiler": quick(late_starts=(LateStart(rank=3, missing=4),)),
    "late profiler with orphans": quick(late_starts=(LateStart(rank=3, missing=6, orphans=2),)),
    "killed while writing": quick(cuts=(Cut(rank=6, fraction=0.9),)),
}

LOSSY = frozenset({"late profiler", "late profiler with orphans", "killed while writing"})
"""Jobs in which a rank's file lacks a part."""


class Recovered(Struct, frozen=True):
    """A job that was written and opened again."""

    truth: Truth
    view: View

    @property
    def spec(self) -> Spec:
        return self.truth.spec

    def metric(self, name: str) -> Result:
        return find(name).run(self.view)


def recover(directory: Path, spec: Spec) -> Recovered:
    """Write a job and open it as a user would."""
    truth = write_job(directory / "job", spec)
    job = open_job(directory / "job", cache_dir=directory / "cache", jobs=1)
    return Recovered(truth, View(job))


def nanoseconds(milliseconds: Any) -> int:
    """A time of a metric's details, back in whole nanoseconds."""
    rounded: int = round(milliseconds * 1e6)
    return rounded
