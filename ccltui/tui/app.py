"""The explorer: owns the one scene, hands it to the panes, and turns keys into new ones."""

from __future__ import annotations

from dataclasses import replace

from textual import events
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.driver import Driver
from textual.worker import Worker, WorkerState

from ccltui.tui import compat, lines, moves
from ccltui.tui.actions import Action, Effect
from ccltui.tui.adopt import adopt
from ccltui.tui.background import LOADING, Background, MakeAnalyst
from ccltui.tui.help import SCROLL, help_page
from ccltui.tui.keymap import Keymap
from ccltui.tui.loader import Load, run_load
from ccltui.tui.messages import (
    Fact,
    FindingsReady,
    JobOpened,
    OpenFailed,
    Report,
    after,
)
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.panes.gutter import gutter
from ccltui.tui.prompt import Prompt, Typed
from ccltui.tui.scene import Findings, Scene
from ccltui.tui.session import Filter, Session
from ccltui.tui.theme import Appearance
from ccltui.tui.viewstate import Pane
from ccltui.tui.widgets.canvas import CellCanvas
from ccltui.tui.widgets.loadbar import LoadBar
from ccltui.tui.widgets.textline import TextLines

LEAST_WIDTH, LEAST_HEIGHT = 70, 18
WIDE = 160


class Explorer(App[int], inherit_bindings=False):
    """Three panes over one job, with one cursor."""

    CSS_PATH = "styles/explorer.tcss"
    ENABLE_COMMAND_PALETTE = False
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
        appearance = Appearance.before_start(options.color)
        super().__init__(driver_class=driver_class, ansi_color=True)
        self._look = appearance.for_terminal(self.console.color_system)
        chosen = Filter(options.window, options.steps, options.ranks)
        self.scene = Scene(Session(path, filter=chosen), colour=self._look.depth != "mono")
        self._background = Background(self, options, load, analyst, self._post)
        self._key_lookup = Keymap()
        self._pending = ""
        self._prompt: Prompt | None = None
        self._help: int | None = None
        self._small = False
        self._prepared = False

    def compose(self) -> ComposeResult:
        """Lines above and below the panes; nothing here needs numpy."""
        look = (self._look.styles, self._look.ascii_table)
        yield TextLines(*look, id="header")
        yield TextLines(*look, id="tabs")
        yield LoadBar(*look, id="loadbar")
        with Vertical(id="panes"):
            for pane in Pane:
                yield CellCanvas(*look, id=pane.name.lower())
        yield TextLines(*look, id="status")
        yield TextLines(*look, id="keys")
        yield TextLines(*look, id="cover")

    def on_mount(self) -> None:
        """Paint the skeleton first, then look at the directory."""
        compat.leave_on_termination(self)
        self._show()
        self.call_after_refresh(self._background.start_loading, self.scene.session.path)

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
        if isinstance(fact, FindingsReady):
            self._adopt(fact.findings)
            return
        if isinstance(fact, JobOpened | OpenFailed):
            self._prepare_panes()
        self._replace_session(after(self.scene.session, fact))

    def _prepare_panes(self) -> None:
        """Give the panes their painters, now that numpy is there anyway."""
        if self._prepared:
            return
        from ccltui.tui.panes import alignment, summary, timeline  # noqa: PLC0415

        self._prepared = True
        self._canvas(Pane.SUMMARY).paint_with(summary.paint)
        self._canvas(Pane.ALIGNMENT).paint_with(alignment.paint, alignment.shift)
        self._canvas(Pane.TIMELINE).paint_with(timeline.paint, timeline.shift)

    def _replace_session(self, session: Session) -> None:
        stale = session.generation != self.scene.session.generation
        self.scene = replace(self.scene, session=session)
        self._show()
        if stale:
            self._background.analyse(lambda: self.scene.session)

    def _adopt(self, findings: Findings) -> None:
        if findings.generation == self.scene.session.generation:
            self.scene = adopt(self.scene, findings)
            self._show()

    # Keys

    def on_key(self, event: events.Key) -> None:
        """Give the key to the prompt or the help when one is open, else look it up."""
        event.stop()
        event.prevent_default()
        if self._prompt is not None:
            self._type(self._prompt.press(event.key, event.character))
        elif self._help is not None:
            step = SCROLL.get(event.key)
            self._help = None if step is None else self._help + step
        else:
            printable = event.character if event.is_printable else None
            self._press(printable or event.key)
        self._show()

    def on_paste(self, event: events.Paste) -> None:
        """Pasted text is typed text, and only where text is asked for."""
        if self._prompt is not None:
            self._prompt = self._prompt.insert(" ".join(event.text.split()))
            self._show()

    def _press(self, key: str) -> None:
        pressed = self._key_lookup.press(self.scene.state.pane, self._pending, key)
        self._pending = pressed.pending
        notice = pressed.problem or (f"{pressed.pending} …" if pressed.pending else "")
        self.scene = replace(self.scene, notice=notice)
        if pressed.action is not None:
            self.perform(pressed.action)

    def perform(self, action: Action) -> None:
        """Do what an action does, or say why it cannot."""
        why = action.why_not(self.scene)
        if why is not None:
            self.scene = replace(self.scene, notice=why)
        elif isinstance(action.act, Effect):
            self._take_effect(action.act)
        else:
            self.scene = self.scene.with_state(action.act(self.scene))

    def _take_effect(self, effect: Effect) -> None:
        match effect:
            case Effect.PROMPT_WINDOW:
                self._ask_window()
            case Effect.CLEAR_WINDOW:
                cleared = replace(self.scene.session.filter, window=None, steps=None)
                self._replace_session(self.scene.session.filtered(cleared))
            case Effect.BACK:
                self._back()
            case Effect.HELP:
                self._help = 0
            case Effect.INTERRUPT:
                if not self._stop_loading():
                    self._leave()
            case Effect.REPAINT:
                compat.forget_screen(self)
                self.screen.refresh()
            case Effect.QUIT:
                self._leave()

    def _leave(self) -> None:
        """End with 0, or with 1 when nothing could be opened."""
        self.exit(1 if self.scene.session.phase == "failed" else 0)

    def _back(self) -> None:
        if self.scene.state.table_open:
            self.scene = self.scene.with_state(moves.back(self.scene))
        else:
            self._stop_loading()

    def _stop_loading(self) -> bool:
        """Stop loading, if it goes on; what is there stays."""
        if not self.scene.session.busy or not self._background.stop_loading():
            return False
        self.scene = replace(self.scene, notice="stopping: what is loaded stays")
        return True

    def _ask_window(self) -> None:
        from ccltui.tui import filters  # noqa: PLC0415  (keeps the readers out of the start)

        self._prompt = Prompt.asking(filters.TITLE, filters.filter_text(self.scene.session.filter))

    def _type(self, typed: Prompt | Typed) -> None:
        """Take what was typed: a longer text, an answer, or nothing any more."""
        from ccltui.tui import filters  # noqa: PLC0415

        prompt, self._prompt = self._prompt, None
        if isinstance(typed, Prompt):
            self._prompt = typed
        elif typed is Typed.ACCEPTED and prompt is not None:
            problem = filters.problem_with(prompt.text, self.scene)
            if problem is None:
                chosen = filters.parse_filter(prompt.text, self.scene)
                self._replace_session(self.scene.session.filtered(chosen))
            else:
                self._prompt = prompt.refused(problem)

    # Showing

    def on_resize(self, event: events.Resize) -> None:
        """Choose the layout by size alone."""
        width, height = event.size
        self._small = width < LEAST_WIDTH or height < LEAST_HEIGHT
        self.screen.set_class(width >= WIDE, "wide")
        self.call_after_refresh(self._show)

    def _canvas(self, pane: Pane) -> CellCanvas:
        return self.screen.query_one(f"#{pane.name.lower()}", CellCanvas)

    def _lines(self, name: str) -> TextLines:
        return self.screen.query_one(f"#{name}", TextLines)

    def _visible(self) -> tuple[Pane, ...]:
        """Panes on the screen: a wide one shows both charts, with their one cursor."""
        pane = self.scene.state.pane
        charts = (Pane.ALIGNMENT, Pane.TIMELINE)
        return charts if self.size.width >= WIDE and pane in charts else (pane,)

    def _show(self) -> None:
        """Bring everything on the screen up to the scene."""
        width, height = self.size
        visible = self._visible()
        for pane in Pane:
            self._canvas(pane).display = pane in visible
        gutter = self._fit_state()
        scene = self.scene
        self._lines("header").show([lines.header(scene, width)])
        self._lines("tabs").show([lines.tabs(scene, width)])
        prompt = self._prompt
        self._lines("status").show(prompt.lines(width) if prompt else lines.status(scene, width))
        self._lines("keys").show([lines.keys(scene, width)])
        self._cover(width, height)
        loadbar = self.screen.query_one(LoadBar)
        loadbar.show_session(scene.session, width, height, shown=not self._covered)
        for pane in visible:
            self._canvas(pane).show(scene, gutter)

    @property
    def _covered(self) -> bool:
        return self._small or self._help is not None

    def _cover(self, width: int, height: int) -> None:
        """Help, or a word about the size, in front of everything."""
        self.screen.set_class(self._covered, "covered")
        if self._small:
            self._lines("cover").show(lines.too_small(self.scene, width, height))
        elif self._help is not None:
            page, self._help = help_page(self.scene.state.pane, self._help, width, height)
            self._lines("cover").show(page)

    def _fit_state(self) -> int:
        """Tell the state how many cells its panes have; returns the width of the labels."""
        labels = gutter(self.scene)
        cells = max(self.size.width - labels, 1)
        state = self.scene.state
        fitted = replace(
            state,
            time=state.time.resized(cells),
            columns=state.columns.resized(cells),
            rows=max(self._canvas(state.pane).size.height - 1, 1),
        )
        if fitted != state:
            self.scene = self.scene.with_state(fitted)
        return labels
