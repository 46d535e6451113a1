"""Reasons that many ranks share are one sentence."""

from __future__ import annotations

from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import merged_reasons


def no_step(rank: str, text: str = "marks no step") -> Reason:
    return Reason("no_step_markers", f"rank {rank} {text}", rank=rank)


def test_one_reason_for_many_ranks() -> None:
    reasons = [no_step(str(rank)) for rank in range(64)]

    assert merged_reasons(reasons) == [
        ("no_step_markers", "rank 0 marks no step (also ranks 1-63)")
    ]


def test_ranks_with_gaps_are_listed_and_long_lists_counted() -> None:
    merged = merged_reasons([no_step(rank) for rank in ("2", "5", "7")])
    many = merged_reasons([no_step(str(rank)) for rank in range(0, 40, 2)])

    assert merged == [("no_step_markers", "rank 2 marks no step (also ranks 5 and 7)")]
    assert many[0][1].endswith("(also ranks 2, 4, 6, 8, 10, 12, 14, 16 and 11 more)")


def test_files_and_numbers_of_a_rank_do_not_separate_reasons() -> None:
    reasons = [
        Reason(
            "truncated_trace",
            f"r{rank}.json ends early; {1000 + rank:,} events kept (byte {rank * 7})",
            rank=str(rank),
            file=f"r{rank}.json",
        )
        for rank in (3, 4)
    ]

    assert merged_reasons(reasons) == [
        (
            "truncated_trace",
            "r3.json ends early; 1,003 events kept (byte 21) (also rank 4)",
        )
    ]


def test_rank_1_is_not_a_part_of_rank_12() -> None:
    merged = merged_reasons([no_step("1", "waits for rank 12"), no_step("2", "waits for rank 1")])

    assert [text for _, text in merged] == ["rank 1 waits for rank 12 (also rank 2)"]


def test_other_reasons_stay_apart_and_in_order() -> None:
    reasons = [
        Reason("missing_ranks", "3 of 4 ranks found; missing 1"),
        no_step("0"),
        Reason("missing_ranks", "5 of 6 ranks found; missing 1"),
        no_step("3", "is not measured"),
    ]

    assert merged_reasons(reasons) == [(one.code, one.message) for one in reasons]


def test_many_different_sentences_of_one_code_are_counted() -> None:
    words = ("a", "b", "c", "d", "e", "f")
    reasons = [no_step(str(rank), f"does {word}") for rank, word in enumerate(words)]

    merged = merged_reasons(reasons)

    assert len(merged) == 5
    assert merged[-1] == ("no_step_markers", "and 2 more reasons of this kind")
