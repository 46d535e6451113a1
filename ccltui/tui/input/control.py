"""Handle keys, mouse events and pasted text: each makes the next scene of the explorer.

The picture defines where its rows are: charts have rank names at their left, lists record the row
of each line. A click therefore selects what is drawn under the pointer, in every pane.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace
from textual import events

from ccltui.draw.palette import Ink
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.tui import export
from ccltui.tui.action import Action, Effect, keys_of
from ccltui.tui.action_list import by_id
from ccltui.tui.help_page import SCROLL
from ccltui.tui.input.keymap import PREFIXES, Keymap, append_digit, repeated
from ccltui.tui.input.prompts import windowed
from ccltui.tui.moves import drawer, loss_list, view_moves
from ccltui.tui.moves.cursor import in_view, select_at, to_collective, to_time
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.panes import files, runs_and_machines, steps
from ccltui.tui.state.pane import Axis, Pane, drawer_has_keys, gutter, pane_in_view
from ccltui.tui.state.pane_states import FILES, OVERVIEW
from ccltui.tui.state.scene import Picked, Scene, rank_name
from ccltui.tui.state.session import Session
from ccltui.tui.state.view_state import Area, ViewState

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.tui.input.prompted_list import Prompt, PromptedList
    from ccltui.tui.input.prompts import Outcome, PromptSession


class Screen(Protocol):
    """Which pane is where on the screen, and what covers the panes."""

    help: int | None
    """First line of the help while it covers the panes."""
    commands: PromptedList | None
    """The command line while it covers the panes."""

    def under(self, x: int, y: int) -> tuple[Pane, Planes, int, int] | None:
        """The pane at a place of the screen, its picture, and the place in it."""

    def tab_at(self, scene: Scene, x: int, y: int) -> Pane | None:
        """The pane whose tab is at a place of the screen."""


class Host(Protocol):
    """The application that owns the scene: what keys ask of it beyond another view."""

    scene: Scene
    options: ExplorerOptions

    @property
    def is_replaying(self) -> bool:
        """Whether recorded keys are replayed: then nothing is written or copied."""

    def replace_session(self, session: Session) -> None:
        """Show another session; what was computed for the one before is computed again."""

    def open_capture(self, capture: str, pane: str) -> None:
        """Load another capture of the same directory; the view begins anew in a pane."""

    def export(self, path: str) -> None:
        """Write what is in view to a file."""

    def copy_text(self, text: str) -> None:
        """Put a text on the clipboard of the user's terminal."""

    def take_picture(self) -> None:
        """Write a picture of the screen."""

    def stop_loading(self) -> bool:
        """Stop loading; whether anything was loaded."""

    def repaint(self) -> None:
        """Send every cell again."""

    def action_suspend_process(self) -> None:
        """Give the terminal back to the shell until the process is continued."""

    def leave(self) -> None:
        """End the application."""


_LABELS = (Ink.LABEL, Ink.LABEL_ON)
_LINES = 3
"""Rows of a list per notch of the wheel."""


def clicked(scene: Scene, planes: Planes, x: int, y: int) -> ViewState:
    """Put the cursor under the pointer, as far as there is anything to select."""
    if not pane_in_view(scene).is_chart:
        return _listed(scene, planes, x, y)
    rank = _rank_at(scene, planes, y)
    state = scene.state if rank is None else scene.state.select(rank=rank)
    if x < gutter(scene):
        return state
    here = scene.with_state(state)
    if pane_in_view(scene).axis is Axis.TIME:
        at = state.time.nearest(time_at(scene, x))
        return in_view(select_at(here, None, at))
    k = collective_at(scene, x)
    if k is None:
        return state
    rank = state.selection.rank
    return to_collective(here, k).select(rank=rank)


def time_at(scene: Scene, x: int) -> int:
    """Return the time at the left edge of a column of the timeline, ns since the origin."""
    view = scene.state.time
    return view.edge_ns(x - gutter(scene))


def collective_at(scene: Scene, x: int) -> int | None:
    """Return the collective in a column of Alignment: the latest of those that share a cell."""
    communicator, view = scene.communicator, scene.state.columns
    first = view.first + (x - gutter(scene)) // view.repeat * view.per_cell
    if communicator is None or not 0 <= first < len(communicator):
        return None
    lags = communicator.lag_ns[first : first + view.per_cell]
    return first + int(lags.argmax())


def dragged(scene: Scene, start_ns: int, x: int) -> ViewState:
    """Measure the time between the place where the button was pressed and the pointer."""
    at = min(max(time_at(scene, x), scene.state.time.left_ns), scene.state.time.right_ns)
    return replace(to_time(scene, at), area=Area(start_ns, at), time=scene.state.time)


def turned(scene: Scene, x: int, *, up: bool, shifted: bool) -> ViewState:
    """Handle the wheel: zoom at the pointer, pan with shift; in a list, move some rows."""
    state = scene.state
    if not pane_in_view(scene).is_chart:
        return view_moves.to_row(scene, view_moves.current(scene) + (-_LINES if up else _LINES))
    if shifted:
        return view_moves.pan(-1 if up else 1)(scene)
    if pane_in_view(scene).axis is Axis.TIME:
        at = time_at(scene, x)
        time = state.time.zoom_in(at) if up else state.time.zoom_out(at)
        return replace(state, time=time)
    k = collective_at(scene, x)
    if k is None:
        return state
    columns = state.columns.zoom_in(k) if up else state.columns.zoom_out(k)
    return replace(state, columns=columns)


def _rank_at(scene: Scene, planes: Planes, y: int) -> str | None:
    """Return the rank at a row of the picture: the nearest name at or above the pointer."""
    names = {rank_name(label): label for label in scene.findings.lanes}
    for row in range(min(y, planes.height - 1), 0, -1):
        if planes.style[row, 1] in _LABELS:
            text = planes.row_text(row)[1 : gutter(scene)].strip().partition(" ")[0]
            first = text.partition("/")[0]
            return names.get(text) or names.get(first) or names.get(text.partition("-")[0])
    return None


def _listed(scene: Scene, planes: Planes, x: int, y: int) -> ViewState:
    """Select the row under the pointer and move the keys to its list; no change without a row."""
    state = scene.state
    row = planes.listed_at(y, x)
    if row is None:
        return state
    if state.drawer is not None:
        scene = scene.with_state(replace(state, drawer=replace(state.drawer, focused=False)))
    return pane_in_view(scene).clicked(scene, row)


_LEFT = 1


class Drag(Struct, frozen=True):
    """A drag on the timeline: the time at which the button was pressed."""

    start_ns: int


class Mouse:
    """Handles mouse events; holds the drag in progress between them."""

    def __init__(self, front: Screen) -> None:
        self._front = front
        self._drag: Drag | None = None

    def take(self, event: events.MouseEvent, scene: Scene) -> tuple[Scene, str] | None:
        """Return the scene after an event and the name of the action; None if it has no effect."""
        if isinstance(event, events.MouseUp):
            self._drag = None
            return None
        if isinstance(event, events.MouseMove):
            return self._moved(event, scene)
        if isinstance(event, events.MouseDown):
            return self._pressed(event, scene)
        if isinstance(event, events.MouseScrollUp | events.MouseScrollDown):
            return self._turned(event, scene)
        return None

    def _pressed(self, event: events.MouseDown, scene: Scene) -> tuple[Scene, str] | None:
        if event.button != _LEFT:
            return None
        tab = self._front.tab_at(scene, event.screen_x, event.screen_y)
        if tab is not None:
            return scene.with_state(view_moves.open_pane(tab.name)(scene)), "pane"
        found = self._front.under(event.screen_x, event.screen_y)
        if found is None:
            return None
        pane, planes, x, y = found
        scene = _in_pane(scene, pane)
        on_chart = pane.axis is Axis.TIME and scene.findings.span is not None and y > 0
        self._drag = Drag(time_at(scene, x)) if on_chart else None
        return scene.with_state(clicked(scene, planes, x, y)), "click"

    def _moved(self, event: events.MouseMove, scene: Scene) -> tuple[Scene, str] | None:
        if self._drag is None or event.button != _LEFT:
            self._drag = None
            return None
        found = self._front.under(event.screen_x, event.screen_y)
        if found is None or found[0].axis is not Axis.TIME or scene.state.pane != found[0].name:
            return None
        return scene.with_state(dragged(scene, self._drag.start_ns, found[2])), "drag"

    def _turned(self, event: events.MouseEvent, scene: Scene) -> tuple[Scene, str] | None:
        found = self._front.under(event.screen_x, event.screen_y)
        if found is None:
            return None
        pane, _, x, _ = found
        scene = _in_pane(scene, pane)
        up = isinstance(event, events.MouseScrollUp)
        return scene.with_state(turned(scene, x, up=up, shifted=event.shift)), "wheel"


def _in_pane(scene: Scene, pane: Pane) -> Scene:
    """Return the scene with the key focus in a pane that is on the screen."""
    if scene.state.pane == pane.name:
        return scene
    return scene.with_state(replace(scene.state, pane=pane.name))


class Control:
    """Changes the scene of an explorer by the user's input."""

    def __init__(self, app: Host, front: Screen) -> None:
        self._app = app
        self._front = front
        self._mouse = Mouse(front)
        self._keymap = Keymap(app.options.keys)
        self._repaint_keys = keys_of(by_id("app.repaint"), app.options.keys)
        self.count = ""
        self.stroke = ""  # the first of two strokes, if it has no action of its own
        self.asking: PromptSession | None = None
        self._uses: Counter[str] = Counter()
        self.effects: dict[Effect, Callable[[], None]] = {
            Effect.CLEAR_WINDOW: self.clear_window,
            Effect.WINDOW_HERE: self._window_here,
            Effect.STEP_HERE: self._step_here,
            Effect.OPEN_CAPTURE: self._open_capture,
            Effect.OPEN_ROW: self._open_row,
            Effect.OPEN_RUN: self._open_run,
            Effect.COPY: self._copy,
            Effect.COPY_ROWS: self._copy_rows,
            Effect.SCREENSHOT: self._take_picture,
            Effect.VIEW_BACK: lambda: self._view(view_moves.view_back),
            Effect.VIEW_FORWARD: lambda: self._view(view_moves.view_forward),
            Effect.BACK: self._back,
            Effect.HELP: self._open_help,
            Effect.COMMANDS: self._open_commands,
            Effect.PICK: self._open_picker,
            Effect.PICK_COMMUNICATOR: lambda: self._open_picker(Picked.COMMUNICATORS),
            Effect.SUSPEND: app.action_suspend_process,
            Effect.INTERRUPT: self._interrupt,
            Effect.REPAINT: app.repaint,
            Effect.QUIT: app.leave,
        }

    @property
    def prompt(self) -> Prompt | None:
        """The open prompt, None without one."""
        return None if self.asking is None else self.asking.prompt

    @property
    def _scene(self) -> Scene:
        return self._app.scene

    @_scene.setter
    def _scene(self, scene: Scene) -> None:
        self._app.scene = scene

    def key(self, event: events.Key) -> None:
        """Pass the key to the prompt, palette or help if one is open, else look it up."""
        if event.key in self._repaint_keys:  # also in a prompt: the screen is corrupted
            self._app.repaint()
        elif self.asking is not None:
            self._type(self.asking, event.key, event.character)
        elif self._front.commands is not None:
            self._command(self._front.commands, event.key, event.character)
        elif self._front.help is not None:
            step = SCROLL.get(event.key)
            self._front.help = None if step is None else self._front.help + step
        else:
            # A blank separates the strokes of a key, so the space bar goes by its name.
            printable = event.character if event.is_printable and event.key != "space" else None
            stroke, self.stroke = self.stroke, ""
            if not stroke or not self._press(printable or event.key, stroke):
                self._press(printable or event.key)

    def mouse(self, event: events.MouseEvent) -> bool:
        """Handle a mouse event unless a prompt is open; return whether it had an effect."""
        after = None if self.asking is not None else self._mouse.take(event, self._scene)
        if after is None:
            return False
        scene, by = after
        self._go(scene.state, by)
        self._scene = replace(self._scene, notice="", said="")
        return True

    def paste(self, text: str) -> None:
        """Insert pasted text into the prompt or the palette; ignore it if none is open."""
        text = " ".join(text.split())
        if self.asking is not None:
            self.asking = self.asking.pasted(text, self._scene)
        elif self._front.commands is not None:
            self._front.commands = self._front.commands.pasted(text)

    def perform(self, action: Action, times: int = 1) -> None:
        """Perform an action, or show why it cannot act."""
        self._uses[action.id] += 1
        if isinstance(action.act, Effect):
            why = action.why_not(self._scene)
            if why is not None:
                self._scene = replace(self._scene, notice=why)
            else:
                self._take_effect(action.act)
            return
        after, problem = repeated(action, self._scene, times)
        self._go(after.state, action.id)
        self._scene = replace(self._scene, notice=problem)

    def clear_window(self) -> None:
        """Clear the window in every pane."""
        cleared = self._scene.session.filter.changed(window=None, steps=None)
        self._app.replace_session(self._scene.session.filtered(cleared))

    def _press(self, key: str, before: str = "") -> bool:
        """Perform the action of a key after the stroke ``before``; return whether it has one."""
        count, self.count = self.count, append_digit(self.count, key)
        if self.count:
            self._scene = replace(self._scene, notice="", said=f"count {self.count}: times what?")
            return True
        pressed = self._keymap.press(self._scene.state.pane, before, key)
        if before and pressed.action is None:
            return False
        self._scene = replace(self._scene, notice=pressed.problem, said="")
        if pressed.action is not None:
            self.perform(pressed.action, int(count or 1))
        refused = pressed.action is None or bool(self._scene.notice)
        self.stroke = key if refused and not before and key in PREFIXES else ""
        return True

    def _command(self, commands: PromptedList, key: str, character: str | None) -> None:
        """Pass a key to the command palette or the list of places; perform what is chosen."""
        from ccltui.tui.input.prompted_list import Chosen  # noqa: PLC0415  (not needed to start)

        after = commands.press(key, character, self._scene, self._scene.bindings)
        self._open_list(None if isinstance(after, Chosen) else after)
        if not isinstance(after, Chosen):
            return
        self._scene = replace(self._scene, notice="", said="")
        if after.action is not None:
            self.perform(after.action, after.times)
        elif after.state is not None:
            self._go(after.state, "find.goto")

    def _type(self, asking: PromptSession, key: str, character: str | None) -> None:
        """Pass a key to the open prompt; apply its answer."""
        self.asking = None
        if asking.may_be_stroke() and self._press(key, asking.question.prefix):
            return
        found = asking.press(key, character, self._scene)
        self._scene = replace(self._scene, state=found.state or asking.before)
        self.asking = found.asking
        if found.outcome is not None:
            self._take(found.outcome)

    def _take(self, outcome: Outcome) -> None:
        """Apply the answer of a prompt."""
        from ccltui.tui.export import Export  # noqa: PLC0415  (keeps the readers out of the start)

        if isinstance(outcome, ViewOptions):
            self._app.replace_session(self._scene.session.filtered(outcome))
        elif isinstance(outcome, ViewState):
            self._go(outcome, "")
        elif isinstance(outcome, Export):
            if self._may_write():
                self._scene = replace(self._scene, said=f"writing {outcome.path}")
                self._app.export(outcome.path)
        else:
            self._scene = view_moves.settled(self._scene, outcome)

    def _take_effect(self, effect: Effect) -> None:
        if effect.name.startswith("PROMPT_"):
            from ccltui.tui.input import prompts  # noqa: PLC0415

            self.asking = prompts.PromptSession.of(prompts.OF[effect], self._scene)
        else:
            self.effects[effect]()

    def _go(self, state: ViewState, by: str) -> None:
        """Show another view, and add the one before it to the history."""
        past = self._scene.history.left(self._scene.state, state, by)
        self._scene = replace(self._scene, state=state, history=past)

    def _view(self, step: Callable[[Scene], Scene]) -> None:
        self._scene = step(self._scene)

    def _copy(self) -> None:
        app = self._app
        if self._may_write():
            self._scene = export.copy(app.copy_text, self._scene, app.options)

    def _copy_rows(self) -> None:
        if self._may_write():
            self._scene = export.copy_rows(self._app.copy_text, self._scene)

    def _take_picture(self) -> None:
        if self._may_write():
            self._app.take_picture()

    def _may_write(self) -> bool:
        """Return whether files and the clipboard may be written: not by the keys of a recording.

        Another user may have written it, so that what it does stays within the explorer.
        """
        if self._app.is_replaying:
            notice = "during a replay nothing is written or copied"
            self._scene = replace(self._scene, notice=notice)
        return not self._app.is_replaying

    def _window_here(self) -> None:
        self._app.replace_session(windowed(self._scene))
        self._scene = self._scene.with_state(replace(self._scene.state, area=None))

    def _step_here(self) -> None:
        """Make the selected step the window, or open the row of the drawer if it has the focus."""
        if drawer_has_keys(self._scene):
            self._go(drawer.enter(self._scene), "open.step")
        else:
            self._app.replace_session(steps.windowed(self._scene))

    def _open_capture(self) -> None:
        capture = files.chosen_capture(self._scene)
        if capture is not None:
            self._app.open_capture(capture, FILES)

    def _open_row(self) -> None:
        """Open the selected row of Overview; a capture is loaded."""
        capture = loss_list.chosen_capture(self._scene)
        if capture is None:
            self._go(loss_list.open_row(self._scene), "open.ranks")
        else:
            self._app.open_capture(capture, OVERVIEW)

    def _open_run(self) -> None:
        """Open the traces of the selected run, unless they are open already."""
        capture, job = runs_and_machines.capture_of_run(self._scene), self._scene.session.job
        if job is not None and capture == job.capture.name:
            self._go(view_moves.open_pane(OVERVIEW)(self._scene), "open.run")
        elif capture is not None:
            self._app.open_capture(capture, OVERVIEW)

    def _open_help(self) -> None:
        self._front.help = 0

    def _open_commands(self) -> None:
        from ccltui.tui.input.picker import Commands  # noqa: PLC0415  (not needed to start)

        self._open_list(Commands(uses=self._uses))

    def _open_picker(self, kind: Picked | None = None) -> None:
        from ccltui.tui.input import picker  # noqa: PLC0415  (not needed to start)

        kind = picker.kind_for(self._scene.state.pane) if kind is None else kind
        self._open_list(picker.Picker.of(kind, self._scene))

    def _open_list(self, shown: PromptedList | None) -> None:
        """Open a list over the panes, or close it; what places of its kind need is asked for."""
        self._front.commands = shown
        picking = None if shown is None else shown.picking
        self._scene = replace(self._scene, picking=picking)

    def _interrupt(self) -> None:
        if not self._app.stop_loading():
            self._app.leave()

    def _back(self) -> None:
        if view_moves.is_open(self._scene):
            self._scene = self._scene.with_state(view_moves.back(self._scene))
        else:
            self._app.stop_loading()
