"""Verdicts on real, recorded and made jobs whose answers are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ccltui.metrics.hangs.find_hang import hang_of
from ccltui.metrics.hangs.flight_hang import flight_hang
from ccltui.metrics.hangs.hang import Hang
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.flight_recorder.read_dump import read_flight_dump

REAL = ("gpu_error_1st", "lock_gil_1st")
RECORDED = {
    "crash": ("no_dump", "low"),
    "dtype": ("mismatch", "high"),
    "hang": ("did_not_arrive", "medium"),
    "lost": ("no_dump", "low"),
    "ok": ("nothing", "medium"),
    "op": ("mismatch", "high"),
    "order": ("order", "medium"),
    "ring": ("did_not_arrive", "medium"),
    "size": ("mismatch", "medium"),
    "skip": ("order", "medium"),
    "slow": ("late", "medium"),
}
MADE = {
    "json": ("did_not_arrive", "high"),
    "mismatch": ("mismatch", "high"),
    "network": ("all_arrived", "low"),
    "no_dump": ("no_dump", "medium"),
    "old_2_2": ("did_not_arrive", "medium"),
    "old_2_3": ("did_not_arrive", "high"),
    "old_2_4": ("did_not_arrive", "high"),
    "pipeline": ("did_not_arrive", "high"),
    "timing": ("late", "medium"),
    "torchcomms": ("did_not_arrive", "high"),
}


def judged(shared: Path, folder: str) -> tuple[Hang, dict[str, Any]]:
    directory = shared / "commlogs" / folder
    if not directory.is_dir():
        pytest.skip(f"no samples in {directory}")
    found = hang_of(discover(directory))
    assert found is not None
    truth: dict[str, Any] = json.loads((directory / "truth.json").read_bytes())
    return found, truth


@pytest.mark.parametrize("name", REAL)
def test_every_rank_with_an_injected_fault_is_named(shared: Path, name: str) -> None:
    found, truth = judged(shared, f"fr/{name}")

    assert list(found.ranks) == [str(one) for one in truth["injected_ranks"]]
    assert (found.kind, found.sure, found.record) == ("did_not_arrive", "high", "flight recorder")


def test_a_lock_of_the_interpreter_keeps_two_ranks_out_of_an_all_to_all(shared: Path) -> None:
    found, _ = judged(shared, "fr/lock_gil_1st")

    assert found.text == (
        "Ranks 9 and 14 never entered all-to-all 45,265 of EXPERT_MODEL_PARALLEL_GROUP; all "
        "others wait for them."
    )
    assert len(found.waiting) == 14
    assert "Rank 14 still runs and is in no recorded collective: its host stopped between two." in (
        found.more
    )
    assert not any("called" in one for one in found.more)  # sizes of all-to-all differ by right


def test_a_fault_of_the_device_leaves_two_ranks_in_what_others_finished(shared: Path) -> None:
    found, _ = judged(shared, "fr/gpu_error_1st")

    assert found.text.startswith(
        "Rank 12 never entered all-to-all 20,537 of EXPERT_MODEL_PARALLEL_GROUP, and rank 14 "
        "stopped in a collective that others finished; others wait for them."
    )
    assert sum("its device or its watchdog stopped" in one for one in found.more) == 2
    assert set(found.waiting).isdisjoint({"12", "14"})


@pytest.mark.parametrize("name", REAL)
def test_nobody_else_is_named_where_the_dump_of_any_rank_is_lost(shared: Path, name: str) -> None:
    _, truth = judged(shared, f"fr/{name}")
    folder = shared / "commlogs" / "fr" / name
    dumps = [
        read_flight_dump(path, shown=path.name)
        for path in folder.iterdir()
        if path.name.startswith("_dump_")
    ]

    for lost in dumps:
        found = flight_hang([one for one in dumps if one is not lost])
        assert found is not None
        assert found.ranks
        assert {int(rank) for rank in found.ranks} <= set(truth["injected_ranks"])
        assert found.sure != "high"


@pytest.mark.parametrize("name", RECORDED)
def test_jobs_recorded_with_gloo(shared: Path, name: str) -> None:
    found, truth = judged(shared, f"recorded/{name}")

    assert list(found.ranks) == [str(one) for one in truth["culprits"]]
    assert (found.kind, found.sure) == RECORDED[name]
    if "group" in truth:
        assert found.group in {truth["group"], "default_pg"}
    assert ("nothing hangs" in found.text.lower()) == (
        "nothing hung" in truth["verdict"] or truth["verdict"].startswith("no hang;")
    )
    if truth.get("function") and found.kind == "mismatch":
        assert f"`{truth['function']}`" in found.text


@pytest.mark.parametrize("name", MADE)
def test_made_jobs_of_every_version(shared: Path, name: str) -> None:
    found, truth = judged(shared, f"made/fr/{name}")

    assert list(found.ranks) == [str(one) for one in truth["culprits"]]
    assert (found.kind, found.sure) == MADE[name]
    if isinstance(truth.get("seq"), int):
        assert found.sequence == truth["seq"]
    if "expected" in truth:
        assert "called reduce-scatter where the others called all-gather" in found.text


def test_files_that_cannot_be_read_name_nobody(shared: Path) -> None:
    found, _ = judged(shared, "made/fr/hostile")

    assert (found.kind, found.ranks, found.sure) == ("abstained", (), "low")
    assert found.more == ("Not used: truncated_0: the file ends inside its pickle.",)
