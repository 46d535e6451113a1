"""Inputs of every layout hold what they say, and read back alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench import make
from bench.inputs import LAYOUTS, TRACE_NAME, Inputs, Layout
from bench.repeat import Counts
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.kineto.kineto_reader import read_kineto


def counted(trace: RankTrace) -> Counts:
    timed = sum(number for key, number in trace.counts.items() if key.startswith("X:"))
    return Counts(sum(trace.counts.values()), timed - trace.counts["X:Trace"])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_holds_the_events_it_is_said_to_hold(tmp_path: Path, layout: Layout) -> None:
    counts = make.trace(tmp_path, "generated", layout, 8)

    trace = read_kineto(tmp_path / TRACE_NAME)

    assert trace.source.size_bytes >= 8_000_000
    assert counted(trace) == counts
    assert trace.notes == ()
    assert len(trace.group("gpu")) > 0


@pytest.mark.parametrize("layout", ["one_line", "indent4"])
def test_a_rewritten_layout_holds_the_events_of_the_native_one(
    tmp_path: Path, layout: Layout
) -> None:
    names: tuple[Layout, ...] = ("native", layout)
    for name in names:
        (tmp_path / name).mkdir()
        make.trace(tmp_path / name, "generated", name, 0)  # one repetition, whatever its size

    native = read_kineto(tmp_path / "native" / TRACE_NAME)
    other = read_kineto(tmp_path / layout / TRACE_NAME)

    assert native.events.keys() == other.events.keys()
    for group, events in native.events.items():
        for column, _ in events.COLUMNS:
            mine, theirs = getattr(events, column), getattr(other.events[group], column)
            np.testing.assert_array_equal(mine, theirs, err_msg=f"{group} {column}")
    assert list(native.strings) == list(other.strings)
    assert native.tracks == other.tracks
    assert native.process_groups == other.process_groups


def test_what_was_written_is_used_again(tmp_path: Path) -> None:
    output: list[str] = []
    first = Inputs(tmp_path, log=output.append).trace("generated", "2020", 1)
    written = first.path.stat().st_mtime_ns

    again = Inputs(tmp_path, log=output.append).trace("generated", "2020", 1)

    assert output == ["writing generated-2020-1MB"]
    assert again == first
    assert again.path.stat().st_mtime_ns == written
    assert [path.name for path in again.path.parent.iterdir()] == [TRACE_NAME]


def test_eight_ranks_still_match(tmp_path: Path) -> None:
    counts = make.ranks(tmp_path, 8, 30_000)

    ranks = [read_kineto(path) for path in sorted(tmp_path.glob("kineto_trace_*.json"))]

    assert [trace.rank for trace in ranks] == list(range(8))
    assert sum(sum(trace.counts.values()) for trace in ranks) == counts.events
    starts = [trace.group("annotations").start_ns[0] for trace in ranks]
    ends = [trace.group("annotations").start_ns[-1] for trace in ranks]
    periods = np.array(ends) - np.array(starts)
    assert np.ptp(periods) < 0.05 * periods.min()
