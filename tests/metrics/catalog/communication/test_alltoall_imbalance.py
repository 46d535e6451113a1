"""alltoall_imbalance: loads and pairs worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from factories import Coll, kernel, rank_trace, world
from worked import measure

from ccltui.metrics.result import Result
from ccltui.parsers.columns import RankTrace

NAME = "alltoall_imbalance"
SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"

Matrix = Sequence[Sequence[int]]


def ranks(*exchanges: Matrix, width: int = 8, **more: Any) -> list[RankTrace]:
    """One rank a row; row i, column j is what rank i sends to rank j, in rows of ``width``."""
    count = len(exchanges[0])
    return [
        rank_trace(
            rank,
            gpu=[exchange(matrix, rank, number, width) for number, matrix in enumerate(exchanges)],
            groups=[world(count)],
            world_size=count,
            **more,
        )
        for rank in range(count)
    ]


def exchange(matrix: Matrix, rank: int, number: int, width: int) -> Any:
    sent, got = list(matrix[rank]), [row[rank] for row in matrix]
    coll = Coll(
        "all_to_allv",
        width * sum(sent),
        width * sum(got),
        "BFloat16",
        seq=number,
        in_split=str(sent),
        out_split=str(got),
    )
    return kernel(SENDRECV, 100 * number, 50, 20, coll)


def measured(*exchanges: Matrix, **more: Any) -> Result:
    return measure(NAME, *ranks(*exchanges, **more))


def test_one_hot_receiver_of_four() -> None:
    # everybody sends 3 of 4 rows to rank 2: it receives 12 of 16, the mean is 4
    matrix = [[1, 0, 3, 0], [0, 1, 3, 0], [1, 0, 3, 0], [0, 0, 3, 1]]

    result = measured(matrix)

    assert (result.status, result.unit, result.value) == ("ok", "ratio", 3.0)
    details = result.details
    assert details["sent_imbalance_ratio"] == 1.0
    assert details["received_bytes"] == {"0": 32, "1": 16, "2": 192, "3": 16}
    assert details["sent_bytes"] == {"0": 64, "1": 64, "2": 64, "3": 64}
    assert details["matrix_bytes"]["1"] == {"0": 0, "1": 16, "2": 48, "3": 0}
    assert details["split_imbalance_ratio"] == 3.0
    assert details["by_group"][0]["most_loaded"] == {"2": 1}


def test_even_exchanges_are_one() -> None:
    details = measured([[2, 2], [2, 2]], [[5, 5], [5, 5]]).details

    assert details["imbalance_ratio"] == details["max_imbalance_ratio"] == 1.0
    assert details["split_imbalance_ratio"] == 1.0


def test_large_exchanges_weigh_more_and_the_worst_is_named() -> None:
    # 4 of 4 (mean 2), and 40 of 80 (mean 40)
    details = measured([[0, 2], [0, 2]], [[20, 20], [20, 20]]).details

    assert details["imbalance_ratio"] == pytest.approx(44 / 42)
    assert details["max_imbalance_ratio"] == 2.0
    assert details["num_exchanges"] == 2


def test_opposite_loads_are_uneven_one_by_one() -> None:
    # over both, each rank receives 4: an exchange still waits for its fuller side
    details = measured([[0, 2], [0, 2]], [[2, 0], [2, 0]]).details

    assert details["imbalance_ratio"] == 2.0
    assert details["received_bytes"] == {"0": 64, "1": 64}


def test_a_rank_without_its_record_leaves_exchanges_out() -> None:
    traces = ranks([[1, 3, 0], [1, 3, 0], [1, 3, 0]])

    result = measure(NAME, *traces[:2])

    assert (result.status, result.reason) == ("unavailable", "missing_ranks")


def test_cut_splits_leave_the_loads() -> None:
    traces = []
    for rank in range(2):
        coll = Coll("all_to_allv", 64, 32 + 64 * rank, "Float", in_split="[1, ...]")
        gpu = [kernel(SENDRECV, 0, 5, 20, coll)]
        traces.append(rank_trace(rank, gpu=gpu, groups=[world(2)], world_size=2))

    details = measure(NAME, *traces).details

    assert details["imbalance_ratio"] == 1.5
    assert (details["num_without_splits"], details["matrix_bytes"]) == (2, {})
    assert details["split_imbalance_ratio"] is None


def test_equal_parts_are_a_row_each() -> None:
    traces = []
    for rank in range(2):
        coll = Coll("all_to_all", 64, 64, "Float", in_split="[]")
        gpu = [kernel(SENDRECV, 0, 5, 20, coll)]
        traces.append(rank_trace(rank, gpu=gpu, groups=[world(2)], world_size=2))

    assert measure(NAME, *traces).details["matrix_bytes"] == {
        "0": {"0": 128, "1": 128},
        "1": {"0": 128, "1": 128},
    }


def test_kernels_without_metadata_are_not_taken_for_exchanges() -> None:
    traces = [
        rank_trace(rank, gpu=[kernel(SENDRECV, 0, 5, 20)], groups=[world(2)], world_size=2)
        for rank in range(2)
    ]

    result = measure(NAME, *traces)

    assert (result.status, result.reason) == ("unavailable", "no_collectives")
    assert "without metadata this is not known" in result.reasons[0].message
    silent = rank_trace(1, gpu=[kernel("gemm", 0, 5)], groups=[world(2)], world_size=2)
    one_of_two = measure(NAME, traces[0], silent)
    assert "without metadata this is not known" in one_of_two.reasons[0].message
    assert "without metadata this is not known" not in measure(NAME, silent).reasons[0].message
