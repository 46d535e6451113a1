"""The Textual application: owns the scene, and replaces it as keys are pressed and facts arrive.

What keys do, and what follows from facts, is imported once the first frame is painted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from textual import events
from textual.app import ComposeResult
from textual.driver import Driver
from textual.worker import Worker, WorkerState

from ccltui.splash import SPLASH
from ccltui.tui.chrome.theme import Appearance
from ccltui.tui.display import Display
from ccltui.tui.engine.app_messages import FactPosted
from ccltui.tui.engine.background import LOADING, Background, MakeAnalyst, is_idle
from ccltui.tui.engine.loader import Load, run_load
from ccltui.tui.engine.messages import STOPPING, Fact, JobOpened, OpenFailed
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session
from ccltui.tui.state.view_state import ViewState
from ccltui.tui.terminal import compat

if TYPE_CHECKING:
    from ccltui.tui.input.control import Control
    from ccltui.tui.input.recording import KeyLog
    from ccltui.tui.state.answers import Query


class Explorer(compat.ErrorKeepingApp, inherit_bindings=False):
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
        self.key_log = self._open_key_log(path, options)
        self.options = options
        session = Session(path, filter=options.view)
        self.scene = Scene(session, colour=look.heat_in_colour, bindings=options.keys)
        self._background = Background(self, options, load, analyst, self._post)
        self._asked: dict[type[Query[Any]], Query[Any]] = {}

    @cached_property
    def control(self) -> Control:
        """What takes keys."""
        from ccltui.tui.input.control import Control  # noqa: PLC0415  (the screen paints before)

        return Control(self, self._front)

    def compose(self) -> ComposeResult:
        """Everything the display needs."""
        yield from self._front.compose()

    def on_mount(self) -> None:
        """Paint the skeleton first, then look at the directory."""
        SPLASH.release()
        self.app_resume_signal.subscribe(self, lambda _: self.repaint())
        compat.leave_on_termination(self)
        self.screen.styles.background = self._look.ground
        self._show()
        self.call_after_refresh(self._begin)
        if self.key_log is not None:
            self.key_log.start_replay(self, self._is_busy, self._say)

    def _open_key_log(self, path: str, options: ExplorerOptions) -> KeyLog | None:
        """Open what is recorded to or replayed from; None, as mostly, without either."""
        if options.record is None and options.replay is None:
            return None
        from ccltui.tui.input.recording import KeyLog  # noqa: PLC0415  (rare)

        return KeyLog.opened(self, options, path)

    def _record(self, event: events.Event) -> None:
        if self.key_log is not None:
            self.key_log.record(event)

    def _begin(self) -> None:
        self._background.start_loading(self.scene.session.path, self.options)
        _ = self.control  # the first key must not wait for it

    def _is_busy(self) -> bool:
        """Whether anything is loaded, computed or found out."""
        waits = self._background.settling or self.scene.session.busy
        return waits or not is_idle(self)

    def _say(self, text: str) -> None:
        self.scene = replace(self.scene, said=text)
        self._show()

    def _post(self, fact: Fact) -> None:
        self.post_message(FactPosted(fact))

    # Facts from workers

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show the error of a worker that failed."""
        if event.state is WorkerState.ERROR:
            error = event.worker.error
            problem = f"internal error: {type(error).__name__}: {error}"
            if event.worker.group == LOADING:
                self._post(OpenFailed(problem))
            else:
                self.scene = replace(self.scene, notice=problem)
                self._show()

    def on_fact_posted(self, message: FactPosted) -> None:
        """Make the next scene of a fact, and show it."""
        from ccltui.tui.reducer import scene_after  # noqa: PLC0415  (the screen paints before)

        if message.load not in (0, self._background.loads):
            return
        if isinstance(message.fact, JobOpened | OpenFailed):
            self._front.prepare()
        generation = self.scene.session.generation
        self.scene = scene_after(self.scene, message.fact)
        self._show()
        if self.scene.session.generation != generation:
            self._analyse()

    def _analyse(self) -> None:
        self._background.analyse(lambda: self.scene.session)

    # The user

    def on_key(self, event: events.Key) -> None:
        """Do what a key means."""
        event.stop()
        event.prevent_default()
        self._record(event)
        self.control.key(event)
        self._show()
        self._background.tidy(lambda: self.scene.session)

    def on_mouse_down(self, event: events.MouseEvent) -> None:
        """Do what the mouse means."""
        self._record(event)
        if self.control.mouse(event):
            self._show()

    on_mouse_up = on_mouse_move = on_mouse_scroll_up = on_mouse_scroll_down = on_mouse_down

    def on_paste(self, event: events.Paste) -> None:
        """Take pasted text."""
        self._record(event)
        self.control.paste(event.text)
        self._show()

    # What keys ask for beyond another view

    def replace_session(self, session: Session) -> None:
        """Show another session; what was computed for the one before is computed again."""
        stale = session.generation != self.scene.session.generation
        self.scene = replace(self.scene, session=session)
        self._show()
        if stale:
            self._analyse()

    def open_capture(self, capture: str, pane: str) -> None:
        """Load another capture of the same directory; the view begins anew in a pane."""
        old = self.scene
        self.options = replace(self.options, capture=capture, iteration=None)
        state = ViewState(pane=pane)
        self.scene = Scene(old.session.anew(), state, colour=old.colour, bindings=old.bindings)
        self._asked.clear()
        self._background.start_loading(old.session.path, self.options)

    def export(self, path: str) -> None:
        """Write what is in view to a file."""
        self._background.export(self.scene, path)

    def copy_text(self, text: str) -> None:
        """Put a text on the clipboard of the user's terminal."""
        compat.copy(self, text)

    def take_picture(self) -> None:
        """Write a picture of the screen, once a command line that asked for it is gone."""
        self.screen.refresh(layout=True)  # what covers the panes goes before what is called then
        self.call_after_refresh(self._take_picture)

    def _take_picture(self) -> None:
        from ccltui.tui.actions.clipboard_actions import take_picture  # noqa: PLC0415  (not needed to start)

        self.scene = take_picture(self, self.scene)
        self._show()

    def stop_loading(self) -> bool:
        """Stop loading, if it goes on; what is there stays."""
        if not self.scene.session.busy or not self._background.stop_loading():
            return False
        self.scene = replace(self.scene, notice=STOPPING)
        return True

    def repaint(self) -> None:
        """Send every cell again."""
        compat.forget_screen(self)
        self.screen.refresh()

    def leave(self) -> None:
        """End with 0, or with 1 when nothing could be opened."""
        self.exit(1 if self.scene.session.phase == "failed" else 0)

    # Showing

    def on_resize(self) -> None:
        """Lay out anew once the size is known everywhere."""
        self.call_after_refresh(self._show)

    def _show(self) -> None:
        """Bring everything on the screen up to the scene, and find out what it lacks."""
        prompt = self.control.prompt if "control" in self.__dict__ else None
        self.scene = self._front.fitted(self.scene)
        self._front.show(self.scene, prompt)
        if self.scene.session.job is None:
            return
        from ccltui.tui.state.queries import wanted  # noqa: PLC0415  (the screen paints before)

        for query in wanted(self.scene):
            if self._asked.get(type(query)) != query:
                self._asked[type(query)] = query
                self._background.ask(self.scene, query)
