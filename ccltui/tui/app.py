"""The Textual application: owns the scene, and replaces it on keys and facts from workers.

The modules that handle keys and facts are imported after the first frame is painted.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from textual import events
from textual.app import ComposeResult
from textual.driver import Driver
from textual.worker import Worker, WorkerState

from ccltui.report.session_log import LOG
from ccltui.splash import SPLASH
from ccltui.tui.chrome.theme import Appearance
from ccltui.tui.display import Display
from ccltui.tui.engine.app_messages import FactPosted
from ccltui.tui.engine.background import LOADING, Background, MakeAnalyst, is_idle
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.state.followed import Followed
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session
from ccltui.tui.state.view_state import ViewState
from ccltui.tui.terminal import compat

if TYPE_CHECKING:
    from ccltui.tui.engine.loader import Load
    from ccltui.tui.engine.messages import Fact
    from ccltui.tui.input.control import Control
    from ccltui.tui.input.recording import KeyLog
    from ccltui.tui.other_path import OtherPath
    from ccltui.tui.state.answers import Query


class Explorer(compat.ErrorKeepingApp, inherit_bindings=False):
    """The explorer: panes over one job, with one shared cursor."""

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
        load: Load | None = None,
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
        self.scene = Scene(
            session,
            colour=look.heat_in_colour,
            bindings=options.keys,
            other=_other(options),
            followed=Followed.of(options.follow, options.view),
        )
        self._background = Background(self, load, analyst, self._post)
        self._asked: dict[type[Query[Any]], Query[Any]] = {}

    @cached_property
    def control(self) -> Control:
        """Handler of keys."""
        from ccltui.tui.input.control import Control  # noqa: PLC0415  (after the first paint)

        return Control(self, self._front)

    def compose(self) -> ComposeResult:
        """Create the widgets of the display."""
        yield from self._front.compose()

    def on_mount(self) -> None:
        """Paint the skeleton, then scan the directory."""
        SPLASH.release()
        self.app_resume_signal.subscribe(self, lambda _: self.repaint())
        compat.leave_at_hangup(self)
        self.screen.styles.background = self._look.ground
        self._show()
        self.call_after_refresh(self._begin)
        if self.key_log is not None:
            self.key_log.start_replay(self, self._is_busy, self._say)

    def _open_key_log(self, path: str, options: ExplorerOptions) -> KeyLog | None:
        """Open the log to record to or to replay from; None, the usual case, without either."""
        if options.record is None and options.replay is None:
            return None
        from ccltui.tui.input.recording import KeyLog  # noqa: PLC0415  (rare)

        return KeyLog.opened(self, options, path)

    def _record(self, event: events.Event) -> None:
        if self.key_log is not None:
            self.key_log.record(event)

    def _begin(self) -> None:
        compat.is_painted(self)
        _ = self.control  # imported before the readers are: else the first key waits for both
        self._background.start_loading(self.scene.session.path, self.options)

    def _is_busy(self) -> bool:
        """Return whether anything is being loaded, computed or looked up."""
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
        from ccltui.tui.engine.messages import OpenFailed  # noqa: PLC0415  (after the first paint)

        if event.state is WorkerState.ERROR:
            error = event.worker.error
            if error is not None:
                LOG.add_traceback(error)
            problem = f"internal error: {type(error).__name__}: {error}"
            if event.worker.group == LOADING:
                self._post(OpenFailed(problem))
            else:
                self.scene = replace(self.scene, notice=problem)
                self._show()

    def on_fact_posted(self, message: FactPosted) -> None:
        """Compute the next scene from a fact, and show it."""
        from ccltui.tui.engine.messages import (  # noqa: PLC0415
            JobFollowed,
            JobOpened,
            OpenFailed,
            log_line,
        )
        from ccltui.tui.reducer import scene_after  # noqa: PLC0415

        if message.load not in (0, self._background.loads):
            return
        if isinstance(message.fact, JobOpened | JobFollowed | OpenFailed):
            self._front.prepare()
        if LOG.is_open:
            LOG.add(log_line(message.fact))
        before = self.scene
        self.scene = scene_after(before, message.fact)
        if isinstance(message.fact, JobFollowed):
            self._ask_files_again()
        if self.scene.followed is not before.followed:
            self._start_commands(before.followed)
        self._show()
        if self.scene.session.generation != before.session.generation:
            self._analyse()

    def _ask_files_again(self) -> None:
        """Forget which queries about files were sent: the files are others now."""
        from ccltui.tui.state.answers import FileQuery  # noqa: PLC0415  (after the first paint)

        self._asked = {
            kind: query for kind, query in self._asked.items() if not issubclass(kind, FileQuery)
        }

    def _start_commands(self, before: Followed | None) -> None:
        """Start the command of each alert that became true."""
        followed, settings = self.scene.followed, self.options.follow
        if followed is None or settings is None or settings.command is None:
            return
        for verdict in followed.became_true(before):
            self._background.run_command(settings.command, verdict, self.scene.session.path)

    def _analyse(self) -> None:
        if self.scene.needs_analysis:
            self._background.analyse(lambda: self.scene.session)

    # User input

    def on_key(self, event: events.Key) -> None:
        """Perform the action of a key."""
        event.stop()
        event.prevent_default()
        self._record(event)
        self.control.key(event)
        self._show()
        self._background.tidy(lambda: self.scene.session)

    def on_mouse_down(self, event: events.MouseEvent) -> None:
        """Perform the action of the mouse."""
        self._record(event)
        if self.control.mouse(event):
            self._show()

    on_mouse_up = on_mouse_move = on_mouse_scroll_up = on_mouse_scroll_down = on_mouse_down

    def on_paste(self, event: events.Paste) -> None:
        """Handle pasted text."""
        self._record(event)
        self.control.paste(event.text)
        self._show()

    # Effects of actions apart from another view

    def replace_session(self, session: Session) -> None:
        """Show another session, and compute again what was computed for the previous one."""
        stale = session.generation != self.scene.session.generation
        self.scene = replace(self.scene, session=session)
        self._show()
        if stale:
            self._analyse()

    def open_capture(self, capture: str, pane: str) -> None:
        """Load another capture of the same directory; the view restarts in the given pane."""
        old = self.scene
        self.options = replace(self.options, capture=capture, iteration=None)
        state = ViewState(pane=pane)
        self.scene = Scene(
            old.session.anew(),
            state,
            colour=old.colour,
            bindings=old.bindings,
            other=_other(self.options),
            followed=old.followed,
        )
        self._asked.clear()
        self._background.start_loading(old.session.path, self.options)

    def export(self, path: str) -> None:
        """Write the rows in view to a file."""
        self._background.export(self.scene, path)

    def copy_text(self, text: str) -> None:
        """Copy a text to the clipboard of the user's terminal."""
        compat.copy(self, text)

    def take_picture(self) -> None:
        """Write a screenshot, after the command line that asked for it has closed."""
        self.screen.refresh(layout=True)  # hides what covers the panes before the callback
        self.call_after_refresh(self._take_picture)

    def _take_picture(self) -> None:
        from ccltui.tui.actions.clipboard_actions import take_picture  # noqa: PLC0415  (not needed to start)

        self.scene = take_picture(self, self.scene)
        self._show()

    @property
    def is_replaying(self) -> bool:
        """Whether recorded keys are replayed, which another user may have written."""
        return self.key_log is not None and self.key_log.is_replaying

    def stop_loading(self) -> bool:
        """Stop loading if it is in progress; return whether it was. Loaded data stays."""
        if not self.scene.session.busy or not self._background.stop_loading():
            return False
        from ccltui.tui.engine.messages import STOPPING  # noqa: PLC0415

        self.scene = replace(self.scene, notice=STOPPING)
        return True

    def repaint(self) -> None:
        """Redraw every cell of the terminal."""
        compat.forget_screen(self)
        self.screen.refresh()

    def leave(self) -> None:
        """Exit with status 0, or with 1 when nothing could be opened."""
        self.exit(1 if self.scene.session.phase == "failed" else 0)

    # Display

    def on_resize(self) -> None:
        """Lay out again once all widgets have the new size."""
        self.call_after_refresh(self._show)

    def _show(self) -> None:
        """Update the screen to the scene, and send the queries that it lacks answers to."""
        prompt = self.control.prompt if "control" in self.__dict__ else None
        self.scene = self._front.fitted(self.scene)
        self._front.show(self.scene, prompt)
        if self.scene.session.job is None:
            return
        from ccltui.tui.state.wanted_queries import wanted  # noqa: PLC0415  (after the first paint)

        for query in wanted(self.scene):
            if self._asked.get(type(query)) != query:
                self._asked[type(query)] = query
                self._background.ask(self.scene, query)


def _other(options: ExplorerOptions) -> OtherPath | None:
    """Return the second path that the options name."""
    if options.against is None:
        return None
    from ccltui.tui.other_path import OtherPath  # noqa: PLC0415  (rare)

    return OtherPath.of(options.against, options)
