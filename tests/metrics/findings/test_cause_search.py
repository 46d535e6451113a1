"""Causes of lateness in small hand-written jobs with known numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from factories import Coll, Event, allreduce, copy, job, kernel, rank_trace, world

from ccltui.metrics.catalog.stragglers.straggler_cause import straggler_cause
from ccltui.metrics.findings.causes.cause_search import CAUSES, MEANINGS
from ccltui.metrics.findings.causes.evidence import shortened
from ccltui.metrics.findings.causes.instance_report import Instance, describe
from ccltui.metrics.findings.causes.roots import NOBODY_LATE
from ccltui.metrics.metric import Metric
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace

SIZE = 4
SECOND_US = 1000.0
END_US = 2200.0


def rank(number: int, between: Sequence[Event], start_us: float, **host: Any) -> RankTrace:
    """A rank with a collective at 0 to 100 µs and one from ``start_us`` to 2200 µs."""
    gpu = [
        allreduce(0, 100, Coll("allreduce", 64, 64, seq=1)),
        *between,
        allreduce(start_us, END_US - start_us, Coll("allreduce", 64, 64, seq=2)),
    ]
    ops = [Event("aten::mm", 100, 590, 1), *host.pop("cpu_ops", ())]
    # ranks of one host: their clocks are one
    return rank_trace(
        number, gpu=gpu, cpu_ops=ops, groups=[world(SIZE)], world_size=SIZE, host="a", **host
    )


def usual(number: int) -> RankTrace:
    """A rank that computes from 100 to 1000 µs in three kernels, then joins a collective."""
    return rank(number, [kernel("gemm", t, 300) for t in (100, 400, 700)], SECOND_US)


def view_of(late: RankTrace) -> View:
    ranks = [usual(number) for number in range(SIZE) if number != late.rank]
    return View(job(*ranks, late))


def second(late: RankTrace) -> Instance:
    return describe(view_of(late), 0, 1)


def test_longer_kernels() -> None:
    found = second(rank(2, [kernel("gemm", t, 600) for t in (100, 700, 1300)], 1900))

    assert (found.last, found.cause, found.lag_ns) == ("2", "compute", 900_000)
    assert found.share == 1.0
    assert found.cause_confidence == "high"
    assert found.evidence is not None
    assert found.evidence.parts_ns == {"compute": 900_000.0}
    assert found.evidence.since == (0, 0)
    assert found.evidence.segment_ns == 1_900_000
    assert found.evidence.peers_segment_ns == 1_000_000
    (worst,) = found.evidence.kernels
    assert (worst.name, worst.more_ns, worst.late_ns) == ("gemm", 900_000.0, 1_800_000)
    assert (worst.late_count, worst.peers_count) == (3, 3.0)
    assert found.why == (
        "rank 2: 900 us more computation, 900 us of it in gemm (100 % of its delay)"
    )


def test_more_kernels() -> None:
    more = [kernel("gemm", t, 300) for t in (100, 400, 700)]
    more += [kernel("small", 1000 + 10 * n, 10) for n in range(50)]

    found = second(rank(1, more, 1500))

    assert (found.last, found.cause) == ("1", "more_kernels")
    assert found.evidence is not None
    assert found.evidence.kernels[0].name == "small"
    assert "small 50 times, against 0 on its peers" in (found.why or "")


def test_a_kernel_at_the_edge_is_not_one_more() -> None:
    # the peers ran the same kernel right before the first collective, and not since
    def peer(number: int) -> RankTrace:
        gemms = [kernel("gemm", t, 300) for t in (100, 400, 700)]
        return rank(number, [kernel("cast", -700, 600), *gemms], SECOND_US)

    late = [kernel("cast", 100, 600), *(kernel("gemm", t, 300) for t in (700, 1000, 1300))]
    found = describe(View(job(*(peer(n) for n in range(3)), rank(3, late, 1600))), 0, 1)

    assert (found.last, found.cause, found.lag_ns) == ("3", "compute", 600_000)


def test_a_long_copy() -> None:
    between = [*[kernel("gemm", t, 300) for t in (100, 400, 700)], copy(1000, 600)]

    found = second(rank(0, between, 1600))

    assert (found.last, found.cause) == ("0", "copies")
    assert found.evidence is not None
    assert found.evidence.parts_ns["copies"] == 600_000.0


IDLE_KERNELS = [kernel("gemm", t, 300) for t in (100, 400, 1500)]
"""The device is idle from 700 to 1500 µs."""


@pytest.mark.parametrize(
    ("group", "name", "cause"),
    [
        ("annotations", "get_batch", "data_loading"),
        ("annotations", "save_checkpoint", "checkpoint"),
        ("python", "<built-in method collect of module object at 0x7f00>", "garbage_collection"),
        ("runtime", "cudaMalloc", "allocation"),
        ("runtime", "cudaDeviceSynchronize", "synchronisation"),
        ("cpu_ops", "aten::item", "synchronisation"),
        ("runtime", "cudaLaunchKernel", "host_blocked"),
    ],
)
def test_an_idle_device_and_what_the_host_did(group: str, name: str, cause: str) -> None:
    busy = [Event(name, 710, 780, 1)]
    late = rank(3, IDLE_KERNELS, 1800, **{group: busy})

    found = second(late)

    assert (found.last, found.cause) == ("3", cause)
    assert found.evidence is not None
    assert found.evidence.parts_ns[cause] == 780_000.0
    assert found.evidence.host[0].name == name
    assert found.share == pytest.approx(780 / 800)
    assert name in (found.why or "")


def test_a_stall_names_the_range_around_it() -> None:
    late = rank_trace(
        3,
        gpu=[
            allreduce(0, 100, Coll("allreduce", 64, 64, seq=1)),
            *IDLE_KERNELS,
            allreduce(1800, 400, Coll("allreduce", 64, 64, seq=2)),
        ],
        annotations=[Event("# sparse part #", 150, 1500, 1)],
        groups=[world(SIZE)],
        world_size=SIZE,
        host="a",
    )

    found = second(late)

    assert (found.cause, found.cause_confidence) == ("host_stall", "medium")
    assert "runs nothing that was recorded (# sparse part #)" in (found.why or "")


def test_many_small_operators_are_host_work() -> None:
    ops = [Event("aten::add", 700 + 4 * n, 3, 1) for n in range(200)]

    found = second(rank(3, IDLE_KERNELS, 1800, cpu_ops=ops))

    assert found.cause == "host_work"


def test_a_mixture_is_unknown_and_lists_its_parts() -> None:
    between = [
        *[kernel("gemm", t, 300) for t in (100, 400, 700)],
        kernel("gemm", 1000, 250),
        copy(1250, 250),
    ]
    late = rank(1, between, 1800, annotations=[Event("get_batch", 1510, 280, 1)])

    found = second(late)

    assert (found.cause, found.share, found.cause_confidence) == ("unknown", 0.0, "low")
    assert "no single cause explains half of 800 us" in (found.why or "")
    assert "waits for data 280 us" in (found.why or "")


def test_what_every_rank_does_is_no_cause() -> None:
    slow = [kernel("gemm", t, 600) for t in (100, 700, 1300)]
    ranks = [rank(n, slow, 1900) for n in range(SIZE)]

    found = describe(View(job(*ranks)), 0, 1)

    assert (found.last, found.cause, found.chain) == (None, None, ())


def test_the_first_collective_has_nothing_to_be_counted_from() -> None:
    late = rank_trace(
        1,
        gpu=[allreduce(60, 40, Coll("allreduce", 64, 64, seq=1))],
        groups=[world(2)],
        world_size=2,
        host="",
    )
    first = rank_trace(
        0,
        gpu=[allreduce(0, 100, Coll("allreduce", 64, 64, seq=1))],
        groups=[world(2)],
        world_size=2,
        host="",
    )

    found = describe(View(job(first, late)), 0, 0)

    assert (found.last, found.cause) == ("1", "unknown")
    assert found.why == (
        "unknown: the recording begins here, without an earlier collective of these ranks"
    )


def test_clocks_that_differ_change_no_number() -> None:
    slow = [kernel("gemm", t, 600) for t in (100, 700, 1300)]
    shifted = rank_trace(
        2,
        gpu=[
            allreduce(0, 100, Coll("allreduce", 64, 64, seq=1)),
            *slow,
            allreduce(1900, 300, Coll("allreduce", 64, 64, seq=2)),
        ],
        groups=[world(SIZE)],
        world_size=SIZE,
        host="b",
        shift_us=77_777,
    )

    found = second(shifted)

    assert found.cause == "compute"
    assert found.evidence is not None
    assert found.evidence.parts_ns == {"compute": 900_000.0}


def test_members_are_in_the_order_of_arrival_with_waits_and_what_they_did() -> None:
    found = second(rank(2, [kernel("gemm", t, 600) for t in (100, 700, 1300)], 1900))

    assert [member.label for member in found.members] == ["2", "0", "1", "3"]
    late, other = found.members[:2]
    assert (late.late_ns, late.start_late_ns, late.wait_ns, late.dur_ns) == (
        900_000,
        900_000,
        0,
        300_000,
    )
    assert (late.is_last, late.doing, late.doing_ns) == (True, "compute", 1_800_000)
    assert (other.wait_ns, other.is_last, other.doing_ns) == (900_000, False, 900_000)


def test_size_and_bandwidth_come_from_the_shortest_duration() -> None:
    found = second(rank(2, [kernel("gemm", t, 600) for t in (100, 700, 1300)], 1900))

    assert (found.message_bytes, found.transfer_ns, found.dtype) == (256, 300_000, "Float")
    assert found.algbw_gbps == pytest.approx(256 / 300_000)
    assert found.busbw_gbps == pytest.approx(256 / 300_000 * 1.5)
    assert (found.method, found.confidence) == ("group and sequence number", "high")


def test_an_instance_that_does_not_exist() -> None:
    with pytest.raises(IndexError, match="instance 2 of 2"):
        describe(view_of(usual(2)), 0, 2)


def test_the_metric_adds_up() -> None:
    late = rank(2, [kernel("gemm", t, 600) for t in (100, 700, 1300)], 1900)

    result = straggler_cause.run(view_of(late))

    details = result.details
    assert (result.status, result.value) == ("ok", 1.0)
    assert (details["num_blamed"], details["num_examined"], details["num_unknown"]) == (1, 1, 0)
    assert details["causes"] == {
        "compute": {
            "count": 1,
            "lag_ms": 0.9,
            "share_of_lag": 1.0,
            "caused_wait_ms": 2.7,
            "confidence": {"low": 0, "medium": 0, "high": 1},
        }
    }
    assert details["per_rank"] == {"2": {"compute": 0.9}}
    (worst,) = details["worst"]
    assert worst["more_us"] == {"compute": 900.0}
    assert worst["kernels"][0] == {"name": "gemm", "more_us": 900.0, "count": 3, "peers_count": 3.0}
    assert worst["chain"] == ["rank 2 at default_pg 0-3 AllReduce, 900 us: its kernels take longer"]
    assert details["meanings"] == {"compute": "its kernels take longer"}


def test_a_rank_that_is_not_selected_is_not_blamed() -> None:
    late = rank(2, [kernel("gemm", t, 600) for t in (100, 700, 1300)], 1900)
    view = view_of(late).with_options(ranks=frozenset({0, 1}))

    result = straggler_cause.run(view)

    assert (result.details["num_blamed"], result.details["explained_ratio"]) == (0, None)
    assert NOBODY_LATE in result.warnings


def test_every_cause_has_a_meaning() -> None:
    assert set(MEANINGS) == set(CAUSES)


def test_the_metric_is_registered() -> None:
    assert isinstance(straggler_cause, Metric)
    assert np.isfinite(
        straggler_cause.run(View(job(usual(0), usual(1)), ViewOptions())).details["num_blamed"]
    )


def test_names_of_host_operations_are_kept_whole_up_to_eighty_characters() -> None:
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"

    assert shortened(name) == name
    assert shortened("a" * 60 + "b" * 60) == f"{'a' * 52}…{'b' * 27}"
