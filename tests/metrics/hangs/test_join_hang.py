"""One verdict over what several records of a job say, each statement with its record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ccltui.demo.hung_records import MixedJob, mixed_job, write_mixed
from ccltui.metrics.hangs.find_hang import hangs_of, joined
from ccltui.metrics.hangs.hang import Hang, Kind, Sure
from ccltui.parsers.discovery.discover import discover

BY = {"flight recorder": "dump", "watchdog": "train.log", "ras": "ras.json"}


def said(record: str, kind: Kind, ranks: str, sure: Sure, **more: Any) -> Hang:
    who = f"rank {ranks}" if ranks else "nobody"
    return Hang(kind, f"{who} never entered all-reduce 9 of tp; 3 ranks wait for it.",
                ranks=tuple(ranks.split()), sure=sure, record=record, files=(BY[record],),
                **more)  # fmt: skip


def dumps(ranks: str = "5", sure: Sure = "medium", kind: Kind = "did_not_arrive") -> Hang:
    return said("flight recorder", kind, ranks, sure)


def test_one_record_alone_keeps_its_words() -> None:
    assert joined([dumps()]) == dumps()


def test_records_that_agree_say_so_each_by_its_name() -> None:
    found = joined(
        [dumps(), said("ras", "behind", "5", "low")], ["Inspector: slowest of its group"]
    )

    assert found.text == (
        "Rank 5 never entered all-reduce 9 of tp (dumps); RAS counts it behind too; Inspector: "
        "slowest of its group."
    )
    assert (found.ranks, found.sure, found.record) == (("5",), "medium", "flight recorder, ras")
    assert "3 ranks wait for it." in [one.lower() for one in found.more] or any(
        "3 ranks wait for it" in one for one in found.more
    )
    assert any(one.startswith("RAS (ras.json): rank 5") for one in found.more)
    assert found.files == ("dump", "ras.json")


@pytest.mark.parametrize(("other", "sure"), [("medium", "low"), ("low", "medium")])
def test_a_record_that_names_others_lowers_confidence(other: Sure, sure: Sure) -> None:
    found = joined([dumps(), said("watchdog", "did_not_arrive", "3", other)])

    assert (found.ranks, found.sure) == (("5",), sure)
    assert ("the log names rank 3 instead" in found.text) == (other == "medium")
    assert any("rank 3" in one for one in found.more)


def test_a_rank_without_a_dump_that_ras_does_not_reach_is_gone() -> None:
    found = joined([dumps(kind="no_dump"), said("ras", "peers_missing", "5", "medium")])

    assert found.sure == "high"
    assert "RAS does not reach it" in found.text


def test_a_rank_without_a_dump_that_waits_by_the_log_is_not_named() -> None:
    log = said("watchdog", "abstained", "", "low", waiting=("5", "6"), alive=("5", "6"))

    assert joined([dumps(kind="no_dump"), log]).ranks == ()


def test_of_ranks_without_a_dump_those_that_answer_are_not_named() -> None:
    found = joined([dumps("5 7", "low", "no_dump"), said("ras", "nothing", "", "medium",
                                                        alive=("7",))])  # fmt: skip

    assert (found.kind, found.ranks) == ("no_dump", ("5",))


def test_ranks_of_a_communicator_are_not_taken_for_those_of_the_job() -> None:
    found = joined([dumps(), said("ras", "behind", "1", "high", is_local=True)])

    assert found.sure in ("medium", "high")
    assert any("it is not known which these are in the job" in one for one in found.more)


def whole_job(folder: Path, fault: str = "late") -> MixedJob:
    """Write a job of which dumps, reports and log are there, in their folders."""
    for seed in range(1000):
        job = mixed_job(seed, fault)
        if len(job.kept.dumps) == len(job.outcome.dumps) and job.kept.reports and job.kept.logs:
            write_mixed(folder, job)
            return job
    raise AssertionError


def test_folders_named_after_records_are_one_job_and_others_are_not(tmp_path: Path) -> None:
    job = whole_job(tmp_path / "a")
    write_mixed(tmp_path / "b", job)

    assert sorted(one.where for one in hangs_of(discover(tmp_path))) == ["a", "b"]


def test_two_folders_of_dumps_are_two_jobs(tmp_path: Path) -> None:
    job = whole_job(tmp_path)
    (tmp_path / "dumps").rename(tmp_path / "fr")
    write_mixed(tmp_path, job)

    wheres = {one.where for one in hangs_of(discover(tmp_path))}
    assert {"fr", "dumps"} <= wheres


def test_a_report_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    whole_job(tmp_path)
    cut = '{"nccl_version": "2.29", "communicators_count": 1, "communicators": [{"hash": '
    (tmp_path / "ras" / "ras_9.json").write_text(cut)

    (found,) = hangs_of(discover(tmp_path))

    assert any("ras_9.json" in one and "not read" in one.lower() for one in found.more)


def test_the_communicator_of_all_ranks_numbers_the_others(tmp_path: Path) -> None:
    """RAS alone: the rank at fault is behind in small communicators, where it has other numbers."""
    job = whole_job(tmp_path / "all")
    path = next((tmp_path / "all" / "ras").iterdir())
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "ras.json").write_text(path.read_text())

    (found,) = hangs_of(discover(alone))

    assert {int(one) for one in found.ranks} <= set(job.truth)
    document = json.loads(path.read_text())
    document["communicators"] = [one for one in document["communicators"]
                                 if one["size"] < job.plan.world]  # fmt: skip
    (alone / "ras.json").write_text(json.dumps(document))
    (found,) = hangs_of(discover(alone))
    assert found.is_local or not found.ranks
