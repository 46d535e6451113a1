"""Handle keys, mouse events and pasted text: each makes the next scene of the explorer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual import events

from ccltui.metrics.view.view_options import ViewOptions
from ccltui.tui.actions import clipboard_actions
from ccltui.tui.actions.action import Action, Effect, keys_of
from ccltui.tui.actions.action_list import by_id
from ccltui.tui.chrome.help_page import SCROLL
from ccltui.tui.input.keymap import PREFIXES, Keymap, append_digit, repeated
from ccltui.tui.input.mouse import Mouse
from ccltui.tui.input.prompts import windowed
from ccltui.tui.moves import drawer, overview_rows, view_history, view_moves
from ccltui.tui.panes import files, runs, steps
from ccltui.tui.state.pane import drawer_has_keys
from ccltui.tui.state.pane_names import FILES, OVERVIEW
from ccltui.tui.state.scene import Picked, Scene
from ccltui.tui.state.view_state import ViewState

if TYPE_CHECKING:
    from ccltui.tui.input.host_protocols import Host, Screen
    from ccltui.tui.input.prompt_line import Prompt
    from ccltui.tui.input.prompted_list import PromptedList
    from ccltui.tui.input.prompts import Outcome, PromptSession


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
            Effect.VIEW_BACK: lambda: self._view(view_history.back),
            Effect.VIEW_FORWARD: lambda: self._view(view_history.forward),
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
        from ccltui.tui.actions.export import Export  # noqa: PLC0415  (keeps the readers out of the start)

        if isinstance(outcome, ViewOptions):
            self._app.replace_session(self._scene.session.filtered(outcome))
        elif isinstance(outcome, ViewState):
            self._go(outcome, "")
        elif isinstance(outcome, Export):
            if self._may_write():
                self._scene = replace(self._scene, said=f"writing {outcome.path}")
                self._app.export(outcome.path)
        else:
            self._scene = view_history.settled(self._scene, outcome)

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
            self._scene = clipboard_actions.copy(app.copy_text, self._scene, app.options)

    def _copy_rows(self) -> None:
        if self._may_write():
            self._scene = clipboard_actions.copy_rows(self._app.copy_text, self._scene)

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
        capture = overview_rows.chosen_capture(self._scene)
        if capture is None:
            self._go(overview_rows.open_row(self._scene), "open.ranks")
        else:
            self._app.open_capture(capture, OVERVIEW)

    def _open_run(self) -> None:
        """Open the traces of the selected run, unless they are open already."""
        capture, job = runs.capture_of_run(self._scene), self._scene.session.job
        if job is not None and capture == job.capture.name:
            self._go(view_moves.open_pane(OVERVIEW)(self._scene), "open.run")
        elif capture is not None:
            self._app.open_capture(capture, OVERVIEW)

    def _open_help(self) -> None:
        self._front.help = 0

    def _open_commands(self) -> None:
        from ccltui.tui.input.command_palette import Commands  # noqa: PLC0415  (not needed to start)

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
