"""collective_mismatches names what differs between ranks, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from factories import Coll, Event, allreduce, job, rank_trace, world

from ccltui.metrics.catalog.stragglers.collective_mismatches import collective_mismatches
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace


def rank(number: int, seqs: Sequence[int], odd: dict[int, Coll] | None = None) -> RankTrace:
    """One of four ranks with the collectives of these numbers, some of them ``odd``."""
    gpu: list[Event] = []
    for seq in seqs:
        coll = (odd or {}).get(seq, Coll("allreduce", 64, 64, seq=seq))
        gpu.append(allreduce(100.0 * seq + number, 50.0 - number, coll))
    return rank_trace(number, gpu=gpu, groups=[world(4)], world_size=4)


def found(*ranks: RankTrace, **options: Any) -> Result:
    return collective_mismatches.run(View(job(*ranks), ViewOptions(**options)))


EIGHT = range(8)


def test_equal_ranks_have_no_problem() -> None:
    result = found(*(rank(number, EIGHT) for number in range(4)))

    assert (result.status, result.value) == ("ok", 0)
    assert result.details["num_matched"] == 8
    assert result.details["findings"] == []
    assert result.details["methods"] == {"group and sequence number": 8}
    assert result.details["confidence"] == {"low": 0, "medium": 0, "high": 8}


def test_a_missing_collective_is_named_with_its_rank_and_number() -> None:
    short = [seq for seq in EIGHT if seq != 5]

    details = found(rank(0, EIGHT), rank(1, EIGHT), rank(2, short), rank(3, EIGHT)).details

    assert (details["num_problems"], details["num_missing"]) == (1, 1)
    (finding,) = details["findings"]
    assert finding == {
        "problem": "missing",
        "group": "default_pg 0-3",
        "type": "AllReduce",
        "index": 5,
        "seq": 5,
        "step": None,
        "ranks": ["2"],
        "values": {},
        "text": "collective 5 (seq 5) of default_pg 0-3, AllReduce: missing on rank 2",
    }


def test_one_that_a_single_rank_has_is_extra() -> None:
    short = [seq for seq in EIGHT if seq != 5]

    details = found(rank(0, short), rank(1, short), rank(2, EIGHT), rank(3, short)).details

    assert (details["num_extra"], details["num_missing"]) == (1, 0)
    assert details["findings"][0]["ranks"] == ["2"]
    assert details["findings"][0]["text"].endswith("only on rank 2")


def test_another_size_and_type_of_element_are_named_with_the_values() -> None:
    odd = {3: Coll("allreduce", 128, 128, dtype="Half", seq=3)}

    details = found(rank(0, EIGHT), rank(1, EIGHT, odd), rank(2, EIGHT), rank(3, EIGHT)).details

    assert details["num_mismatched"] == 1
    (finding,) = details["findings"]
    assert (finding["index"], finding["ranks"]) == (3, ["1"])
    assert finding["values"]["in_elems"] == {"0": "64", "1": "128", "2": "64", "3": "64"}
    assert finding["values"]["dtype"]["1"] == "Half"
    assert list(finding["values"]) == ["dtype", "in_elems", "out_elems"]


def test_windows_that_open_late_or_close_early_are_no_problem() -> None:
    late, early = list(EIGHT)[2:], list(EIGHT)[:-1]

    details = found(rank(0, EIGHT), rank(1, late), rank(2, early), rank(3, EIGHT)).details

    assert details["num_problems"] == 0
    assert details["num_outside_window"] == 3
    assert details["num_matched"] == 5


def test_a_rank_without_a_file_is_listed() -> None:
    details = found(rank(0, EIGHT), rank(1, EIGHT), rank(3, EIGHT)).details

    assert details["by_group"][0]["absent_ranks"] == [2]
    assert details["num_problems"] == 0


def test_many_findings_are_counted_and_some_listed() -> None:
    odd = {seq: Coll("allreduce", 128, 128, seq=seq) for seq in range(0, 300, 2)}

    result = found(rank(0, range(300)), rank(1, range(300), odd), rank(2, range(300)))

    assert result.value == 150
    assert len(result.details["findings"]) == 50
    assert "the first 50 of 150 findings are listed" in result.warnings


def test_one_rank_alone_cannot_differ() -> None:
    assert found(rank(0, EIGHT)).reason == "single_rank"


def test_calls_that_only_order_matches_and_clocks_deny_are_not_judged() -> None:
    def stranger(number: int, pause_us: float) -> RankTrace:
        gpu = [allreduce(10.0 + nth * pause_us, 5.0) for nth in range(20)]
        return rank_trace(number, gpu=gpu, world_size=2)

    result = found(stranger(0, 100), stranger(1, 171))

    assert (result.status, result.reason) == ("unavailable", "unmatched_collectives")
    assert result.details["num_problems"] is None
