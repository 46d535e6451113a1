"""Records of a job with a known fault, of which some are missing: one verdict over all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ccltui.commands.demo_command import run as demo
from ccltui.demo.hung_records import FAULTS, mixed_job, write_mixed
from ccltui.metrics.hangs.find_hang import hangs_of
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import GrammarError

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
