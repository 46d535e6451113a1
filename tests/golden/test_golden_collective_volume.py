"""Bytes of collectives, each counted once, against the reference's sums of inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.job import open_job

pytestmark = pytest.mark.shared


def volume(path: Path) -> int | float | None:
    return (
        find("collective_volume").run(View(open_job(path, jobs=1), ViewOptions(span="trace"))).value
    )


def test_one_rank(shared: Path) -> None:
    path = shared / "traces" / "hta" / "nccl_parser_config" / "nccl_data.json.gz"

    assert volume(path) == 307_323_096


def test_four_ranks_move_what_one_states(shared: Path, tmp_path: Path) -> None:
    """The synthetic ranks repeat one trace: summed over ranks it would be four times as much."""
    for rank in range(4):
        name = f"rank{rank}.json.gz"
        (tmp_path / name).symlink_to(shared / "golden" / "synth" / name)

    assert volume(tmp_path) == 307_323_096


def test_the_hand_written_pair(shared: Path) -> None:
    assert volume(shared / "golden" / "two_rank") == 4_194_304
