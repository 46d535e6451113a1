"""Choose a communicator, a rank, a step or a kernel from a list with figures, the worst first.

The figures are those of the metrics and panes that they are named after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.table import GAP, Column, table
from ccltui.parsers import numbers
from ccltui.tui.actions.action import Bindings
from ccltui.tui.chrome.chrome_lines import cut
from ccltui.tui.input.prompted_list import Chosen, PromptedList, misfit
from ccltui.tui.moves.cursor import show_communicator, to_time
from ccltui.tui.panes.kernels import KERNELS
from ccltui.tui.panes.steps import STEPS
from ccltui.tui.state import pane_names
from ccltui.tui.state.finding_rows import details
from ccltui.tui.state.pane import pane_in_view
from ccltui.tui.state.pane_names import ALIGNMENT, TIMELINE
from ccltui.tui.state.query_kinds import NamesQuery
from ccltui.tui.state.scene import Picked, Scene, rank_name
from ccltui.tui.state.view_state import ViewState
from ccltui.tui.state.wanted_queries import culprits_of_steps, parts_of_steps
from ccltui.tui.styled_text import Line


class BoardRow(Struct, frozen=True):
    """Numbers of one rank; None where the metric has none.

    Attributes:
        label: label of the rank.
        busy: share of the measured time with computation or copies (`gpu_busy`).
        caused_us: wait that others have for it, in us (`straggler_lag`).
        suffered_us: wait that it has for others, in us (`straggler_lag`).
    """

    label: str
    busy: float | None
    caused_us: float | None
    suffered_us: float | None


def board_rows(scene: Scene) -> list[BoardRow]:
    """Return all ranks, those that cause most wait first; none where nothing is known."""
    busy = details(scene, "gpu_busy").get("per_rank") or {}
    lag = details(scene, "straggler_lag")
    blame, waits = lag.get("blame") or {}, lag.get("wait_us") or {}
    if not (busy or blame):
        return []
    rows = [
        BoardRow(
            label,
            _of(busy, label, "useful_busy_ratio"),
            _of(blame, label, "caused_wait_us"),
            waits.get(label),
        )
        for label in scene.findings.lanes
    ]
    return sorted(rows, key=_badness)


def _badness(row: BoardRow) -> tuple[float, float]:
    """Key of the order: most wait caused, then least busy; ties in order of rank."""
    return -(row.caused_us or 0), 2 if row.busy is None else row.busy


def _of(table: Mapping[str, Any], label: str, key: str) -> float | None:
    row = table.get(label)
    value = row.get(key) if isinstance(row, Mapping) else None
    return value if isinstance(value, int | float) else None


_UNKNOWN: Final = "--"
_LATER: Final = "…"


class Place(Struct, frozen=True):
    """A place: its name, its figures in the order of `TITLES`, and the view that shows it."""

    name: str
    figures: tuple[str, ...]
    show: Callable[[], ViewState]
    is_here: bool = False


TITLES: Final[Mapping[Picked, tuple[str, ...]]] = {
    Picked.COMMUNICATORS: ("communicator", "ranks", "calls", "bytes", "waited", "worst rank"),
    Picked.RANKS: ("rank", "waits caused", "waits suffered", "compute, copies"),
    Picked.STEPS: ("step", "on device", "waited for"),
    Picked.KERNELS: ("kernel", "total", "share", "calls"),
}
"""Titles of the name and of the figures of each kind."""
NOTHING: Final[Mapping[Picked, str]] = {
    Picked.COMMUNICATORS: "no collective is matched across ranks",
    Picked.RANKS: "no rank is loaded yet",
    Picked.STEPS: "the traces have no step markers",
    Picked.KERNELS: "no kernel is summed yet, or none was recorded in the window",
}
"""Reason why there is no place of a kind."""


def places(scene: Scene, kind: Picked) -> list[Place]:
    """Return the places of a kind, the worst first."""
    return {
        Picked.COMMUNICATORS: _communicators,
        Picked.RANKS: _ranks,
        Picked.STEPS: _steps,
        Picked.KERNELS: _kernels,
    }[kind](scene)


def _in_chart(scene: Scene, pane: str) -> Scene:
    """Return the scene in a pane that shows ranks and times, ``pane`` unless one is in view."""
    if pane_in_view(scene).is_searchable:
        return scene
    return scene.with_state(replace(scene.state, pane=pane, drawer=None))


def _communicators(scene: Scene) -> list[Place]:
    result = scene.findings.results.get("parallelism")
    details = {} if result is None or result.status == "unavailable" else result.details
    rows = {row["group"]: row for row in details.get("groups") or ()}
    found = []
    for index, one in enumerate(scene.findings.communicators or ()):
        row = rows.get(one.name, {})
        calls = row.get("calls")
        size, waited, worst = (row.get(k) for k in ("message_bytes", "wait_ms", "worst_rank"))
        absent = _LATER if result is None else _UNKNOWN
        figures = (
            str(len(one.labels)),
            absent if calls is None else numbers.count(calls),
            absent if size is None else numbers.binary_size(size),
            absent if waited is None else numbers.duration(round(waited * 1e6)),
            absent if worst is None else rank_name(worst),
        )
        there = _in_chart(scene, ALIGNMENT)
        is_here = index == scene.communicator_index
        place = Place(one.name, figures, partial(show_communicator, there, index), is_here)
        found.append((-(waited or 0), place))
    return [place for _, place in sorted(found, key=lambda pair: pair[0])]


def _ranks(scene: Scene) -> list[Place]:
    there = _in_chart(scene, TIMELINE).state
    rows = {row.label: row for row in board_rows(scene)}
    labels = [*rows, *(label for label in scene.findings.lanes if label not in rows)]
    found = []
    for label in labels:
        row = rows.get(label)
        values = (None, None) if row is None else (row.caused_us, row.suffered_us)
        times = [_UNKNOWN if us is None else numbers.duration(round(us * 1e3)) for us in values]
        busy = _UNKNOWN if row is None or row.busy is None else f"{numbers.percent_cell(row.busy)}"
        is_here = label == scene.state.selection.rank
        show = partial(there.select, rank=label)
        found.append(Place(rank_name(label), (*times, busy), show, is_here))
    return found


def _steps(scene: Scene) -> list[Place]:
    parts, culprits = parts_of_steps(scene), culprits_of_steps(scene)
    lengths = {} if parts is None else dict(zip(parts.steps, parts.longest_ns, strict=True))
    steps = sorted(scene.findings.steps, key=lambda step: -int(lengths.get(step.id, 0)))
    found = []
    for step in steps:
        length = lengths.get(step.id)
        absent = _LATER if parts is None else _UNKNOWN
        label = None if culprits is None else culprits.of(step.id).label
        figures = (
            absent if length is None else numbers.duration(int(length)),
            (_LATER if culprits is None else _UNKNOWN) if label is None else rank_name(label),
        )
        is_here = STEPS.own.of(scene.state).chosen == step.id
        show = partial(_to_step, scene, step.id, step.start_ns)
        found.append(Place(f"step {step.id}", figures, show, is_here))
    return found


def _to_step(scene: Scene, step: int, start_ns: int) -> ViewState:
    there = _in_chart(scene, STEPS.name)
    state = to_time(there, start_ns)
    return STEPS.with_step(state, step, pattern="")


def _kernels(scene: Scene) -> list[Place]:
    table = scene.answers.to(NamesQuery(scene.findings.generation, "name"))
    found = None if table is None else table.answer
    if found is None:
        return []
    return [
        Place(
            name,
            (
                numbers.duration(int(found.total_ns[row])),
                f"{numbers.percent_cell(int(found.total_ns[row]) / max(found.all_ns, 1))}",
                numbers.count(int(found.calls[row])),
            ),
            partial(_to_kernel, scene, row),
        )
        for row, name in enumerate(found.name)
    ]


def _to_kernel(scene: Scene, row: int) -> ViewState:
    """Show a kernel in Kernels: rows by total are in the order of the table."""
    state = replace(scene.state, pane=KERNELS.name, drawer=None)
    return KERNELS.own.put(state, replace(KERNELS.own.default, row=row))


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
