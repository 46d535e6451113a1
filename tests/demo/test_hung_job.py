"""`ccltui demo --hang`: dumps of a job with a known fault, and the answer beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ccltui.commands.demo_command import HANGS
from ccltui.commands.demo_command import run as demo
from ccltui.demo.hung_job import FAULTS, write_hung
from ccltui.metrics.hangs.find_hang import hang_of
from ccltui.parsers.discovery.discover import discover


def test_every_kind_can_be_asked_for() -> None:
    assert ("any", *FAULTS) == HANGS


@pytest.mark.parametrize("fault", FAULTS)
def test_the_answer_is_what_the_dumps_tell(tmp_path: Path, fault: str) -> None:
    folder, answer = tmp_path / "job", tmp_path / "job.answer.json"
    write_hung(folder, seed=3, fault=fault, answer=answer)

    truth = json.loads(answer.read_text())
    found = hang_of(discover(folder))

    assert truth["fault"] == fault
    assert found is not None
    named = [int(rank) for rank in found.ranks]
    assert named == truth["ranks"] or (fault == "two_late" and set(named) < set(truth["ranks"]))


def test_the_same_seed_gives_the_same_bytes_and_replaces_an_earlier_job(tmp_path: Path) -> None:
    folder, answer = tmp_path / "job", tmp_path / "answer"
    write_hung(folder, seed=1, fault="late", answer=answer)
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    write_hung(folder, seed=2, fault="crashed", answer=answer)
    write_hung(folder, seed=1, fault="late", answer=answer)

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(FileExistsError, match=r"notes\.txt"):
        write_hung(tmp_path, seed=1, fault=None, answer=tmp_path.with_suffix(".answer"))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "hung"

    assert demo([str(folder), "--hang", "--no-open", "--seed", "5"]) == 0
    assert capsys.readouterr().out.strip() == str(folder)
    assert json.loads((tmp_path / "hung.answer.json").read_text())["world_size"] >= 8
    assert list(folder.glob("_dump_*.json"))
