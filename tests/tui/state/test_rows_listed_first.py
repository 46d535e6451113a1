"""Kind of rows that Events begins with."""

from __future__ import annotations

import pytest
from fakes import literal_metrics, scene
from msgspec.structs import replace

from ccltui.metrics.result import Result
from ccltui.tui.engine.messages import FindingsReady
from ccltui.tui.reducer import scene_after
from ccltui.tui.state.pane_states import COLLECTIVES, DEVICE, EVENTS_STATE, Sorting, listing_of
from ccltui.tui.state.scene import Scene


def told(found: Scene, calls: float | None) -> Scene:
    """The scene once the number of collectives is known."""
    metric = literal_metrics()["total_calls"]
    result = Result(
        metric="coll_call_num",
        unit="calls",
        definition=metric.definition,
        status="ok" if calls is not None else "unavailable",
        value=calls,
        details={},
    )
    findings = replace(found.findings, results={"coll_call_num": result})
    return scene_after(found, FindingsReady(findings))


@pytest.mark.parametrize(("calls", "listed"), [(0, DEVICE), (None, DEVICE), (3, COLLECTIVES)])
def test_device_work_is_listed_where_there_are_no_collectives(
    calls: float | None, listed: str
) -> None:
    assert listing_of(told(scene(), calls).state).kind == listed


def test_a_choice_of_the_user_stays() -> None:
    found = scene()
    chosen = replace(EVENTS_STATE.default, sorting=Sorting("dur"))
    found = found.with_state(EVENTS_STATE.put(found.state, chosen))

    assert EVENTS_STATE.of(told(found, 0).state) == chosen
