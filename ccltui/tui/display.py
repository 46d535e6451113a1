"""Widgets of the explorer: created once, updated to a scene whenever it changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from textual.app import App, ComposeResult
from textual.widget import Widget

import ccltui.tui.panes  # noqa: F401  (registers the panes)
from ccltui.tui.chrome import chrome_lines
from ccltui.tui.chrome.canvas import CellCanvas, TextLines
from ccltui.tui.chrome.chrome_lines import status
from ccltui.tui.chrome.load_bar import LoadBar
from ccltui.tui.chrome.theme import Appearance
from ccltui.tui.state.pane import (
    Axis,
    Pane,
    all_panes,
    drawer_has_keys,
    drawer_shows,
    pane_in_view,
    shows_drawer,
)
from ccltui.tui.state.rank_labels import gutter
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import WIDE, Layout, Shown
from ccltui.tui.styled_text import Line

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.tui.input.prompt_line import Prompt
    from ccltui.tui.input.prompted_list import PromptedList

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
        from ccltui.tui.panes.details import collective_drawer  # noqa: PLC0415

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
            from ccltui.tui.chrome.help_page import help_page  # noqa: PLC0415

            page, self.help = help_page(scene.state.pane, self.help, width, height, scene.bindings)
            self._texts["cover"].show(page)


def _below(scene: Scene, prompt: Prompt | None, width: int) -> list[Line]:
    """Return the prompt, or the two lines about the cursor."""
    if prompt is not None:
        return prompt.lines(width)
    if scene.session.job is None:
        return chrome_lines.waiting(scene, width)
    return status(scene, width)
