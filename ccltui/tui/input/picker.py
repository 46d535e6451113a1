"""Choose a communicator, a rank, a step or a kernel from a list with figures."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.table import GAP, Column, table
from ccltui.tui.actions.action import Bindings
from ccltui.tui.chrome.chrome_lines import cut
from ccltui.tui.input.fuzzy_words import misfit
from ccltui.tui.input.prompted_list import Chosen, PromptedList
from ccltui.tui.moves.places.pickable import NOTHING, TITLES, Place, places
from ccltui.tui.state.own import pane_names
from ccltui.tui.state.scene import Picked, Scene
from ccltui.tui.styled_text import Line

_LEAST_NAME: Final = 24
_OF_PANE: Final = {
    pane_names.ALIGNMENT: Picked.COMMUNICATORS,
    pane_names.PARALLELISM: Picked.COMMUNICATORS,
    pane_names.STEPS: Picked.STEPS,
    pane_names.KERNELS: Picked.KERNELS,
}


def kind_for(pane: str) -> Picked:
    """Return the kind of places to begin with in a pane."""
    return _OF_PANE.get(pane, Picked.RANKS)


class Picker(PromptedList, frozen=True):
    """Places of a kind that match the typed text."""

    kind: Picked = Picked.RANKS

    @property
    def picking(self) -> Picked:
        """Kind of places that are listed."""
        return self.kind

    @classmethod
    def of(cls, kind: Picked, scene: Scene) -> Picker:
        """Open the list of a kind, at the place after the one in view."""
        listed = places(scene, kind)
        here = next((row for row, place in enumerate(listed) if place.is_here), -1)
        return cls(kind=kind, row=(here + 1) % max(len(listed), 1))

    def listed(self, scene: Scene) -> list[Place]:
        """Return the places that match the text, those that match best first."""
        fits = [(misfit(self.prompt.text, one.name), one) for one in places(scene, self.kind)]
        found = [(bad, one) for bad, one in fits if bad is not None]
        return [one for _, one in sorted(found, key=lambda pair: pair[0])]

    def count(self, scene: Scene, bindings: Bindings) -> int:
        """Return the number of places that match."""
        return len(self.listed(scene))

    def press(
        self, key: str, character: str | None, scene: Scene, bindings: Bindings
    ) -> Picker | Chosen | None:
        """Return the list after a key, of the next kind after tab."""
        if key in ("tab", "shift+tab"):
            kinds = list(Picked)
            step = 1 if key == "tab" else -1
            return Picker.of(kinds[(kinds.index(self.kind) + step) % len(kinds)], scene)
        return PromptedList.press(self, key, character, scene, bindings)

    def accepted(self, scene: Scene, bindings: Bindings) -> Picker | Chosen:
        """Return the view of the selected place, or the list with the reason why there is none."""
        listed = self.listed(scene)
        if not listed:
            return self.refused(self._nothing(scene))
        return Chosen(state=listed[min(self.row, len(listed) - 1)].show())

    def _nothing(self, scene: Scene) -> str:
        if self.prompt.text and places(scene, self.kind):
            return f"no {TITLES[self.kind][0]} matches {self.prompt.text!r}"
        return NOTHING[self.kind]

    def page(self, scene: Scene, bindings: Bindings, width: int, height: int) -> list[Line]:
        """Return the lines of the places around the selected one, above a line to type into."""
        listed, every = self.listed(scene), len(places(scene, self.kind))
        room = max(height - 4, 1)
        row = min(self.row, max(len(listed) - 1, 0))
        first = max(min(row - room // 2, len(listed) - room), 0)
        shown = listed[first : first + room]
        count = f"{every}" if len(listed) == every else f"{len(listed)} of {every}"
        kinds = "  ".join(f"[{one.value}]" if one is self.kind else one.value for one in Picked)
        lines = [cut([(f" {count}  {kinds}", Ink.HEADER)], width, Ink.HEADER_DIM)]
        title, *figures = TITLES[self.kind]
        used = sum(
            GAP + max([len(figure), *(len(place.figures[column]) for place in shown)])
            for column, figure in enumerate(figures)
        )
        names = Column(title, widest=max(width - 2 - used, _LEAST_NAME))
        columns = [names, *(Column(figure, "right") for figure in figures)]
        cells = [(place.name, *place.figures) for place in shown]
        heading, *texts = table(columns, cells, width - 2)
        lines.append(cut([(f" {heading}", Ink.DIM)], width, Ink.TEXT))
        for number, text in enumerate(texts, first):
            ink = Ink.LABEL_ON if number == row else Ink.TEXT
            lines.append(cut([(f"{'▶' if number == row else ' '}{text}", ink)], width, ink))
        if not shown:
            lines.append(cut([(f" {self._nothing(scene)}", Ink.DIM)], width, Ink.TEXT))
        lines += [cut([], width, Ink.TEXT)] * (height - 2 - len(lines))
        hint = replace(self.prompt, title="type to filter   ↑↓ choose   enter go   tab next kind")
        return [*lines, *hint.lines(width)]
