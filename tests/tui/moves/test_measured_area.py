"""Measuring on the timeline_pane, and windows made of what is measured or in view."""

from __future__ import annotations

import numpy as np
from fakes import Plan, ready_and_end, scene
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ccltui.draw.lanes import Lane, Track
from ccltui.draw.palette import Ink
from ccltui.parsers.numbers import duration, percent_cell
from ccltui.parsers.window import Window
from ccltui.tui.input.prompts import windowed
from ccltui.tui.moves import measured_area, time_moves, view_moves
from ccltui.tui.panes import timeline_picture
from ccltui.tui.state.job_findings import Span
from ccltui.tui.state.pane_names import TIMELINE
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Area


def at(found: Scene, time_ns: int) -> Scene:
    """The cursor of rank 5 at a time."""
    return found.with_state(found.state.select(rank="5", time_ns=time_ns))


def measured(start_ns: int, end_ns: int) -> Scene:
    """v, move, v."""
    found = at(scene(pane=TIMELINE), start_ns)
    found = found.with_state(measured_area.measure(found))
    found = at(found, end_ns)
    return found.with_state(measured_area.measure(found))


def test_an_area_follows_the_cursor_until_it_is_ended() -> None:
    found = at(scene(pane=TIMELINE), 5_000_000)
    assert measured_area.span(found) is None
    found = found.with_state(measured_area.measure(found))
    assert measured_area.span(at(found, 3_000_000)) == Span(3_000_000, 5_000_000)

    ended = measured(5_000_000, 8_000_000)
    assert measured_area.span(at(ended, 0)) == Span(5_000_000, 8_000_000)
    assert ended.with_state(measured_area.measure(at(ended, 1))).state.area == Area(1)
    assert view_moves.back(ended).area is None


def edges_of(found: Scene) -> list[int]:
    """Where computing and communication of rank 5 begin and end, on the clock of the job."""
    lane = found.findings.lanes["5"]
    times = np.concatenate(
        [times for t in (lane.compute, lane.network) for times in (t.start_ns, t.end_ns)]
    )
    own = np.unique(times)
    return [lane.shared(int(time)) - found.findings.origin_ns for time in own]


def test_the_moving_edge_snaps_to_beginnings_and_ends_of_work() -> None:
    found = at(scene(pane=TIMELINE), 5_000_000)
    found = found.with_state(measured_area.measure(found))
    edges = [time for time in edges_of(found) if time > 5_000_000][:6]
    assert len(edges) == 6

    seen = []
    for _ in range(6):
        found = found.with_state(time_moves.event(1)(found))
        seen.append(found.state.selection.time_ns)
    assert seen == edges
    assert measured_area.span(found) == Span(5_000_000, edges[-1])

    for edge in reversed(edges[:-1]):
        found = found.with_state(time_moves.event(-1)(found))
        assert found.state.selection.time_ns == edge

    last = at(found, edges_of(found)[-1])
    assert time_moves.why_no_event(last, 1) == "no later work on this rank"
    assert time_moves.event(1)(last) == last.state
    ended = last.with_state(measured_area.measure(last))
    assert time_moves.why_no_event(ended, -1) is None
    to = time_moves.event(-1)(ended).selection.time_ns
    assert to in ended.findings.calls["5"].start_ns


@given(
    st.integers(-(10**15), 10**15),
    st.floats(-1e-4, 1e-4),
    st.integers(-(10**15), 10**15),
    st.integers(-(10**12), 10**12),
)
def test_a_time_of_a_rank_comes_back_from_the_clock_of_the_job(
    offset: int, drift: float, origin: int, after: int
) -> None:
    lane = Lane("0", Track.empty(), Track.empty(), Track.empty(), offset, drift, origin)
    time = origin + after

    assert abs(lane.shared(int(lane.own(np.array(time)))) - time) <= 1


def test_shares_and_bytes_are_those_of_the_selected_rank() -> None:
    ready, end = ready_and_end(Plan())
    found = measured(int(end[39]), int(end[40]))

    length = int(end[40] - end[39])
    compute = int(ready[5, 40] - end[39]) / length
    network = int(end[40] - ready[5, 40] + 150_000) / length
    assert measured_area.text(found) == (
        f"area {duration(length)}  r5  compute {percent_cell(compute)}  "
        f"net {percent_cell(network)}  both {percent_cell(150_000 / length)}  1 collective 32 MiB"
    )


def test_the_area_becomes_the_window_else_the_view_does() -> None:
    found = measured(5_000_000, 8_000_000)
    assert windowed(found).filter.window == Window(5_000_000, 8_000_000)

    found = found.with_state(replace(found.state, area=None))
    span = found.findings.span
    assert span is not None
    assert windowed(found).filter.window == Window(span.start_ns, span.end_ns)


def test_in_alignment_the_collectives_in_view_become_the_window() -> None:
    found = scene()
    communicator = found.communicator
    assert communicator is not None
    found = found.with_state(replace(found.state, columns=replace(found.state.columns, cells=20)))
    found = found.with_state(view_moves.zoom(inwards=True)(found.with_state(view_moves.fit(found))))
    columns = found.state.columns

    window = windowed(found).filter.window

    assert window is not None
    assert window.start_ns == communicator.first_ns[columns.first]
    assert window.end_ns == communicator.first_ns[columns.first + columns.shown]


def test_an_empty_area_is_no_window() -> None:
    found = measured(5_000_000, 5_000_000)

    assert measured_area.why_no_window(found) == "the area is empty: move the cursor"


def test_the_area_is_marked_on_the_ruler() -> None:
    found = measured(20_000_000, 60_000_000)
    style = timeline_picture.paint(found, 12, 80).style[0]

    assert (style == Ink.AREA).sum() > 20
    assert (style[:8] != Ink.AREA).all()
