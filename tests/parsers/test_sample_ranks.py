"""The ranks of a sample: whole groups, spread over the job, the same each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.demo import Spec, write_job
from ccltui.demo.large_job import large_spec, write_large
from ccltui.metrics.catalog.stragglers.straggler_lag import straggler_lag
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import LoadSettings, load_job, open_job, start_job
from ccltui.parsers.sample_ranks import choose_ranks, sampled_job
from ccltui.parsers.window import MissingRanks, ranges_text

TP = range(8)
PP = range(0, 1024, 256)
DP = range(0, 256, 8)


def test_whole_groups_are_chosen_on_the_first_and_the_last_place() -> None:
    chosen = choose_ranks(range(1024), [DP, PP, TP, range(1024)], 64)

    assert len(chosen) == 64
    for stage in range(4):
        for first in (256 * stage, 256 * stage + 248):
            assert set(range(first, first + 8)) <= set(chosen)


def test_units_lie_at_even_distances() -> None:
    chosen = choose_ranks(range(64), [range(4)], 16)

    assert chosen == (*range(4), *range(20, 24), *range(40, 44), *range(60, 64))


def test_without_groups_single_ranks_are_spread() -> None:
    assert choose_ranks(range(9), [], 3) == (0, 4, 8)
    assert choose_ranks(range(9), [], 1) == (0,)


def test_groups_with_absent_members_are_not_chosen_whole() -> None:
    present = [rank for rank in range(16) if rank != 5]

    chosen = choose_ranks(present, [range(4)], 8)

    assert len(chosen) == 8
    assert set(range(4)) | set(range(12, 16)) == set(chosen)


def test_the_rest_is_filled_with_other_ranks() -> None:
    assert len(choose_ranks(range(64), [range(4)], 15)) == 15


@pytest.mark.parametrize("count", [4, 5, 100])
def test_a_job_with_fewer_ranks_is_whole(count: int) -> None:
    assert choose_ranks(range(4), [range(2)], count) == tuple(range(4))


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        (MissingRanks(1024, range(16, 48)), "0-15, 48-1023"),
        (MissingRanks(10**15, [3]), "0-2, 4-999999999999999"),
        ([1, 2, 3, 7], "1-3, 7"),
        (range(0, 40, 2), "0, 2, 4, 6, 8, 10, 12, 14 and 12 more up to 38"),
        ([], ""),
    ],
)
def test_ranks_are_named_by_ranges(ranks: MissingRanks, text: str) -> None:
    assert ranges_text(ranks) == text


def test_metrics_of_a_sample_are_partial_and_say_what_is_not_known(tmp_path: Path) -> None:
    write_large(tmp_path / "job", large_spec(16, megabytes=0.2, family="tp", faults=()))
    (tmp_path / "job" / "kineto_trace_15.json").unlink()
    job = sampled_job(start_job(tmp_path / "job"), 8, tmp_path / "store")

    loaded = load_job(job, LoadSettings(tmp_path / "store", 1, inline=True))
    result = straggler_lag.run(View(loaded))

    assert [trace.rank for trace in loaded.ranks] == list(range(8))
    assert loaded.unread_ranks == tuple(range(8, 15))
    assert result.status == "partial"
    found = {reason.code: reason.message for reason in result.reasons}
    assert "8 of 16 ranks are read, not 8-14" in found["sampled_ranks"]
    assert found["missing_ranks"] == "15 of 16 ranks found; missing 15"


def test_a_keyword_that_is_misspelt_is_an_error(tmp_path: Path) -> None:
    write_job(tmp_path, Spec(steps=1))

    for open_it in (start_job, open_job):
        with pytest.raises(TypeError, match="unexpected keywords: iteratoin"):
            open_it(tmp_path, iteratoin=1)  # type: ignore[call-arg]


def test_files_without_ranks_are_all_read_and_a_note_says_so(tmp_path: Path) -> None:
    write_job(tmp_path, Spec(layout="bare_list", metadata="names_only", compress=False, steps=1))
    for rank in range(8):
        path = tmp_path / f"kineto_trace_{rank}.json"
        path.rename(tmp_path / f"{'abcdefgh'[rank]}.json")

    job = sampled_job(start_job(tmp_path), 4, tmp_path / "store")

    assert job.unread_ranks == ()
    assert "no_sample" in {note.code for note in job.notes}
