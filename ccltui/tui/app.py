"""The explorer: owns the one scene, hands it to the panes, and turns keys into new ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.driver import Driver
from textual.worker import Worker, WorkerState

from ccltui.splash import SPLASH
from ccltui.tui import compat, drawer, history, moves, outlets, side_tables
from ccltui.tui.actions import Action, Effect, by_id
from ccltui.tui.adopt import adopt
from ccltui.tui.asking import Asking
from ccltui.tui.background import LOADING, Background, MakeAnalyst
from ccltui.tui.commands import Chosen, Commands
from ccltui.tui.counts import longer, repeated
from ccltui.tui.display import Display
from ccltui.tui.file_rows import file_rows
from ccltui.tui.help import SCROLL
from ccltui.tui.keymap import Keymap, keys_of
from ccltui.tui.loader import Load, run_load
from ccltui.tui.messages import (
    Exported,
    Fact,
    FindingsReady,
    JobOpened,
    OpenFailed,
    Report,
    Trouble,
    after,
)
from ccltui.tui.mouse import Mouse
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.queries import Answered, Query, answered, wanted
from ccltui.tui.scene import Findings, Scene
from ccltui.tui.session import Filter, Session
from ccltui.tui.tape import Tape, is_idle
from ccltui.tui.theme import Appearance
from ccltui.tui.viewstate import ViewState

if TYPE_CHECKING:
    from ccltui.tui.questions import Outcome


class Explorer(compat.PlainlyEnding, inherit_bindings=False):
    """Panes over one job, with one cursor."""

    CSS_PATH = "styles/explorer.tcss"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    AUTO_FOCUS = None
    TITLE = "ccltui"

    def __init__(
        self,
        path: str,
        options: ExplorerOptions,
        driver_class: type[Driver] | None = None,
        load: Load = run_load,
        analyst: MakeAnalyst | None = None,
    ) -> None:
        appearance = Appearance.before_start(options)
        super().__init__(driver_class)
        look = appearance.for_terminal(self.console.color_system)
        self._look = look
        self._front = Display(self, look)
        self._mouse = Mouse(self._front)
        self.tape = Tape(self, options, path)
        chosen = Filter(options.window, options.steps, options.ranks)
        self._options = options
        session = Session(path, filter=chosen)
        self.scene = Scene(session, colour=look.heat_in_colour, bindings=options.keys)
        self._background = Background(self, options, load, analyst, self._post)
        self._key_lookup = Keymap(options.keys)
        self._repaint_keys = keys_of(by_id("app.repaint"), options.keys)
        self._count = ""
        self._asked: dict[type[Query], Query] = {}
        self._asking: Asking | None = None
        self._effects: dict[Effect, Callable[[], None]] = {
            Effect.CLEAR_WINDOW: self._clear_window,
            Effect.WINDOW_HERE: self._window_here,
            Effect.STEP_HERE: self._step_here,
            Effect.OPEN_CAPTURE: self._open_capture,
            Effect.COPY: lambda: self._view(lambda s: outlets.copy(self, s, self._options)),
            Effect.COPY_ROWS: lambda: self._view(lambda s: outlets.copy_rows(self, s)),
            Effect.SCREENSHOT: lambda: self._view(lambda s: outlets.take_picture(self, s)),
            Effect.VIEW_BACK: lambda: self._view(history.back),
            Effect.VIEW_FORWARD: lambda: self._view(history.forward),
            Effect.BACK: self._back,
            Effect.HELP: self._open_help,
            Effect.COMMANDS: self._open_commands,
            Effect.SUSPEND: self.action_suspend_process,
            Effect.INTERRUPT: self._interrupt,
            Effect.REPAINT: self._repaint,
            Effect.QUIT: self._leave,
        }

    def compose(self) -> ComposeResult:
        """Everything the display needs."""
        yield from self._front.compose()

    def on_mount(self) -> None:
        """Paint the skeleton first, then look at the directory."""
        SPLASH.hand_over()
        self.app_resume_signal.subscribe(self, lambda _: self._repaint())
        compat.leave_on_termination(self)
        self.screen.styles.background = self._look.ground
        self._show()
        path, options = self.scene.session.path, self._options
        self.call_after_refresh(self._background.start_loading, path, options)
        self.tape.begin(self._is_busy, self._say)

    def _is_busy(self) -> bool:
        """Whether anything is loaded, computed or found out."""
        waits = self._background.settling or self.scene.session.busy
        return waits or not is_idle(self)

    def _say(self, text: str) -> None:
        self.scene = replace(self.scene, said=text)
        self._show()

    def _post(self, fact: Fact) -> None:
        self.post_message(Report(fact))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A worker that breaks says so; it must not just fall silent."""
        if event.state is WorkerState.ERROR:
            error = event.worker.error
            problem = f"internal error: {type(error).__name__}: {error}"
            if event.worker.group == LOADING:
                self._post(OpenFailed(problem))
            else:
                self.scene = replace(self.scene, notice=problem)
                self._show()

    # Facts from workers

    def on_report(self, message: Report) -> None:
        """Make the next session or scene of a fact, and show it."""
        fact = message.fact
        if message.load not in (0, self._background.loads):
            return
        if isinstance(fact, FindingsReady):
            self._adopt(fact.findings)
            return
        if isinstance(fact, Trouble):
            self.scene = replace(self.scene, notice=fact.problem)
            self._show()
            return
        if isinstance(fact, Exported):
            self.scene = replace(self.scene, said=fact.said, notice=fact.problem)
            self._show()
            return
        if isinstance(fact, Answered):
            self.scene = answered(self.scene, fact)
            self._show()
            return
        if isinstance(fact, JobOpened | OpenFailed):
            self._front.prepare()
        self._replace_session(after(self.scene.session, fact))
        if isinstance(fact, JobOpened):
            self.scene = side_tables.opened(self.scene)
            self._show()

    def _replace_session(self, session: Session) -> None:
        stale = session.generation != self.scene.session.generation
        self.scene = replace(self.scene, session=session)
        self._show()
        if stale:
            self._background.analyse(lambda: self.scene.session)

    def _adopt(self, findings: Findings) -> None:
        """Take what is new; of fewer ranks than are there by now only the numbers."""
        session = self.scene.session
        if findings.generation == session.generation:
            self.scene = adopt(self.scene, findings)
        elif session.accepts(findings.generation):
            told = replace(self.scene.findings, metrics=findings.metrics, results=findings.results)
            self.scene = replace(self.scene, findings=told)
        else:
            return
        self._show()

    # Keys

    def on_key(self, event: events.Key) -> None:
        """Give the key to the prompt or the help when one is open, else look it up."""
        event.stop()
        event.prevent_default()
        self.tape.took(event)
        if event.key in self._repaint_keys:  # whatever is asked: it is for a spoilt screen
            self._repaint()
        elif self._asking is not None:
            self._type(self._asking, event.key, event.character)
        elif self._front.commands is not None:
            self._command(self._front.commands, event.key, event.character)
        elif self._front.help is not None:
            step = SCROLL.get(event.key)
            self._front.help = None if step is None else self._front.help + step
        else:
            printable = event.character if event.is_printable else None
            self._press(printable or event.key)
        self._show()

    def on_mouse_down(self, event: events.MouseEvent) -> None:
        """Do what the mouse means, unless something is asked for."""
        self.tape.took(event)
        if self._asking is not None:
            return
        after = self._mouse.take(event, self.scene)
        if after is not None:
            scene, by = after
            self._go(scene.state, by)
            self.scene = replace(self.scene, notice="", said="")
            self._show()

    on_mouse_up = on_mouse_move = on_mouse_scroll_up = on_mouse_scroll_down = on_mouse_down

    def on_paste(self, event: events.Paste) -> None:
        """Pasted text is typed text, and only where text is asked for."""
        self.tape.took(event)
        text = " ".join(event.text.split())
        if self._asking is not None:
            self._asking = self._asking.pasted(text, self.scene)
        elif self._front.commands is not None:
            self._front.commands = Commands(self._front.commands.prompt.insert(text))
        self._show()

    def _press(self, key: str, before: str = "") -> bool:
        """Do what a key means, after the one before it; whether it means anything."""
        count, self._count = self._count, longer(self._count, key)
        if self._count:
            self.scene = replace(self.scene, notice="", said=f"count {self._count}: times what?")
            return True
        pressed = self._key_lookup.press(self.scene.state.pane, before, key)
        if before and pressed.action is None:
            return False
        self.scene = replace(self.scene, notice=pressed.problem, said="")
        if pressed.action is not None:
            self.perform(pressed.action, int(count or 1))
        return True

    def perform(self, action: Action, times: int = 1) -> None:
        """Do what an action does, or say why it cannot."""
        if isinstance(action.act, Effect):
            why = action.why_not(self.scene)
            if why is not None:
                self.scene = replace(self.scene, notice=why)
            else:
                self._take_effect(action.act)
            return
        after, problem = repeated(action, self.scene, times)
        self._go(after.state, action.id)
        self.scene = replace(self.scene, notice=problem)

    def _command(self, commands: Commands, key: str, character: str | None) -> None:
        """Take a key for the command line: a longer text, what was chosen, or nothing any more."""
        after = commands.press(key, character, self.scene, self.scene.bindings)
        self._front.commands = after if isinstance(after, Commands) else None
        if not isinstance(after, Chosen):
            return
        self.scene = replace(self.scene, notice="", said="")
        if after.action is not None:
            self.perform(after.action, after.times)
        elif after.state is not None:
            self._go(after.state, "find.goto")

    def _go(self, state: ViewState, by: str) -> None:
        """Show another view; the one before it can be come back to."""
        history = self.scene.history.left(self.scene.state, state, by)
        self.scene = replace(self.scene, state=state, history=history)

    def _take_effect(self, effect: Effect) -> None:
        if effect.name.startswith("PROMPT_"):
            from ccltui.tui import questions  # noqa: PLC0415  (keeps the readers out of the start)

            self._asking = Asking.about(questions.OF[effect], self.scene)
        else:
            self._effects[effect]()

    def _clear_window(self) -> None:
        cleared = replace(self.scene.session.filter, window=None, steps=None)
        self._replace_session(self.scene.session.filtered(cleared))

    def _open_capture(self) -> None:
        """Load another capture of the same directory; the view begins anew."""
        rows = file_rows(self.scene)
        capture = rows[min(self.scene.state.file, len(rows) - 1)].capture
        self._options = replace(self._options, capture=capture, iteration=None)
        old = self.scene.session
        session = old.anew()
        state = ViewState(pane=self.scene.state.pane)
        old_scene = self.scene
        self.scene = Scene(session, state, colour=old_scene.colour, bindings=old_scene.bindings)
        self._asked.clear()
        self._background.start_loading(old.path, self._options)

    def _window_here(self) -> None:
        from ccltui.tui.filters import windowed  # noqa: PLC0415

        self._replace_session(windowed(self.scene))
        self.scene = self.scene.with_state(replace(self.scene.state, area=None))

    def _step_here(self) -> None:
        """The chosen step is the window; a row of the drawer opens where it has the keys."""
        from ccltui.tui.steps import windowed  # noqa: PLC0415

        if drawer.has_keys(self.scene):
            self._go(drawer.enter(self.scene), "open.step")
        else:
            self._replace_session(windowed(self.scene))

    def _view(self, step: Callable[[Scene], Scene]) -> None:
        self.scene = step(self.scene)

    def _open_help(self) -> None:
        self._front.help = 0

    def _open_commands(self) -> None:
        self._front.commands = Commands()

    def _interrupt(self) -> None:
        if not self._stop_loading():
            self._leave()

    def _repaint(self) -> None:
        compat.forget_screen(self)
        self.screen.refresh()

    def _leave(self) -> None:
        """End with 0, or with 1 when nothing could be opened."""
        self.exit(1 if self.scene.session.phase == "failed" else 0)

    def _back(self) -> None:
        if moves.is_open(self.scene):
            self.scene = self.scene.with_state(moves.back(self.scene))
        else:
            self._stop_loading()

    def _stop_loading(self) -> bool:
        """Stop loading, if it goes on; what is there stays."""
        if not self.scene.session.busy or not self._background.stop_loading():
            return False
        self.scene = replace(self.scene, notice="stopping: what is loaded stays")
        return True

    def _type(self, asking: Asking, key: str, character: str | None) -> None:
        """Take a key for what is asked: a longer text, an answer, or nothing any more."""
        self._asking = None
        if asking.may_be_stroke() and self._press(key, asking.question.prefix):
            return
        found = asking.press(key, character, self.scene)
        self.scene = replace(self.scene, state=found.state or asking.before)
        self._asking = found.asking
        if found.outcome is not None:
            self._take(found.outcome)

    def _take(self, outcome: Outcome) -> None:
        """Do what an answer asks for."""
        from ccltui.tui.export import Export  # noqa: PLC0415

        if isinstance(outcome, Filter):
            self._replace_session(self.scene.session.filtered(outcome))
        elif isinstance(outcome, ViewState):
            self._go(outcome, "")
        elif isinstance(outcome, Export):
            self.scene = replace(self.scene, said=f"writing {outcome.path}")
            self._background.export(self.scene, outcome.path)
        else:
            self.scene = history.settled(self.scene, outcome)

    # Showing

    def on_resize(self) -> None:
        """Lay out anew once the size is known everywhere."""
        self.call_after_refresh(self._show)

    def _show(self) -> None:
        """Bring everything on the screen up to the scene, and find out what it lacks."""
        self.scene = self._front.fitted(self.scene)
        self._front.show(self.scene, None if self._asking is None else self._asking.prompt)
        for query in wanted(self.scene):
            if self._asked.get(type(query)) != query:
                self._asked[type(query)] = query
                self._background.ask(self.scene, query)
