"""Less is shown than before: what the view pointed at is somewhere else, or gone."""

from __future__ import annotations

import pytest
from explorers import Settle, Start, press
from fakes import scene
from msgspec.structs import replace

from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.window import Window
from ccltui.tui.reducer import adopt
from ccltui.tui.state.pane_states import TIMELINE


@pytest.mark.parametrize("late", [True, False])
def test_the_moment_of_the_cursor_is_that_of_its_collective(late: bool) -> None:
    before = scene(pane=TIMELINE)
    step = before.findings.steps[2]
    window = Window(step.start_ns, step.end_ns)
    outside = before.findings.steps[-1 if late else 0].start_ns + 1
    selection = replace(before.state.selection, time_ns=outside)
    before = before.with_state(replace(before.state, selection=selection))

    after = adopt(before, scene(chosen=ViewOptions(window)).findings)

    chosen = after.state.selection
    assert after.communicator is not None
    assert chosen.k is not None
    assert chosen.time_ns == after.communicator.moment_ns(chosen.k)
    assert step.start_ns <= chosen.time_ns < step.end_ns


def test_a_moment_inside_stays() -> None:
    before = scene(pane=TIMELINE)
    step = before.findings.steps[2]
    selection = replace(before.state.selection, time_ns=step.start_ns + 123)
    before = before.with_state(replace(before.state, selection=selection))

    after = adopt(before, scene(chosen=ViewOptions(Window(step.start_ns, step.end_ns))).findings)

    assert after.state.selection.time_ns == step.start_ns + 123


@pytest.mark.parametrize("pane", ["1", "2", "3", "4", "5", "6"])
async def test_every_pane_shows_fewer_ranks_from_its_last_row(
    start: Start, settle: Settle, pane: str
) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, pane, "G", "r", *"2-3", "enter")
        await settle(pilot)
        await press(pilot, "G", "t", *"1ms/2ms", "enter")
        await settle(pilot)
        await press(pilot, "k", "j", "escape")

        assert app.scene.session.filter.ranks == frozenset({2, 3})
