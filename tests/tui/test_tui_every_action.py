"""Every action of the registry, by its key, in a running explorer: it does something.

An action that is added needs nothing here if it acts in the first of its panes, else keys that
lead to where it does. One that changes nothing fails.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from explorers import Settle, Start
from fakes import FakeLoad, Plan
from msgspec import Struct
from msgspec.structs import replace
from textual.pilot import Pilot

from ccltui.tui.action import Action, Effect
from ccltui.tui.action_list import all_actions, by_id
from ccltui.tui.app import Explorer
from ccltui.tui.engine.background import is_idle
from ccltui.tui.panes import PANES
from ccltui.tui.state.scene import Scene

pytestmark = pytest.mark.long

BEFORE: dict[str, tuple[str, ...]] = {
    "pane.overview": ("2",),
    "app.back": ("2", "]", "enter"),
    "stragglers.previous_over": ("2", "]"),
    "rows.out": ("2", "ctrl+w"),
    "compare.sort": ("3", "V", "enter"),
    "find.back": ("2", "w", "w"),
    "find.forward": ("2", "w", "w", "backspace"),
    "find.next": ("3", "/", *"nccl", "enter"),
    "find.previous": ("3", "/", *"nccl", "enter"),
}
"""Keys that lead from the opened explorer to where an action can act, for those that need any."""
ELSEWHERE: dict[str, str] = {
    "pane.runs": "test_tui_side_panes.py::test_a_directory_of_runs_opens_in_runs",
    "pane.cluster": "test_tui_side_panes.py::test_a_directory_with_both_offers_both",
    "pane.reports": "test_tui_reports_pane.py::test_reports_stand_beside_the_panes_of_traces",
    "pane.hangs": "test_tui_hangs_pane.py::test_enter_on_a_hang_shows_what_each_rank_does",
    "pane.hours": "test_tui_hours_pane.py::test_the_late_rank_and_its_minutes_are_in_view",
    "hours.kind": "test_tui_hours_pane.py::test_each_kind_of_collective_has_its_ranks",
    **dict.fromkeys(
        ("hours.zoom_in", "hours.zoom_out", "hours.all", "hours.earlier", "hours.later"),
        "test_tui_hours_pane.py::test_zooming_goes_to_the_minute_at_which_it_begins",
    ),
    "open.capture": "panes/test_files.py::test_enter_opens_another_capture",
    "open.run": "panes/test_files.py::test_enter_opens_the_traces_of_a_run",
    "filter.clear": "test_tui_app.py::test_a_window_filters_every_pane_without_a_reload",
}
"""Actions that a job in memory cannot show, and the test that does."""


class Seen(Struct, frozen=True):
    """Everything an action may change."""

    scene: Scene
    help: int | None
    commands: object
    asking: object
    clipboard: str
    files: tuple[str, ...]
    code: int | None
    calls: tuple[str, ...]


class Watched:
    """An explorer whose way out and repaints are counted."""

    def __init__(self, app: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.app = app
        self.calls: list[str] = []
        self.base = app.scene
        monkeypatch.setattr(app, "exit", lambda code: self.calls.append(f"exit {code}"))
        app.control.effects[Effect.SUSPEND] = lambda: self.calls.append("suspended")
        monkeypatch.setattr(
            "ccltui.tui.terminal.compat.forget_screen", lambda _: self.calls.append("repainted")
        )

    def reset(self) -> None:
        """As it was opened."""
        self.app.scene = self.base
        self.app.control.asking = None
        self.app._asked.clear()
        self.app._front.help = self.app._front.commands = None
        self.app.control.count = ""
        self.calls.clear()

    def seen(self) -> Seen:
        """What there is to see now."""
        app = self.app
        return Seen(
            app.scene,
            app._front.help,
            app._front.commands,
            app.control.asking,
            app.clipboard,
            tuple(sorted(path.name for path in Path().iterdir())),
            app.return_code,
            tuple(self.calls),
        )


def with_two_communicators(scene: Scene) -> Scene:
    """The scene with its communicator once more, under another name."""
    (one,) = scene.findings.communicators or ()
    both = (one, replace(one, name="another"))
    return replace(scene, findings=replace(scene.findings, communicators=both))


async def quiet(pilot: Pilot[int]) -> None:
    """Until nothing is being found out."""
    calm = 0
    for _ in range(400):
        await pilot.pause(0.005)
        calm = calm + 1 if is_idle(pilot.app) else 0
        if calm == 3:  # an answer is still on its way when its worker has ended
            return


def pane_of(action: Action) -> str:
    """Key of the first pane that an action works in."""
    return next(pane.key for pane in PANES if action.where(pane))


async def test_every_action_does_something(
    start: Start, settle: Settle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = start(FakeLoad(Plan(ranks=16)))
    idle: dict[str, str] = {}
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        watched = Watched(app, monkeypatch)
        for action in all_actions():
            if action.id in ELSEWHERE:
                continue
            watched.reset()
            if action.id == "filter.communicator":
                app.scene = with_two_communicators(app.scene)
            for key in BEFORE.get(action.id, (pane_of(action),)):
                await pilot.press(key)
                await quiet(pilot)
            before = watched.seen()
            why = action.why_not(app.scene)
            await pilot.press(*action.keys[0].split(" "))
            await quiet(pilot)
            after = watched.seen()
            if app.scene.session.generation != watched.base.session.generation:
                app.control.clear_window()
                await settle(pilot)
                watched.base = app.scene.with_state(watched.base.state)
            if why is not None or after == before:
                idle[action.id] = why or app.scene.notice or "nothing changed"

    assert not idle, "\n".join(f"{name}: {why}" for name, why in idle.items())


def test_what_is_tested_elsewhere_still_exists() -> None:
    here = Path(__file__).parent
    for action_id, test in ELSEWHERE.items():
        assert by_id(action_id)
        file, _, name = test.partition("::")
        (path,) = here.rglob(file)
        assert f"def {name}(" in path.read_text()
    assert {by_id(action_id).id for action_id in BEFORE} == set(BEFORE)
