"""Inputs of the measurements, their baselines, and methods that need another program."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench import make
from bench.baseline import COLLECTIVE_KEYS, BaselineColumns, columns
from bench.branch_coverage import package_of, packages, table
from bench.inputs import LAYOUTS, TRACE_NAME, Inputs, Layout
from bench.measure import Spread
from bench.nsys import FirstMetric
from bench.nsys_make import RANKS, export
from bench.repeat import Counts
from bench.results import Results, verdicts
from bench.tables import text_of
from ccltui.parsers.columns import Events, RankTrace
from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.nsys.nsys_reader import read_nsys


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


@pytest.fixture(scope="module", params=LAYOUTS)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RankTrace, BaselineColumns]:
    layout: Layout = request.param
    directory = tmp_path_factory.mktemp(layout)
    make.trace(directory, "generated", layout, 1)
    path: Path = directory / TRACE_NAME
    return read_kineto(path), columns(json.loads(path.read_text()))


def test_every_group_has_the_same_rows(both: tuple[RankTrace, BaselineColumns]) -> None:
    ours, theirs = both

    assert {group: len(events) for group, events in ours.events.items()} == {
        group: len(table["start_ns"]) for group, table in theirs.events.items()
    }


@pytest.mark.parametrize("column", ["start_ns", "dur_ns", "correlation", "external_id", "bytes"])
def test_numbers_are_equal(both: tuple[RankTrace, BaselineColumns], column: str) -> None:
    ours, theirs = both

    for group, events in ours.events.items():
        table = theirs.events[group]
        np.testing.assert_array_equal(getattr(events, column), table[column], err_msg=group)


@pytest.mark.parametrize("column", ["name", "category"])
def test_texts_are_equal(both: tuple[RankTrace, BaselineColumns], column: str) -> None:
    ours, theirs = both

    for group, events in ours.events.items():
        mine = [ours.text(index) for index in getattr(events, column)]
        assert mine == [theirs.strings[index] for index in theirs.events[group][column]], group


def test_tracks_are_equal(both: tuple[RankTrace, BaselineColumns]) -> None:
    ours, theirs = both

    for group, events in ours.events.items():
        tracks = [ours.tracks[index] for index in events.track]
        mine = [(track.pid, track.tid) for track in tracks]
        pairs = (theirs.tracks[index] for index in theirs.events[group]["track"])
        assert mine == [(str(pid), str(tid)) for pid, tid in pairs], group


def test_stated_collectives_are_equal(both: tuple[RankTrace, BaselineColumns]) -> None:
    ours, theirs = both
    args = ours.collective_args
    rows = [row for events in ours.events.values() for row in events.args if row >= 0]
    stated = [row for row in rows if args.op[row] >= 0]

    mine = sorted(
        (ours.text(args.op[row]), int(args.in_elems[row]), int(args.out_elems[row]))
        for row in stated
    )

    table = theirs.collectives
    name, size_in, size_out = (
        COLLECTIVE_KEYS.index(key) for key in ("Collective name", "In msg nelems", "Out msg nelems")
    )
    assert mine == sorted(
        (theirs.strings[row[name]], int(row[size_in]), int(row[size_out])) for row in table
    )


def test_columns_of_the_model_are_all_there(both: tuple[RankTrace, BaselineColumns]) -> None:
    _, theirs = both

    for events in theirs.events.values():
        assert [(name, values.dtype) for name, values in events.items()] == [
            (name, np.dtype(dtype)) for name, dtype in Events.COLUMNS
        ]


def test_the_export_holds_eight_ranks_and_their_collectives(tmp_path: Path) -> None:
    path = tmp_path / "node.sqlite"

    events = export(path, megabytes=1)

    ranks = read_nsys(path)
    steps = 1_000_000 // 353_000
    assert [trace.rank for trace in ranks] == list(range(RANKS))
    assert events == 2 * RANKS + steps * RANKS * (400 + 200 + 201 + 50)
    for trace in ranks:
        assert trace.counts == {
            "gpu": 200 * steps,
            "runtime": 400 * steps,
            "annotations": 201 * steps + 1,
            "other": 50 * steps,
        }
        gpu, args = trace.group("gpu"), trace.collective_args
        stated = gpu.args[gpu.args >= 0]
        assert len(stated) == 8 * steps
        assert np.unique(args.in_elems[stated]).tolist() == [67_108_864]
        assert args.group_size[stated[0]] == RANKS


@pytest.mark.parametrize(("wall_s", "peak_mib", "met"), [(4.9, 299.0, True), (5.1, 301.0, False)])
def test_an_export_has_two_goals(wall_s: float, peak_mib: float, met: bool) -> None:
    wall, peak, cpu = (Spread(v, v, v) for v in (wall_s, peak_mib, 1.0))
    results = Results({"cpus": 2}, nsys=FirstMetric(2_000_000_000, cpu, wall, peak))

    assert [verdict.met for verdict in verdicts(results)] == [met, met]
    assert "nsys export of 2 GB: peak memory" in text_of(results)


def counts(statements: int, run: int, branches: int, taken: int) -> dict[str, dict[str, int]]:
    return {
        "summary": {
            "num_statements": statements,
            "covered_lines": run,
            "num_branches": branches,
            "covered_branches": taken,
        }
    }


def test_counts_are_summed_by_package_and_over_all() -> None:
    found = packages(
        {
            "files": {
                "metrics/arrays/intervals.py": counts(10, 9, 4, 3),
                "metrics/arrays/passes/deep.py": counts(10, 1, 0, 0),
                "metrics/registry.py": counts(5, 5, 0, 0),
            }
        }
    )

    assert list(found) == ["metrics", "metrics/arrays", "all"]
    assert list(table(found))[2:] == [
        "| `metrics` | 5 | 100% | 0 | -- |",
        "| `metrics/arrays` | 20 | 50% | 4 | 75% |",
        "| `all` | 25 | 60% | 4 | 75% |",
    ]


def test_a_package_is_a_folder_below_one_at_the_top() -> None:
    assert package_of("ccltui/tui/panes/files.py") == "ccltui/tui"
    assert package_of("ccltui/cli.py") == "ccltui"
