"""Records of a job with a known fault, of which some are missing: one verdict over all of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import ccltui
from ccltui.commands.demo_command import run as demo
from ccltui.demo.hung_job import START_NS
from ccltui.demo.hung_records import (
    FAULTS,
    MixedJob,
    mixed_job,
    write_hung_records,
    write_mixed,
    write_window,
)
from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.findings.recordings.hang_window import hangs_of_view
from ccltui.metrics.hangs.find_hang import hangs_of
from ccltui.metrics.hangs.hang import Hang
from ccltui.metrics.view.job_view import View
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.job import open_job

SEEDS = range(50_000, 50_024)


@pytest.mark.parametrize("fault", FAULTS)
def test_all_records_are_one_job_and_name_the_rank_at_fault(tmp_path: Path, fault: str) -> None:
    seed = next(
        seed
        for seed in range(1000)
        if len((job := mixed_job(seed, fault)).kept.dumps) == len(job.outcome.dumps)
        and job.kept.reports == 2 and job.kept.logs and job.kept.inspector
    )  # fmt: skip
    job = mixed_job(seed, fault)
    write_mixed(tmp_path, job)

    (found,) = hangs_of(discover(tmp_path))

    named, truth = {int(rank) for rank in found.ranks}, set(job.truth)
    assert named <= truth
    assert bool(named) == bool(truth)
    if truth:
        assert "flight recorder" in found.record
        assert {path.split("/")[0] for path in found.files} >= {"dumps", "ras"}


def test_no_rank_is_named_wrongly_with_more_than_low_confidence(tmp_path: Path) -> None:
    right = 0
    for seed in SEEDS:
        job = mixed_job(seed)
        write_mixed(tmp_path / str(seed), job)

        found = hangs_of(discover(tmp_path / str(seed)))

        assert len(found) <= 1
        named = {int(rank) for one in found for rank in one.ranks}
        assert named <= set(job.truth) or found[0].sure == "low", f"{seed}: {found[0].text}"
        right += bool(named) and named <= set(job.truth)
    assert right >= len(SEEDS) // 2


def test_the_command_writes_all_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "hung"
    words = [str(folder), "--hang", "late", "--all-records", "--no-open", "--seed", "6"]

    assert demo(words) == 0
    assert capsys.readouterr().out.strip() == str(folder)
    assert json.loads((tmp_path / "hung.answer.json").read_text())["fault"] == "late"
    with pytest.raises(GrammarError, match="choose a new directory"):
        demo(words)
    with pytest.raises(GrammarError, match="with all records the faults are"):
        demo([str(tmp_path / "b"), "--hang", "slow", "--all-records", "--no-open"])


def test_records_that_name_nobody_come_after_what_traces_show(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    # No dumps: counts of RAS tell neither who is late nor whether the job hangs.
    write_hung_records(folder, seed=5, fault="late", answer=tmp_path / "answer.json")

    kinds = [one.kind for one in answer_of(View(open_job(folder))).findings]

    assert len(kinds) > 1
    assert (kinds[-1], kinds.count("hang")) == ("hang", 1)


def with_window(folder: Path, slow: int, **kept: Any) -> tuple[MixedJob, Hang]:
    """Write a job of 8 ranks in which rank 5 does not arrive; return it, and what is found.

    Args:
        folder: Where to.
        slow: The rank that is slow in the trace, 5 or another, -1 for none.
        kept: Which other records there are.
    """
    job = mixed_job(3, "host_loop")
    assert (job.truth, job.plan.world) == ((5,), 8)
    others = {"logs": False, "inspector": False, "reports": 0, "window": "same", **kept}
    job = replace(job, kept=replace(job.kept, slow=slow, **others))
    write_mixed(folder, job)
    write_window(folder, job)
    return job, found_in(folder)


def found_in(folder: Path) -> Hang:
    (found,) = hangs_of_view(View(open_job(folder)))
    assert found.ranks == ("5",)
    return found


def test_a_trace_before_the_hang_shows_that_its_rank_was_slow(tmp_path: Path) -> None:
    _, found = with_window(tmp_path, 5)

    said = re.fullmatch(
        r"In the trace that ends 120 s before the hang \(steps 10-14\) rank 5 makes others wait "
        r"([\d.]+) % of the time\.", found.more[0]
    )  # fmt: skip
    assert said
    assert "kineto/kineto_trace_5.json" in found.files
    job = ccltui.open(tmp_path)
    lag = job.metric("straggler_lag").details
    assert lag["worst_straggler"] == 5
    assert float(said[1]) == pytest.approx(100 * lag["worst_share_of_time"], abs=0.5)
    assert job.metric("hang_verdict").details["more"][0] == found.more[0]
    assert job.explain().headline.startswith("Rank 5 never entered")
    assert "rank 5 makes others wait" in " ".join(str(job.explain()).split())


def test_a_trace_before_the_hang_shows_that_another_rank_was_slow(tmp_path: Path) -> None:
    _, found = with_window(tmp_path, 2)

    assert "rank 5 is no slower than others; rank 2 makes others wait" in found.more[0]


def test_a_trace_before_the_hang_shows_that_no_rank_was_slow(tmp_path: Path) -> None:
    _, found = with_window(tmp_path, -1)

    assert found.more[0].endswith("(steps 10-14) rank 5 is no slower than others.")


def test_a_trace_of_more_ranks_is_of_another_job(tmp_path: Path) -> None:
    _, found = with_window(tmp_path, 5, window="other")

    assert not any("of the time" in one for one in found.more)
    assert (
        "The trace is not joined with the other records: it is of 16 ranks, and the job that hangs "
        "has 8." in found.more
    )


def test_a_trace_of_another_folder_is_of_another_job(tmp_path: Path) -> None:
    with_window(tmp_path, 5)
    other = tmp_path / "job_b"
    other.mkdir()
    (tmp_path / "kineto").rename(other / "kineto")

    found = found_in(tmp_path)

    assert any("not joined" in one and "folder of another job" in one for one in found.more)


@pytest.mark.parametrize(
    ("hours", "words"),
    [(2, "it begins 1 h 5"), (-24 * 8, "before the hang"), (-3, "that ends 3 h 2 min before")],
)
def test_times_of_a_trace_and_of_the_hang(tmp_path: Path, hours: int, words: str) -> None:
    """Hours from the hang to the trace: after it, a week before it, and some hours before it."""
    with_window(tmp_path, 5)
    for path in (tmp_path / "kineto").iterdir():
        text = path.read_text()
        base = re.search(r'"baseTimeNanoseconds": (\d+)', text)
        assert base is not None
        assert int(base[1]) < START_NS
        moved = int(base[1]) + hours * 3600 * 10**9
        path.write_text(text.replace(base[1], str(moved), 1))

    found = found_in(tmp_path)

    said = next(one for one in found.more if words in one)
    assert ("not joined" in said) == (hours != -3)


def test_a_trace_of_which_the_rank_is_missing(tmp_path: Path) -> None:
    with_window(tmp_path, 5)
    (tmp_path / "kineto" / "kineto_trace_5.json").unlink()

    assert found_in(tmp_path).more[0].endswith("rank 5 is not recorded.")


def test_records_without_times_do_not_tell_when_the_trace_was(tmp_path: Path) -> None:
    _, found = with_window(tmp_path, 5, dumps=(), reports=2)

    assert "(steps 10-14; how long before the hang is not known) rank 5" in found.more[0]
    assert "rank 5 makes others wait" in found.more[0]


def test_the_answer_states_who_is_slow_in_the_trace(tmp_path: Path) -> None:
    folder = tmp_path / "hung"
    words = [str(folder), "--hang", "late", "--all-records", "--no-open", "--seed"]
    seed = next(seed for seed in range(100)
                if (kept := mixed_job(seed, "late").kept).window == "same" and kept.slow >= 0
                and mixed_job(seed, "late").plan.world == 8)  # fmt: skip

    assert demo([*words, str(seed)]) == 0

    answer = json.loads((tmp_path / "hung.answer.json").read_text())
    assert answer["slow_in_trace"] == mixed_job(seed, "late").kept.slow
    assert len(list((folder / "kineto").iterdir())) == 8
