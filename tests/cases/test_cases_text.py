"""The given logs, tables and records of other tools: each has its right answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs_by_hand import view_of

from ccltui.metrics.registry import find
from ccltui.metrics.result import Result

pytestmark = pytest.mark.shared


def input_of(shared: Path, name: str) -> Path:
    """What a user of the case has."""
    directory = shared / "cases" / name / "input"
    if not directory.is_dir():
        pytest.skip(f"no case in {directory}")
    return directory


def computed(name: str, directory: Path) -> Result:
    return find(name).run(view_of(directory))


def test_a_table_with_the_tags_of_mpirun(shared: Path) -> None:
    case = input_of(shared, "t03_nccltests_tag_output")
    check_table(computed("nccl_tests_busbw", case), num_wrong=0)


def test_the_json_of_nccl_tests(shared: Path) -> None:
    case = input_of(shared, "t04_nccltests_json")
    test = check_table(computed("nccl_tests_busbw", case), num_wrong=0)

    assert test["nccl_version"] == "2.29.4"


def test_a_table_with_time_stamps(shared: Path) -> None:
    case = input_of(shared, "t05b_nccltests_timestamps")
    check_table(computed("nccl_tests_busbw", case), num_wrong=0)


def check_table(result: Result, *, num_wrong: int) -> dict[str, Any]:
    assert result.status == "ok"
    assert result.value == pytest.approx(300.49, abs=0.01)
    assert (result.details["num_wrong"], result.details["collective"]) == (num_wrong, "all_reduce")
    (test,) = result.details["tests"]
    assert (test["num_ranks"], test["at_bytes"], test["num_sizes"]) == (16, 4294967296, 3)
    return dict(test)
