"""The baseline is honest only if it gives what ccltui gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench import make
from bench.baseline import COLLECTIVE_KEYS, BaselineColumns, columns
from bench.inputs import LAYOUTS, TRACE_NAME, Layout
from ccltui.parsers.columns import Events, RankTrace
from ccltui.parsers.kineto.kineto_reader import read_kineto


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

    for table in theirs.events.values():
        assert [(name, values.dtype) for name, values in table.items()] == [
            (name, np.dtype(dtype)) for name, dtype in Events.COLUMNS
        ]
