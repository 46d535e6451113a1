"""The widgets of the explorer: made once, brought up to a scene whenever it changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from textual.app import App, ComposeResult
from textual.containers import Vertical

from ccltui.tui import lines
from ccltui.tui.commands import Commands
from ccltui.tui.help import help_page
from ccltui.tui.panes.gutter import gutter
from ccltui.tui.prompt import Prompt
from ccltui.tui.scene import Scene
from ccltui.tui.theme import Appearance
from ccltui.tui.viewstate import Pane
from ccltui.tui.widgets.canvas import CellCanvas
from ccltui.tui.widgets.loadbar import LoadBar
from ccltui.tui.widgets.textline import TextLines

LEAST_WIDTH, LEAST_HEIGHT = 70, 18
WIDE = 160
SHORT = 30
DRAWER_COLUMNS = 60
_CHARTS = (Pane.ALIGNMENT, Pane.TIMELINE)


class Display:
    """What is on the screen.

    While help covers the panes ``help`` is its first line, and ``commands`` is the command line
    while that does; else they are None.
    """

    def __init__(self, app: App[Any], look: Appearance) -> None:
        self._app = app
        self._look = (look.styles, look.table)
        self._prepared = False
        self.help: int | None = None
        self.commands: Commands | None = None

    def compose(self) -> ComposeResult:
        """Lines above and below the panes; nothing here needs numpy."""
        look = self._look
        yield TextLines(*look, id="header")
        yield TextLines(*look, id="tabs")
        yield LoadBar(*look, id="loadbar")
        with Vertical(id="panes"):
            for pane in Pane:
                yield CellCanvas(*look, id=pane.name.lower())
            yield CellCanvas(*look, id="drawer")
        yield TextLines(*look, id="status")
        yield TextLines(*look, id="keys")
        yield TextLines(*look, id="cover")

    def prepare(self) -> None:
        """Give the panes their painters, now that numpy is there anyway."""
        if self._prepared:
            return
        from ccltui.tui.panes import (  # noqa: PLC0415
            alignment,
            detail,
            events,
            files,
            summary,
            timeline,
        )

        self._prepared = True
        self._canvas(Pane.SUMMARY).paint_with(summary.paint)
        self._canvas(Pane.ALIGNMENT).paint_with(alignment.paint, alignment.shift)
        self._canvas(Pane.TIMELINE).paint_with(timeline.paint, timeline.shift)
        self._canvas(Pane.EVENTS).paint_with(events.paint)
        self._canvas(Pane.FILES).paint_with(files.paint)
        self._drawer.paint_with(detail.paint)

    def _canvas(self, pane: Pane) -> CellCanvas:
        return self._app.screen.query_one(f"#{pane.name.lower()}", CellCanvas)

    @property
    def _drawer(self) -> CellCanvas:
        return self._app.screen.query_one("#drawer", CellCanvas)

    def _lines(self, name: str) -> TextLines:
        return self._app.screen.query_one(f"#{name}", TextLines)

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
        """Panes on the screen: a wide one shows both charts, with their one cursor."""
        chosen = scene.state.pane
        yield from _CHARTS if self._wide and chosen in _CHARTS else (chosen,)

    def fitted(self, scene: Scene) -> Scene:
        """Lay out the panes, and tell the state how many cells they have."""
        width, height = self._app.size
        visible = tuple(self._visible(scene))
        for pane in Pane:
            self._canvas(pane).display = pane in visible
        drawer = self._drawer
        drawer.display = scene.state.drawer is not None
        drawer.styles.dock = "right" if self._wide else "bottom"
        drawer.styles.width = DRAWER_COLUMNS if self._wide else "100%"
        drawer.styles.height = "100%" if self._wide else 10 if height < SHORT else 14
        self._app.screen.set_class(self._wide, "wide")
        beside = DRAWER_COLUMNS if self._wide and drawer.display else 0
        cells = max(width - beside - gutter(scene), 1)
        state = scene.state
        return scene.with_state(
            replace(
                state,
                time=state.time.resized(cells),
                columns=state.columns.resized(cells),
                rows=max(self._canvas(state.pane).size.height - 1, 1),
            )
        )

    def show(self, scene: Scene, prompt: Prompt | None) -> None:
        """Bring everything on the screen up to a scene that was fitted."""
        width, height = self._app.size
        self._lines("header").show([lines.header(scene, width)])
        self._lines("tabs").show([lines.tabs(scene, width)])
        below = lines.status(scene, width) if prompt is None else prompt.lines(width)
        self._lines("status").show(below)
        self._lines("keys").show([lines.keys(scene, width)])
        self._cover(scene, width, height)
        covered = self._covered
        loadbar = self._app.screen.query_one(LoadBar)
        loadbar.show_session(scene.session, width, height, shown=not covered)
        labels = gutter(scene)
        for pane in self._visible(scene):
            self._canvas(pane).show(scene, labels)
        if self._drawer.display:
            self._drawer.show(scene)

    def _cover(self, scene: Scene, width: int, height: int) -> None:
        """Help, or a word about the size, in front of everything."""
        self._app.screen.set_class(self._covered, "covered")
        if self._small:
            self._lines("cover").show(lines.too_small(scene, width, height))
        elif self.commands is not None:
            page = self.commands.page(scene, scene.bindings, width, height)
            self._lines("cover").show(page)
        elif self.help is not None:
            page, self.help = help_page(scene.state.pane, self.help, width, height, scene.bindings)
            self._lines("cover").show(page)
