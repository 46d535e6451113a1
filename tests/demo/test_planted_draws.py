"""Jobs that are drawn from seeds have what is asked for."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest

from ccltui.demo.planted import random_spec
from ccltui.demo.planted.job_spec import (
    CAN_HAVE,
    MORE_WEIGHTS,
    VERDICT_OF,
    WEIGHTS,
    Condition,
    Family,
    FaultKind,
    Level,
    Times,
    condition_of,
)

DRAWN = [kind for kind in get_args(FaultKind) if kind != "decoy"]


@pytest.mark.parametrize("condition", get_args(Condition))
def test_a_condition_is_kept(condition: Condition) -> None:
    jobs = [random_spec(seed, condition=condition) for seed in range(60)]

    assert {condition_of(job) for job in jobs} == {condition}


@pytest.mark.parametrize("fault", DRAWN)
def test_a_fault_is_drawn_on_a_layout_that_can_have_it(fault: FaultKind) -> None:
    for seed in range(20):
        job = random_spec(seed, fault=fault)
        assert job.faults[0].kind == fault
        assert CAN_HAVE[fault](job)
        assert all(0 <= rank < job.world_size for rank in job.faults[0].ranks)


def test_every_kind_and_family_is_drawn() -> None:
    jobs = [random_spec(seed) for seed in range(400)]

    kinds = Counter(fault.kind for job in jobs for fault in job.faults)
    assert set(kinds) == set(WEIGHTS) | {"decoy"}
    assert {job.family for job in jobs} == set(get_args(Family))
    assert {job.world_size for job in jobs} >= {2, 4, 8, 16, 32}
    assert {job.level for job in jobs} == {"full", "no_groups", "names", "no_host"}
    damage = {item.kind for job in jobs for item in job.damage}
    assert damage == {"late", "early", "dropped", "missing", "names_only"}


def test_varied_jobs_have_each_of_the_less_usual_programs_and_recorders() -> None:
    jobs = [random_spec(seed, varied=True) for seed in range(400)]

    kinds = {fault.kind for job in jobs for fault in job.faults}
    assert kinds == set(MORE_WEIGHTS) | {"decoy"} == set(VERDICT_OF)
    assert {job.level for job in jobs} == set(get_args(Level))
    assert {job.times for job in jobs} == set(get_args(Times))
    for name in ("one_kernel", "batched", "ring", "graphs", "hidden_waits"):
        assert {getattr(job, name) for job in jobs} == {True, False}
    assert {job.schedule for job in jobs if job.coalesced} == {"1f1b", "gpipe"}


def test_ranks_and_family_are_kept() -> None:
    job = random_spec(1, family="pp", ranks=16, level="names")

    assert (job.family, job.world_size, job.level) == ("pp", 16, "names")


def test_a_slow_node_is_one_host_and_a_stage_one_stage() -> None:
    for seed in range(20):
        node = random_spec(seed, fault="slow_node")
        assert len({node.host_of(rank) for rank in node.faults[0].ranks}) == 1
        assert len(node.faults[0].ranks) == node.gpus_per_node
        heavy = random_spec(seed, fault="heavy_stage")
        stages = {heavy.place(rank)[0] for rank in heavy.faults[0].ranks}
        assert stages == {heavy.faults[0].stage}
