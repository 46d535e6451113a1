"""The delayed rank, its cause and the groups that spread the lag are found in the traces."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recovery import Recovered, quick, recover

from bench.culprits import VERDICTS as EXPECTED
from ccltui.demo import SlowLink, Straggler, profiler_names
from ccltui.metrics.collectives.matching.match import MEDIUM
from ccltui.metrics.findings.causes.cause_search import Link, job_causes
from ccltui.metrics.findings.causes.chain import PIPELINE, chain_of
from ccltui.metrics.findings.causes.instance_report import describe

SHAPES: dict[str, dict[str, Any]] = {
    "tensor parallel": {"tp": 4, "pp": 1, "dp_shard": 1},
    "data parallel": {"tp": 1, "pp": 1, "dp_shard": 4},
    "three dimensions": {},
    "hybrid sharding": {"tp": 2, "pp": 1, "dp_shard": 2, "dp_replicate": 2},
    "experts": {"experts": True},
}
COMBINED = [
    *(("hybrid sharding", cause) for cause in EXPECTED),
    *(("three dimensions", cause) for cause in ("compute", "kernel", "data_loading", "host")),
    *(("tensor parallel", cause) for cause in ("compute", "more_kernels", "copies")),
    *(("data parallel", cause) for cause in ("compute", "kernel", "operator")),
    *(("experts", cause) for cause in ("compute", "data_loading")),
]


def injected(cause: Any, shape: str, rank: int = 1, **changes: Any) -> Any:
    late = Straggler(rank, cause, extra_ns=900_000)
    more = {"jitter_ns": 1_009, "clock_offsets_ns": (5_000_000,), **SHAPES[shape], **changes}
    return quick(stragglers=(late,), **more)


def chains(found: Recovered) -> list[tuple[int, tuple[Link, ...]]]:
    """(lag, chain) of every collective that blames a rank."""
    causes = job_causes(found.view)
    return [
        (int(group.lag_ns[row]), chain_of(causes, number, int(row)))
        for number, group in enumerate(found.view.arrivals.groups)
        for row in np.flatnonzero(group.last >= 0)
    ]


def assert_root(found: Recovered, rank: int, cause: str) -> None:
    """All lag but that of the pipeline's order goes back to one rank and cause."""
    wrong = Counter[tuple[str, str, int]]()
    total = right = 0
    for lag_ns, chain in chains(found):
        root = chain[-1]
        if root.cause == PIPELINE:
            continue
        total += lag_ns
        if (root.label, root.cause) == (str(rank), cause):
            right += lag_ns
        else:
            wrong[root.label, root.cause, root.confidence] += lag_ns
    assert total > 0
    assert right >= 0.98 * total, wrong
    assert not [key for key in wrong if key[2] >= MEDIUM], wrong


@pytest.mark.parametrize(("shape", "cause"), COMBINED)
def test_rank_and_cause_are_found(tmp_path: Path, shape: str, cause: str) -> None:
    assert_root(recover(tmp_path, injected(cause, shape)), 1, EXPECTED[cause])


@pytest.mark.parametrize("shape", ["three dimensions", "data parallel"])
def test_experts_with_more_tokens_have_more_work(tmp_path: Path, shape: str) -> None:
    found = recover(tmp_path, injected("tokens", shape, experts=True))

    assert_root(found, 1, "unequal_work")


@pytest.mark.parametrize("rank", range(8))
def test_any_rank_of_three_dimensions(tmp_path: Path, rank: int) -> None:
    assert_root(recover(tmp_path, injected("kernel", "three dimensions", rank)), rank, "compute")


@pytest.mark.parametrize("metadata", ["comms_id", "no_seq", "cpu_side"])
def test_with_less_metadata(tmp_path: Path, metadata: str) -> None:
    found = recover(tmp_path, injected("compute", "hybrid sharding", metadata=metadata))

    assert_root(found, 1, "compute")


@pytest.mark.parametrize(
    ("cause", "kernel"),
    [("more_kernels", "elementwise"), ("kernel", "attention")],
)
def test_the_kernel_is_named(tmp_path: Path, cause: str, kernel: str) -> None:
    found = recover(tmp_path, injected(cause, "tensor parallel", jitter_ns=0))

    group = found.view.arrivals.groups[0]
    told = Counter[str]()
    for row in np.flatnonzero(group.last >= 0):
        evidence = describe(found.view, 0, int(row)).evidence
        assert evidence is not None
        told[evidence.kernels[0].name] += 1
    wanted = {profiler_names.KERNELS[kernel], profiler_names.kernel(kernel, "nccl", backward=True)}
    assert told
    assert set(told) <= wanted


def test_from_data_through_pipeline_to_tensor_parallelism(tmp_path: Path) -> None:
    # rank 5 is slow: rank 4, its tensor-parallel mate, sends its gradients late to rank 0 of the
    # first stage, which is late at the reduce-scatter with rank 2
    found = recover(tmp_path, injected("compute", "three dimensions", rank=5))

    dims = Counter[tuple[tuple[str, str], ...]]()
    for _, chain in chains(found):
        if chain[0].label == "0" and chain[-1].cause == "compute":
            dims[tuple((link.label, found.view.groups[link.group].dim) for link in chain)] += 1
    assert dims
    assert max(dims, key=lambda key: dims[key]) == (("0", "dp"), ("4", "pp"), ("5", "tp"))


def test_each_link_explains_no_more_than_the_one_before(tmp_path: Path) -> None:
    found = recover(tmp_path, injected("compute", "three dimensions", rank=5))

    for lag_ns, chain in chains(found):
        lags = [link.lag_ns for link in chain]
        assert lags[0] == lag_ns
        assert lags == sorted(lags, reverse=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_quiet_job_blames_no_rank(tmp_path: Path, shape: str) -> None:
    found = recover(tmp_path, quick(clock_offsets_ns=(5_000_000,), **SHAPES[shape]))

    assert {chain[-1].cause for _, chain in chains(found)} <= {PIPELINE}
    result = found.metric("straggler_cause")
    assert result.status == "ok"
    assert set(result.details["causes"]) <= {"previous_collective"}


def test_the_turn_of_a_pipeline_is_no_cause(tmp_path: Path) -> None:
    found = recover(tmp_path, quick(tp=1, pp=4, dp_shard=1, layers=4, micro_batches=6))

    roots = found.metric("blame_chain").details
    assert roots["inherited_lag_ratio"] == 0.0
    assert {row["cause"] for row in roots["roots"]} <= {PIPELINE, "unknown"}
    assert {row["confidence"] for row in roots["roots"]} <= {"low"}


def test_a_slow_link_of_another_group_is_distinguished_from_waiting(tmp_path: Path) -> None:
    # the pair of ranks 2 and 3 is slow: both come late to data parallelism, and nobody is to blame
    spec = quick(
        tp=2, pp=1, dp_shard=2, slow_links=(SlowLink("tp", 3, 300_000),), world_allreduce=False
    )

    found = recover(tmp_path, spec)

    assert {chain[-1].cause for _, chain in chains(found)} == {"slow_transfer"}
    assert {chain[0].label for _, chain in chains(found)} == {"2", "3"}


def test_one_stall_beside_a_slow_rank(tmp_path: Path) -> None:
    spec = quick(
        tp=4,
        pp=1,
        dp_shard=1,
        stragglers=(
            Straggler(1, "compute", extra_ns=900_000),
            Straggler(2, "garbage_collection", extra_ns=7_000_000, steps=(1,)),
        ),
    )

    result = recover(tmp_path, spec).metric("straggler_cause")

    worst = result.details["worst"][0]
    assert (worst["last"], worst["cause"], worst["step"]) == ("2", "garbage_collection", 11)
    assert list(result.details["per_rank"]["1"]) == ["compute"]
    assert result.value == pytest.approx(1.0, abs=0.02)
    assert "while the host collects garbage" in worst["why"]
    assert worst["host"][0]["name"].startswith("<built-in method collect")


def test_the_causes_of_the_demo(tmp_path: Path) -> None:
    found = recover(tmp_path, type(quick())())

    roots = found.metric("blame_chain").details["roots"]
    blamed = {(row["rank"], row["cause"]) for row in roots if row["confidence"] != "low"}
    assert ("1", "compute") in blamed
    assert ("6", "data_loading") in blamed
    assert blamed <= {("1", "compute"), ("6", "data_loading")}


def test_lag_of_other_stages_is_counted_apart(tmp_path: Path) -> None:
    # the first stage ends last, as the schedule has it; nobody is late among its like
    found = recover(tmp_path, quick(tp=1, pp=2, dp_shard=2)).metric("straggler_cause").details

    assert found["blamed_lag_ms"] > 0
    assert found["other_stages_lag_ms"] == pytest.approx(found["blamed_lag_ms"])
