"""The Textual application and its widgets: it owns the scene, and replaces it on keys and facts.

The modules that handle keys and facts are imported after the first frame is painted.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from textual import events
from textual.app import App, ComposeResult
from textual.driver import Driver
from textual.widget import Widget
from textual.worker import Worker, WorkerState

import ccltui.tui.panes  # noqa: F401  (registers the panes)
from ccltui.draw.text import Line
from ccltui.report.output import LOG
from ccltui.splash import SPLASH
from ccltui.tui import chrome_lines
from ccltui.tui.canvas import Appearance, CellCanvas, LoadBar, TextLines
from ccltui.tui.chrome_lines import status
from ccltui.tui.engine.background import LOADING, Background, FactPosted, MakeAnalyst, is_idle
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.state.pane import (
    Axis,
    Pane,
    all_panes,
    drawer_has_keys,
    drawer_shows,
    gutter,
    pane_in_view,
    shows_drawer,
)
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Followed, Session
from ccltui.tui.state.view_state import WIDE, Layout, Shown, ViewState
from ccltui.tui.terminal import compat

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.tui.engine.loader import Load
    from ccltui.tui.engine.messages import Fact
    from ccltui.tui.input.control import Control
    from ccltui.tui.input.prompted_list import Prompt, PromptedList
    from ccltui.tui.input.recording import KeyLog
    from ccltui.tui.options import OtherPath
    from ccltui.tui.state.answers import Query

LEAST_WIDTH, LEAST_HEIGHT = 70, 18
SHORT = 30
DRAWER_COLUMNS = 60
_DRAWER = "drawer"
_LEFT = 55
"""Width of Alignment beside Timeline, in percent."""


class _Panes(Widget, inherit_bindings=False):
    """The panes, one below the other; Textual's own module of containers has a dozen more."""


class Display:
    """The widgets on the screen and what covers them.

    While help covers the panes, ``help`` is its first line, and while the command line does,
    ``commands`` is that command line; else they are None.
    """

    def __init__(self, app: App[Any], look: Appearance) -> None:
        self._app = app
        self._look = (look.styles, look.table)
        self._prepared = False
        self._texts: dict[str, TextLines] = {}
        self._canvases: dict[str, CellCanvas] = {}
        self.help: int | None = None
        self.commands: PromptedList | None = None

    def compose(self) -> ComposeResult:
        """Create the lines above and below the panes, and the first pane; no numpy is needed.

        The first frame shows one empty pane: `prepare` adds the others behind it.
        """
        for name in ("header", "tabs"):
            yield self._made_lines(name)
        self._loadbar = LoadBar(*self._look, id="loadbar")
        yield self._loadbar
        self._panes = _Panes(self._made_canvas(all_panes()[0].name), id="panes")
        yield self._panes
        for name in ("status", "keys", "cover"):
            yield self._made_lines(name)

    def _made_lines(self, name: str) -> TextLines:
        self._texts[name] = TextLines(*self._look, id=name)
        return self._texts[name]

    def _made_canvas(self, name: str) -> CellCanvas:
        self._canvases[name] = CellCanvas(*self._look, id=name)
        return self._canvases[name]

    def prepare(self) -> None:
        """Add the other panes and give all their paint functions, after numpy is imported."""
        if self._prepared:
            return
        from ccltui.tui.panes import collective_drawer  # noqa: PLC0415

        self._prepared = True
        names = [pane.name for pane in all_panes() if pane.name not in self._canvases]
        self._panes.mount_all([self._made_canvas(name) for name in (*names, _DRAWER)])
        for pane in all_panes():
            self._canvases[pane.name].paint_with(pane.paint, pane.shift)
        self._canvases[_DRAWER].paint_with(collective_drawer.paint)

    def _made(self) -> Iterator[tuple[Pane, CellCanvas]]:
        """Yield the panes that have a canvas: all once the display is prepared."""
        for pane in all_panes():
            if pane.name in self._canvases:
                yield pane, self._canvases[pane.name]

    @property
    def _small(self) -> bool:
        width, height = self._app.size
        return width < LEAST_WIDTH or height < LEAST_HEIGHT

    @property
    def _wide(self) -> bool:
        return self._app.size.width >= WIDE

    @property
    def _covered(self) -> bool:
        return self._small or self.help is not None or self.commands is not None

    def _visible(self, scene: Scene) -> Iterator[Pane]:
        """Yield the panes on the screen: a wide one shows both charts, with one shared cursor."""
        state = scene.state
        alone = state.maximised or state.layout is Layout.SINGLE
        if state.maximised and drawer_has_keys(scene):
            return
        shown = pane_in_view(scene)
        if self._wide and shown.is_chart and not alone:
            yield from (pane for pane in all_panes() if pane.is_chart)
        else:
            yield shown

    def fitted(self, scene: Scene) -> Scene:
        """Lay out the panes, and return the scene with their sizes in cells."""
        visible = tuple(self._visible(scene))
        for pane, canvas in self._made():
            canvas.display = pane in visible
            if not canvas.display:
                canvas.rest()
        beside = self._place_drawer(scene)
        width = self._app.size.width - beside
        side = len(visible) > 1 and scene.state.layout is Layout.SIDE
        self._app.screen.set_class(self._wide, "wide")
        self._app.screen.set_class(side, "side")
        left = width * _LEFT // 100 if side else width
        right = width - left if side else width
        for pane, canvas in self._made():
            if pane.is_chart:
                canvas.styles.width = right if pane.axis is Axis.TIME else left
        scene = scene.with_state(replace(scene.state, roomy=width >= chrome_lines.NARROW))
        labels, state = gutter(scene), scene.state
        return scene.with_state(
            replace(
                state,
                time=state.time.resized(max(right - labels, 1)),
                columns=state.columns.resized(max(left - labels, 1)),
                rows=max(self._height_of(pane_in_view(scene)) - 1, 1),
            )
        )

    def _height_of(self, pane: Pane) -> int:
        return self._canvases[pane.name].size.height if pane.name in self._canvases else 0

    def _place_drawer(self, scene: Scene) -> int:
        """Place the drawer, and return the number of columns it takes beside the panes."""
        if _DRAWER not in self._canvases:
            return 0
        widget, height = self._canvases[_DRAWER], self._app.size.height
        alone = scene.state.maximised and drawer_has_keys(scene)
        widget.display = shows_drawer(scene) and (alone or not scene.state.maximised)
        right = self._wide and not alone
        widget.styles.dock = "right" if right else "bottom"
        widget.styles.width = DRAWER_COLUMNS if right else "100%"
        least = 10 if height < SHORT else 14
        below = max(least, height // 2) if drawer_shows(scene, Shown.EVENT) else least
        widget.styles.height = "100%" if right or alone else below
        return DRAWER_COLUMNS if right and widget.display else 0

    def under(self, x: int, y: int) -> tuple[Pane, Planes, int, int] | None:
        """Return the pane at a place of the screen, its picture, and the place in it."""
        for pane, canvas in () if self._covered else self._made():
            if canvas.display and canvas.planes is not None and canvas.region.contains(x, y):
                return pane, canvas.planes, x - canvas.region.x, y - canvas.region.y
        return None

    def tab_at(self, scene: Scene, x: int, y: int) -> Pane | None:
        """Return the pane whose tab is at a place of the screen."""
        tabs = self._texts["tabs"]
        if self._covered or not tabs.region.contains(x, y):
            return None
        before = 0
        for text, _ in chrome_lines.tabs(scene, tabs.size.width):
            before += len(text)
            if x < before:
                digit = text[1:2]
                return next((pane for pane in all_panes() if pane.key == digit), None)
        return None

    def show(self, scene: Scene, prompt: Prompt | None) -> None:
        """Update the screen to a scene that was fitted."""
        width, height = self._app.size
        self._texts["header"].show([chrome_lines.header(scene, width)])
        self._texts["tabs"].show([chrome_lines.tabs(scene, width)])
        self._texts["status"].show(_below(scene, prompt, width))
        typed = prompt is not None
        keys = chrome_lines.prompt_keys(width) if typed else chrome_lines.keys(scene, width)
        self._texts["keys"].show([keys])
        self._cover(scene, width, height)
        covered = self._covered
        self._loadbar.show_session(scene.session, width, height, shown=not covered)
        if covered:
            return
        labels = gutter(scene)
        for pane in self._visible(scene):
            if pane.name in self._canvases:
                self._canvases[pane.name].show(scene, labels)
        drawer = self._canvases.get(_DRAWER)
        if drawer is not None and drawer.display:
            drawer.show(scene)

    def _cover(self, scene: Scene, width: int, height: int) -> None:
        """Show help or a size message in front of everything."""
        self._texts["cover"].display = self._covered
        if self._small:
            self._texts["cover"].show(chrome_lines.too_small(scene, width, height))
        elif self.commands is not None:
            page = self.commands.page(scene, scene.bindings, width, height)
            self._texts["cover"].show(page)
        elif self.help is not None:
            from ccltui.tui.help_page import help_page  # noqa: PLC0415

            page, self.help = help_page(scene.state.pane, self.help, width, height, scene.bindings)
            self._texts["cover"].show(page)


def _below(scene: Scene, prompt: Prompt | None, width: int) -> list[Line]:
    """Return the prompt, or the two lines about the cursor."""
    if prompt is not None:
        return prompt.lines(width)
    if scene.session.job is None:
        return chrome_lines.waiting(scene, width)
    return status(scene, width)


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
        from ccltui.tui.export import take_picture  # noqa: PLC0415  (not needed to start)

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
        if not self.screen_stack:  # a fact that comes while the application ends
            return
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
    from ccltui.tui.options import OtherPath  # noqa: PLC0415  (rare)

    return OtherPath.of(options.against, options)
