"""Measuring on the timeline, and windows made of what is measured or in view."""

from __future__ import annotations

from dataclasses import replace

from fakes import Plan, ready_and_end, scene

from ccltui.draw.palette import Ink
from ccltui.tui import area, moves
from ccltui.tui.filters import windowed
from ccltui.tui.panes import timeline
from ccltui.tui.scene import Scene, Span
from ccltui.tui.viewstate import Area, Pane
from parsers.window import Window


def at(found: Scene, time_ns: int) -> Scene:
    """The cursor of rank 5 at a time."""
    return found.with_state(found.state.select(rank="5", time_ns=time_ns))


def measured(start_ns: int, end_ns: int) -> Scene:
    """v, move, v."""
    found = at(scene(pane=Pane.TIMELINE), start_ns)
    found = found.with_state(area.measure(found))
    found = at(found, end_ns)
    return found.with_state(area.measure(found))


def test_an_area_follows_the_cursor_until_it_is_ended() -> None:
    found = at(scene(pane=Pane.TIMELINE), 5_000_000)
    assert area.span(found) is None
    found = found.with_state(area.measure(found))
    assert area.span(at(found, 3_000_000)) == Span(3_000_000, 5_000_000)

    ended = measured(5_000_000, 8_000_000)
    assert area.span(at(ended, 0)) == Span(5_000_000, 8_000_000)
    assert ended.with_state(area.measure(at(ended, 1))).state.area == Area(1)
    assert moves.back(ended).area is None


def test_shares_and_bytes_are_those_of_the_selected_rank() -> None:
    ready, end = ready_and_end(Plan())
    found = measured(int(end[39]), int(end[40]))

    length = int(end[40] - end[39])
    compute = int(ready[5, 40] - end[39]) / length
    network = int(end[40] - ready[5, 40] + 150_000) / length
    assert area.text(found) == (
        f"area {length / 1e6:.2f}ms  r5  compute {compute:.1%}  net {network:.1%}  "
        f"both {150_000 / length:.1%}  1 collectives 32 MiB"
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
    found = found.with_state(moves.zoom(inwards=True)(found.with_state(moves.fit(found))))
    columns = found.state.columns

    window = windowed(found).filter.window

    assert window is not None
    assert window.start_ns == communicator.first_ns[columns.first]
    assert window.end_ns == communicator.first_ns[columns.first + columns.shown]


def test_an_empty_area_is_no_window() -> None:
    found = measured(5_000_000, 5_000_000)

    assert area.why_no_window(found) == "the area is empty: move the cursor"


def test_the_area_is_marked_on_the_ruler() -> None:
    found = measured(20_000_000, 60_000_000)
    style = timeline.paint(found, 12, 80).style[0]

    assert (style == Ink.AREA).sum() > 20
    assert (style[:8] != Ink.AREA).all()
