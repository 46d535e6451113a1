"""A pane that is one object: registered, it has a tab, a key, help, rows and a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from explorers import Settle, Start, appears, pane, pane_text, press, shows
from fakes import scene
from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.text import Line
from ccltui.metrics.view.job_view import View
from ccltui.tui.help_page import help_lines
from ccltui.tui.state.answers import Findings, Query, ViewQuery
from ccltui.tui.state.pane import Pane, Record, pane_named, register, unregister
from ccltui.tui.state.pane_states import ListState, OwnState
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState


class LabelsQuery(ViewQuery[tuple[str, ...]], frozen=True):
    """The labels of the ranks, as the metrics know them."""

    generation: int

    def answer(self, view: View, findings: Findings) -> tuple[str, ...]:
        """All labels."""
        return tuple(rank.label for rank in view.ranks)


class LabelsPane(Pane):
    """The labels of all ranks, one of them selected."""

    name = "labels"
    key = "&"
    title = "Labels"
    short_title = "Lab"
    about = "The labels of the ranks that are loaded."
    own = OwnState("labels", ListState())

    def queries(self, scene: Scene) -> Iterable[Query[Any]]:
        return (LabelsQuery(scene.findings.generation),) if scene.findings.lanes else ()

    def labels(self, scene: Scene) -> tuple[str, ...]:
        return scene.answers.latest(LabelsQuery) or ()

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        planes = Planes.blank(height, width, Ink.TEXT)
        for y, label in enumerate(self.labels(scene)):
            sign = "▶" if y == self.row(scene) else " "
            planes.put(y, 0, f"{sign}label {label}", Ink.TEXT)
        return planes

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        return [(f"{self.count(scene)} labels ", Ink.TAB)]

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        return [(f" row {self.row(scene)} of the labels", Ink.TEXT)], []

    def count(self, scene: Scene) -> int:
        return len(self.labels(scene))

    def row(self, scene: Scene) -> int:
        return self.own.of(scene.state).row

    def to_row(self, scene: Scene, row: int) -> ViewState:
        return self.own.put(scene.state, replace(self.own.of(scene.state), row=row))

    def records(self, scene: Scene) -> Iterator[Record]:
        for label in self.labels(scene):
            yield {"label": label}


@pytest.fixture
def labels_pane() -> Iterator[LabelsPane]:
    """The pane, registered after those that there are."""
    added = LabelsPane()
    register(added)
    yield added
    unregister(added)


@pytest.mark.usefixtures("labels_pane")
async def test_a_registered_pane_is_opened_painted_and_walked_through(
    start: Start, settle: Settle
) -> None:
    app = start()
    async with app.run_test(size=(150, 40)) as pilot:
        await settle(pilot)
        assert shows(app, "9 Reports") is False  # nothing for it in this job
        assert await appears(pilot, " & Labels ")

        await press(pilot, "&")
        await settle(pilot)

        assert pane(app) == "labels"
        assert await appears(pilot, "[& Labels]")
        assert await appears(pilot, "8 labels")
        assert pane_text(app).splitlines()[0].rstrip() == "▶label 0"

        await press(pilot, "j", "j")

        assert pane_text(app).splitlines()[2].rstrip() == "▶label 2"
        assert await appears(pilot, " row 2 of the labels")

        await press(pilot, "Y")

        assert await appears(pilot, "copied: 8 rows")

        await press(pilot, "?")

        assert await appears(pilot, " Help: Labels")
        assert await appears(pilot, "The labels of the ranks that are loaded.")
        assert await appears(pilot, "&         Labels")


def test_its_key_is_in_the_help_of_every_pane(labels_pane: LabelsPane) -> None:
    for name in ("overview", labels_pane.name):
        lines = ["".join(text for text, _ in line) for line in help_lines(name, 80, {})]
        assert any("&         Labels" in line for line in lines)


def test_a_name_or_key_that_is_taken_is_refused(labels_pane: LabelsPane) -> None:
    with pytest.raises(ValueError, match="pane labels has the name or the key of labels"):
        register(LabelsPane())
    assert pane_named("labels") is labels_pane


def test_without_the_pane_nothing_is_left_of_it() -> None:
    with pytest.raises(KeyError):
        pane_named("labels")
    assert scene().state.pane == "alignment"
