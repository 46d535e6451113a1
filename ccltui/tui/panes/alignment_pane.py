"""The Alignment pane: ranks against the collectives of one communicator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import HEAT, LEVELS, Ink
from ccltui.draw.text import Line, fit_middle
from ccltui.parsers import numbers
from ccltui.tui.moves.cursor import to_collective
from ccltui.tui.panes.chart_pane import ChartPane, as_many, collective_text
from ccltui.tui.state.pane import Axis
from ccltui.tui.state.pane_states import ALIGNMENT as NAME
from ccltui.tui.state.pane_states import ALIGNMENT_STATE, Among
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import EventTarget, ViewState

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes


class AlignmentPane(ChartPane):
    """Lateness of every rank at every collective."""

    name = NAME
    names_communicator = True
    key = "2"
    title = "Alignment"
    short_title = "Align"
    about = (
        "Rows are ranks, columns collectives of one communicator in order of time. "
        "Colour: how much later than the first rank this one arrived; a cell of several "
        "shows the largest; a dot is on time, a blank cell has no such rank. Who waits has a LONG "
        "kernel: the late rank has the shortest one. The line above the keys shows how sure the "
        "match is."
    )
    axis = Axis.COLLECTIVES
    among = Among.COLLECTIVES
    name_end = r"( |$)"

    def labels(self, scene: Scene) -> tuple[str, ...]:
        """Return the ranks of the communicator in view."""
        return scene.members

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw the heat map, and below it the selected collective by rank where there is room."""
        from ccltui.tui.panes.pictures import paint_alignment

        return paint_alignment(scene, height, width)

    def shift(self, before: Scene, after: Scene) -> int:
        """Return by how many columns the picture moved, 0 when it is a different picture."""
        old, new = before.state.columns, after.state.columns
        if (old.per_cell, old.repeat, old.cells) != (new.per_cell, new.repeat, new.cells):
            return 0
        return (old.first - new.first) // new.per_cell * new.repeat

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the communicator, and the colour scale of lag."""
        return _lag_legend(scene, narrow=narrow)

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the selected collective, and the confidence of its lag."""
        above: Line = [(f" {collective_text(scene)}", Ink.TEXT)]
        if scene.disproved:
            text = f" ! pairs disproved by the clocks: {scene.disproved}"
            return above, [(text, Ink.WARNING)]
        order, own = f"ranks by {scene.state.order.value}", ALIGNMENT_STATE.of(scene.state)
        if own.ranks_in_view:
            order += f", {own.ranks_in_view} of {len(scene.members)}"
        clock = "" if scene.communicator is None else scene.communicator.clock
        parts = [_match_text(scene), clock, _floor_text(scene), order]
        sure = as_many([part for part in parts if part], width - 2)
        return above, [(f" {sure}", Ink.DIM)]

    def hit_place(self, scene: Scene) -> int:
        """Return the number of the selected collective."""
        k = scene.state.selection.k
        return -1 if k is None else k

    def to_hit(self, scene: Scene, place: int) -> ViewState:
        """Select a collective."""
        return to_collective(scene, place)

    def name_at_cursor(self, scene: Scene) -> str | None:
        """Return the type of the selected collective."""
        if scene.collective is None:
            return None
        communicator, k = scene.collective
        return communicator.type_of(k)

    def event_at_cursor(self, scene: Scene) -> EventTarget | None:
        """Return the call of the selected rank in the selected collective."""
        communicator, chosen = scene.communicator, scene.state.selection
        if communicator is None or chosen.k is None or chosen.k >= len(communicator):
            return None
        if chosen.rank not in communicator.labels:
            return None
        if not communicator.present[chosen.k, communicator.labels.index(chosen.rank)]:
            return None
        row = int(communicator.row[chosen.k])
        return EventTarget(chosen.rank, "member", row, communicator.number)

    def why_no_event(self, scene: Scene) -> str:
        """Return the reason: nothing is selected, or the rank is absent from the collective."""
        chosen = scene.state.selection.k is not None and scene.communicator is not None
        return "this rank is absent from the collective" if chosen else "no collective is selected"


ALIGNMENT: Final = AlignmentPane()


def _lag_legend(scene: Scene, *, narrow: bool) -> Line:
    floor = scene.floor_ns
    if floor is None:
        return []
    if scene.disproved:
        return [("lags not known ", Ink.TAB)]
    cell = " " if narrow else "  "
    if scene.colour:
        ramp: Line = [(cell, HEAT + level * LEVELS + level) for level in range(1, LEVELS)]
    else:
        ramp = [(".:-=+*#", Ink.TEXT)]
    communicator = "" if narrow else _communicator_text(scene)
    return [
        (
            f"{communicator}  lag {numbers.compact_duration(floor)} ",
            Ink.TAB,
        ),
        *ramp,
        (f" {_top_of_scale(scene, floor)} ", Ink.TAB),
    ]


def _top_of_scale(scene: Scene, floor: int) -> str:
    """Return the lag from which on a cell has the last colour."""
    communicator = scene.communicator
    if communicator is None:
        return ""
    even = ALIGNMENT_STATE.of(scene.state).linear
    top = numbers.compact_duration(communicator.top_ns(floor, even=even))
    return f"{top}, even" if even else top


def _communicator_text(scene: Scene) -> str:
    """Describe which communicator of how many is in view, and its number of collectives."""
    communicator = scene.communicator
    if communicator is None:
        return ""
    name, count = fit_middle(communicator.name, 26), numbers.count(len(communicator))
    return f"{scene.communicator_place}{name} ({count})"


def _floor_text(scene: Scene) -> str:
    """Return the lag from which ranks are drawn as late, and the one from which they are blamed."""
    if scene.floor_ns is None or scene.communicator is None:
        return ""
    drawn, blamed = map(numbers.duration, (scene.floor_ns, scene.communicator.floor_ns))
    text = f"late from {drawn}"
    return text if drawn == blamed else f"colour from {drawn}, blame from {blamed}"


def _match_text(scene: Scene) -> str:
    if scene.collective is None:
        return ""
    communicator, k = scene.collective
    from ccltui.metrics.collectives.matching.match import CONFIDENCES

    return f"match confidence {CONFIDENCES[communicator.confidence[k]]}"
