"""Findings as the process with the screen keeps them: the same numbers in few objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.draw.timeline_chart import Lane, Track
from ccltui.metrics.result import Result
from ccltui.tui.engine import packed_findings
from ccltui.tui.engine.array_transfer import pack, unpack
from ccltui.tui.engine.messages import Changes
from ccltui.tui.engine.packed_findings import PackedDetails, StructTable, forget_details, packed
from ccltui.tui.state.answers import Findings


def track(lengths: list[int]) -> Track:
    """Intervals of these lengths, 10 ns apart."""
    ends = np.cumsum(np.array([length + 10 for length in lengths], np.int64))
    return Track.of(ends - np.array(lengths, np.int64), ends)


TRACKS = st.lists(st.integers(1, 1000), max_size=5).map(track)
LANES = st.builds(
    Lane,
    label=st.text(max_size=3),
    compute=TRACKS,
    network=TRACKS,
    both=TRACKS,
    offset_ns=st.integers(-(2**62), 2**62),
    drift=st.floats(-1e-3, 1e-3),
    waiting=TRACKS,
)


def sent(thing: object) -> Any:
    """The object as the other process receives it."""
    data, file = pack(thing, lambda _: None)
    if file is None:
        return unpack(data, None, lambda _: None)
    with file:
        return unpack(data, file.fileno(), lambda _: None)


def plain(lane: Lane) -> object:
    """A lane in values that compare."""
    return {
        name: [[*map(int, getattr(value, part))] for part in Track.__struct_fields__]
        if isinstance(value := getattr(lane, name), Track)
        else value
        for name in Lane.__struct_fields__
    }


@given(st.dictionaries(st.text(max_size=4), LANES, max_size=6))
def test_a_table_has_the_same_structs_in_the_same_order(lanes: dict[str, Lane]) -> None:
    table = sent(StructTable.of(lanes))

    assert isinstance(table, StructTable) == bool(lanes)
    assert {label: plain(lane) for label, lane in table.items()} == {
        label: plain(lane) for label, lane in lanes.items()
    }
    assert list(table) == list(lanes)
    assert "nobody" not in table
    with pytest.raises(KeyError):
        table["nobody"]


def test_a_struct_is_made_once_until_many_others_were_asked_for() -> None:
    lanes = {str(rank): Lane(str(rank), track([rank]), track([]), track([])) for rank in range(600)}
    table = StructTable.of(lanes)

    first = table["0"]

    assert table["0"] is first
    assert [int(lane.compute.sum_ns[-1]) for lane in table.values()] == list(range(600))
    assert table["0"] is not first
    assert plain(table["0"]) == plain(first)
    assert StructTable.of(table) is table


def result(**details: object) -> Result:
    """A result with these details."""
    return Result("m", "us", "what it is", "ok", 1.0, details, inputs={"ranks": ["0"]})


@pytest.mark.parametrize("forgotten", [False, True])
def test_large_details_are_read_when_they_are_used(forgotten: bool) -> None:
    rows = {str(rank): {"wait_us": rank / 7, "names": ["a", None]} for rank in range(1000)}
    one = result(per_rank=rows, mean_us=2.5, none=None, few=[1, 2])

    other = sent(packed(one))

    assert isinstance(other, Result)
    assert isinstance(other.details, PackedDetails)
    assert list(other.details) == list(one.details)
    assert other.details["mean_us"] == 2.5
    read = other.details["per_rank"]
    if forgotten:
        forget_details()
    assert (other.details["per_rank"] is read) != forgotten
    assert dict(other.details) == dict(one.details)
    assert other.inputs == one.inputs
    assert "per_rank" in other.details
    assert other.details.get("absent") is None
    assert packed(other) is other


def test_another_thread_may_forget_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Emptied(set[Any]):
        """A set whose last element another thread takes right after somebody looked."""

        def __bool__(self) -> bool:
            return True

        def __len__(self) -> int:
            return 1

    one = packed(result(rows=list(range(9999))))
    read = one.details["rows"]
    monkeypatch.setattr(packed_findings, "_read", Emptied([one.details]))

    forget_details()

    assert one.details["rows"] == read
    assert one.details["rows"] is not read


def test_small_details_stay_as_they_are() -> None:
    one = result(mean_us=2.5, few=[1, 2])

    assert packed(one) is one


def test_changes_hold_tables_and_packed_results() -> None:
    lane = Lane("0", track([1]), track([]), track([]))
    now = Findings(lanes={"0": lane}, results={"m": result(rows=list(range(9999)))})

    changes = Changes.between(Findings(), now)
    found = changes.applied(Findings())

    assert isinstance(found.lanes, StructTable)
    assert isinstance(found.results["m"].details, PackedDetails)
    assert plain(found.lanes["0"]) == plain(lane)
    assert found.results["m"].details["rows"] == list(range(9999))
    assert Changes.between(now, now) == Changes()
