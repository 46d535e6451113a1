"""Windows start at the earliest event on the corrected clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.demo import Spec, write_job
from ccltui.metrics.catalog.communication.comm_comp_overlap import comm_comp_overlap
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.job import open_job
from ccltui.parsers.window import parse_window


def hidden(directory: Path, offset_ns: int, *, raw_clocks: bool = False) -> list[object]:
    spec = Spec.quiet(
        tp=2, pp=1, dp_shard=2, gpus_per_node=2, steps=4, clock_offsets_ns=(0, offset_ns)
    )
    write_job(directory, spec)
    options = ViewOptions(window=parse_window("2ms/60ms"), raw_clocks=raw_clocks)
    view = View(open_job(directory, cache_dir=directory.parent / "cache"), options)
    return [comm_comp_overlap.run(view).details[key] for key in ("comm_time_ms", "comp_time_ms")]


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """What the window holds where all clocks are equal."""
    return hidden(tmp_path_factory.mktemp("together") / "job", 0)


@pytest.mark.parametrize("offset_ns", [3_000_000_000, -3_000_000_000])
def test_a_clock_that_is_behind_shifts_no_window(
    tmp_path: Path, offset_ns: int, together: list[object]
) -> None:
    apart = hidden(tmp_path / "apart", offset_ns)

    assert apart == pytest.approx(together, rel=1e-3)


def test_raw_clocks_shift_a_window(tmp_path: Path, together: list[object]) -> None:
    assert hidden(tmp_path / "apart", -3_000_000_000, raw_clocks=True) != together
