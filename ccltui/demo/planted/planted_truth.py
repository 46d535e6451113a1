"""Known answer of a planted job: what is wrong, who it is, and what it costs."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ccltui.demo.planted.job_spec import ALL_STAGES, VERDICT_OF, Fault, JobSpec, Verdict
from ccltui.demo.planted.tape import Simulation
from ccltui.demo.planted.training_steps import (
    FIRST_STEP,
    run_job,
    step_time_ns,
    step_times_ns,
)

MATERIAL = 0.01
"""Share of the step below which a fault is not worth a verdict."""


class FaultTruth(Struct, frozen=True):
    """One fault and its cost.

    Attributes:
        verdict: Its class.
        cause: The kind of fault as planted.
        ranks: Culprits; for a pair or group all its members, () if it is nobody.
        stage: Of a heavy stage.
        host: Name of the host, where all its ranks are slow.
        pair: Both ranks of a slow pair of a pipeline.
        group: Members of a slow group.
        steps: As numbered in ``ProfilerStep#N``; None for all.
        factor: As planted.
        cost_ms: Step time less the step time of the same draws without this fault, per step.
        removed_ms: The same where the work is taken away instead of shared out (heavy stages).
        shared_ms: The same where the work is shared out over stages, for heavy stages and what
            cannot be told from them; None for all else.
        also_right: Other classes that describe it as well, where the layout leaves no difference.
        step_costs_ms: The same as ``cost_ms`` for each step.
    """

    verdict: Verdict
    cause: str
    ranks: tuple[int, ...]
    stage: int | None
    host: str | None
    pair: tuple[int, ...] | None
    group: tuple[int, ...] | None
    steps: tuple[int, ...] | None
    factor: float
    cost_ms: float
    removed_ms: float
    shared_ms: float | None = None
    also_right: tuple[str, ...] = ()
    step_costs_ms: tuple[float, ...] = ()


class PlantedTruth(Struct, frozen=True):
    """Known answer of a job.

    Attributes:
        verdict: Class of the most expensive fault; ``no_straggler`` if none costs 1 % of the step.
        steps: Steps of the job.
        step_ms: Mean step.
        clean_step_ms: The same without faults.
        host_ms: What waiting for hosts costs without faults, per step.
        jitter_ms: What random variation costs without faults, per step.
        faults: In order of their cost, the most expensive first.
        ranks: Ranks of the job.
        recorded: Ranks with a file.
        damage: What the files lack, in words.
    """

    verdict: Verdict
    steps: int
    step_ms: float
    clean_step_ms: float
    host_ms: float
    jitter_ms: float
    faults: tuple[FaultTruth, ...]
    ranks: tuple[int, ...]
    recorded: tuple[int, ...]
    damage: tuple[str, ...]

    @property
    def step_ids(self) -> range:
        """Steps as numbered in ``ProfilerStep#N``."""
        return range(FIRST_STEP, FIRST_STEP + self.steps)

    @property
    def cost_ms(self) -> float:
        """Cost of the most expensive fault per step."""
        return self.faults[0].cost_ms if self.faults else 0.0

    @property
    def cost_share(self) -> float:
        """The same as a share of the step."""
        return self.cost_ms / self.step_ms

    def document(self) -> dict[str, Any]:
        """As plain values."""
        document: dict[str, Any] = to_builtins(self)
        return document | {"cost_ms": self.cost_ms, "cost_share": self.cost_share}


def known_truth(spec: JobSpec, job: Simulation) -> PlantedTruth:
    """Answer for a simulated job, by simulating it without its faults."""
    clean = spec.without_faults()
    clean_job = run_job(clean)[0] if spec.faults else job
    step_ns, clean_ns = step_time_ns(job), step_time_ns(clean_job)
    free_ns = step_time_ns(run_job(replace(clean, free_hosts=True))[0])
    even_ns = step_time_ns(run_job(replace(clean, jitter=0.0, expert_jitter=0.0))[0])
    faults = [_fault(spec, fault, job, clean_job) for fault in spec.faults]
    faults.sort(key=lambda fault: -fault.cost_ms)
    material = bool(faults) and faults[0].cost_ms * 1e6 >= MATERIAL * step_ns
    verdict: Verdict = faults[0].verdict if material else "no_straggler"
    missing = {item.rank for item in spec.damage if item.kind == "missing"}
    return PlantedTruth(
        verdict,
        spec.steps,
        step_ns / 1e6,
        clean_ns / 1e6,
        (clean_ns - free_ns) / 1e6,
        max(0.0, clean_ns - even_ns) / 1e6,
        tuple(faults),
        tuple(range(spec.world_size)),
        tuple(rank for rank in range(spec.world_size) if rank not in missing),
        tuple(f"{item.kind} of rank {item.rank}" for item in spec.damage),
    )


def _fault(spec: JobSpec, fault: Fault, job: Simulation, clean: Simulation) -> FaultTruth:
    others = tuple(other for other in spec.faults if other is not fault)
    removed = run_job(replace(spec, faults=others))[0] if others else clean
    step_ns, removed_ns = step_time_ns(job), step_time_ns(removed)
    also_right = _also_right(spec, fault)
    mended, shared_ns = removed, None
    if "heavy_stage" in (fault.kind, *also_right):
        shared = run_job(replace(spec, faults=(*others, _even(spec, fault))))[0]
        shared_ns = step_time_ns(shared)
        mended = shared if fault.kind == "heavy_stage" else removed
    costs = zip(step_times_ns(job), step_times_ns(mended), strict=True)
    verdict = VERDICT_OF[fault.kind]
    nobody = verdict in ("uneven_microbatches", "random", "no_straggler")
    host = spec.host_name(fault.ranks[0]) if fault.kind == "slow_node" else None
    return FaultTruth(
        verdict,
        fault.kind,
        () if nobody else fault.ranks,
        fault.stage,
        host,
        fault.ranks if fault.kind == "slow_pair" else None,
        fault.ranks if fault.kind == "slow_group" else None,
        None if fault.steps is None else tuple(FIRST_STEP + step for step in fault.steps),
        fault.factor,
        (step_ns - step_time_ns(mended)) / 1e6,
        (step_ns - removed_ns) / 1e6,
        None if shared_ns is None else (step_ns - shared_ns) / 1e6,
        also_right,
        tuple((one - other) / 1e6 for one, other in costs),
    )


def _even(spec: JobSpec, fault: Fault) -> Fault:
    """The same work, shared out over all stages."""
    if fault.kind == "heavy_stage":
        return replace(fault, stage=ALL_STAGES, factor=1 + (fault.factor - 1) / spec.pp)
    share = len(fault.ranks) / spec.world_size
    return replace(fault, ranks=(), factor=1 + (fault.factor - 1) * share)


def _also_right(spec: JobSpec, fault: Fault) -> tuple[str, ...]:
    """Classes between which the layout or the recording of the job leaves no difference."""
    if fault.kind == "uneven_experts" and (
        spec.exchange == "deepep" or spec.level != "full" or spec.graphs
    ):
        return ("slow_worker",)  # nothing states how many tokens were sent
    if fault.kind == "slow_worker" and spec.pp == spec.world_size:
        return ("heavy_stage",)
    if fault.kind == "heavy_stage" and spec.pp == spec.world_size:
        return ("slow_worker",)
    stage = {rank for rank in range(spec.world_size) if spec.place(rank)[0] == fault.stage}
    hosts = {spec.host_of(rank) for rank in stage}
    if fault.kind == "heavy_stage" and len(hosts) == 1:
        whole = {r for r in range(spec.world_size) if spec.host_of(r) in hosts}
        return ("slow_node",) if whole == stage else ()
    if fault.kind == "slow_node":
        stages = {spec.place(rank)[0] for rank in fault.ranks}
        members = sum(spec.place(rank)[0] in stages for rank in range(spec.world_size))
        if spec.pp > 1 and members == len(fault.ranks):  # of these stages no rank is elsewhere
            return ("heavy_stage",)
    return ()
