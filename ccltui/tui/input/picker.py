"""Choose an action by name, or a place from a list with figures, the worst first.

The figures are those of the metrics and panes that they are named after. A kind of places is one
row of `KINDS`: how they are found, their columns, which are those of a list, and why there are
none. Figures are printed of the places in view alone: a job may have ten thousand kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.text import Line
from ccltui.parsers import numbers
from ccltui.parsers.errors import GrammarError
from ccltui.tui.action import Action, Bindings, keys_of, shown
from ccltui.tui.action_list import all_actions
from ccltui.tui.chrome_lines import cut
from ccltui.tui.input.keymap import MAX_COUNT, works_in
from ccltui.tui.input.prompted_list import Chosen, Entry, Prompt, PromptedList, misfit
from ccltui.tui.input.prompts import goto
from ccltui.tui.moves.cursor import show_communicator, to_time
from ccltui.tui.panes.kernels import KERNELS
from ccltui.tui.panes.list_pane import Column, aligned, name_column
from ccltui.tui.panes.steps import STEPS
from ccltui.tui.state import pane_states
from ccltui.tui.state.finding_rows import details
from ccltui.tui.state.pane import all_panes, pane_in_view
from ccltui.tui.state.pane_states import ALIGNMENT, TIMELINE, Value
from ccltui.tui.state.query_kinds import NamesQuery
from ccltui.tui.state.scene import Picked, Scene, rank_name
from ccltui.tui.state.view_state import ViewState
from ccltui.tui.state.wanted_queries import culprits_of_steps, parts_of_steps

TITLE: Final = "Commands"
_COUNT: Final = re.compile(r"(\d{1,9})\s*(?=\D)")
_ID, _KEYS, _HELP = 28, 14, 36
_REASONS_FROM = _ID + _KEYS + _HELP + 20
"""Width from which there is room for the reasons why actions cannot be done now."""
_SCATTERED: Final = 10
"""Added where only help, id and group together have all words."""


class Commands(PromptedList, frozen=True):
    """Actions that the typed text names, and places."""

    hint = "↑↓ choose   enter do   esc close"

    prompt: Prompt = field(default_factory=lambda: Prompt(TITLE))
    uses: Mapping[str, int] = field(default_factory=dict)
    """How often each action was used in this session, by its id."""

    def entries(self, scene: Scene, bindings: Bindings) -> list[Entry]:
        """Return a place that the text names, then matching actions, those of this pane first.

        Those that the words fit better come first, then those that are used more.
        """
        text = self.prompt.text.strip()
        counted = _COUNT.match(text)
        times = 1 if counted is None else min(max(int(counted[1]), 1), MAX_COUNT)
        words = text if counted is None else text[counted.end() :]
        place = _pane_entry(text, scene)
        found = []
        for action in all_actions():
            bad = _misfit(action, words, bindings)
            if bad is not None:
                exact = words in keys_of(action, bindings)
                is_elsewhere = not action.works_in(scene.state.pane)
                named = words.lower() in (action.help.split(" ")[0], *action.id.split("."))
                uses = self.uses.get(action.id, 0)
                key = (not exact or is_elsewhere, is_elsewhere, bad, not named, -uses)
                found.append((key, action))
        found.sort(key=lambda pair: pair[0])
        return place + [_entry(action, times, scene, bindings) for _, action in found]

    def nothing(self, scene: Scene) -> str:
        """Return the reason why no action is listed."""
        return f"no command or place is called {self.prompt.text!r}"

    def drawn(
        self, scene: Scene, number: int, shown: Sequence[Entry], at: int, width: int
    ) -> list[Line]:
        """Return the title with the number of actions, and a line for each entry."""
        count = f"  {number} of {len(all_actions())}   5] counts   r16, k 4705, 12.5s: go there"
        title: Line = [(f" {TITLE}", Ink.HEADER), (count, Ink.HEADER_DIM)]
        lines = [_line(entry, width, on=index == at) for index, entry in enumerate(shown)]
        return [cut(title, width, Ink.HEADER_DIM), *lines]


def _pane_entry(text: str, scene: Scene) -> list[Entry]:
    """Return an entry for the place that the text names, an empty list if it names none."""
    if not text or scene.findings.span is None:
        return []
    try:
        state = goto(text, scene)
    except GrammarError:
        return []
    values = ("the place that this names", "")
    return [Entry(f"go to {text}", lambda: Chosen(state=state), values)]


def _misfit(action: Action, words: str, bindings: Bindings) -> int | None:
    """Return how badly words fit an action, None where they do not; its own words count most."""
    if words in keys_of(action, bindings):
        return 0
    found = [misfit(words, action.help), misfit(words, action.id)]
    known = [bad for bad in found if bad is not None]
    if known:
        return min(known)
    together = misfit(words, f"{action.help} {action.id} {action.group}")
    return None if together is None else together + _SCATTERED


def _entry(action: Action, times: int, scene: Scene, bindings: Bindings) -> Entry:
    if not action.works_in(scene.state.pane):
        why = works_in([pane for pane in all_panes() if action.where(pane)])
    else:
        why = action.why_not(scene) or ""
    keys = " ".join(shown(key) for key in keys_of(action, bindings))
    name = action.id if times == 1 else f"{times:,} x {action.id}"
    return Entry(name, lambda: Chosen(action, times), (action.help, keys), why)


def _line(entry: Entry, width: int, *, on: bool) -> Line:
    ink, dim = (Ink.LABEL_ON, Ink.LABEL_ON) if on else (Ink.TEXT, Ink.DIM)
    name_ink = ink if on or not entry.why_not else Ink.DIM
    what, keys = map(str, entry.values)
    pieces: Sequence[tuple[str, int]] = (
        ("▶" if on else " ", ink),
        (_column(what, _HELP), name_ink),
        (_column(keys, _KEYS), ink if on else Ink.KEY),
        (_column(entry.name, _ID), dim),
        (entry.why_not if width >= _REASONS_FROM else "", dim),
    )
    return cut(pieces, width, ink)


def _column(text: str, width: int) -> str:
    return text[: width - 1].ljust(width)


_LATER: Final = "…"
"""In place of a figure that is being computed."""
_LEAST_NAME: Final = 24


def _in_chart(scene: Scene, pane: str) -> Scene:
    """Return the scene in a pane that shows ranks and times, ``pane`` unless one is in view."""
    if pane_in_view(scene).is_searchable:
        return scene
    return scene.with_state(replace(scene.state, pane=pane, drawer=None))


def _place(
    name: str, values: tuple[Value, ...], show: Callable[[], ViewState], *, is_here: bool = False
) -> Entry:
    return Entry(name, lambda: Chosen(state=show()), values, is_here=is_here)


def _communicators(scene: Scene) -> list[Entry]:
    """Return all communicators, those in which ranks waited most first."""
    absent = None if "parallelism" in scene.findings.results else _LATER
    rows = {row["group"]: row for row in details(scene, "parallelism").get("groups") or ()}
    there, found = _in_chart(scene, ALIGNMENT), []
    for index, one in enumerate(scene.findings.communicators or ()):
        row = rows.get(one.name, {})
        names = ("calls", "message_bytes", "wait_ms", "worst_rank")
        values = (len(one.labels), *(row.get(name, absent) for name in names))
        is_here = index == scene.communicator_index
        show = partial(show_communicator, there, index)
        found.append(_place(one.name, values, show, is_here=is_here))
    return sorted(found, key=lambda place: -(rows.get(place.name, {}).get("wait_ms") or 0))


def _ranks(scene: Scene) -> list[Entry]:
    """Return all ranks: most wait caused, then least busy; ties in order of rank."""
    there = _in_chart(scene, TIMELINE).state
    busy, lag = details(scene, "gpu_busy"), details(scene, "straggler_lag")
    waits = lag.get("wait_us") or {}
    order, found = {}, []
    for label in scene.findings.lanes:
        share = _of(busy.get("per_rank"), label, "useful_busy_ratio")
        caused_us = _of(lag.get("blame"), label, "caused_wait_us")
        name, is_here = rank_name(label), label == scene.state.selection.rank
        order[name] = (-(caused_us or 0), 2 if share is None else share)
        values, show = (caused_us, waits.get(label), share), partial(there.select, rank=label)
        found.append(_place(name, values, show, is_here=is_here))
    return sorted(found, key=lambda place: order[place.name])


def _of(table: Mapping[str, Any] | None, label: str, key: str) -> float | None:
    row = (table or {}).get(label)
    value = row.get(key) if isinstance(row, Mapping) else None
    return value if isinstance(value, int | float) else None


def _steps(scene: Scene) -> list[Entry]:
    parts, culprits = parts_of_steps(scene), culprits_of_steps(scene)
    lengths = (
        {} if parts is None else dict(zip(parts.steps, parts.longest_ns.tolist(), strict=True))
    )
    absent = _LATER if parts is None else None
    chosen = STEPS.own.of(scene.state).chosen
    return [
        _place(
            f"step {step.id}",
            (
                lengths.get(step.id, absent),
                _LATER if culprits is None else culprits.of(step.id).label,
            ),
            partial(_to_step, scene, step.id, step.start_ns),
            is_here=step.id == chosen,
        )
        for step in sorted(scene.findings.steps, key=lambda step: -lengths.get(step.id, 0))
    ]


def _to_step(scene: Scene, step: int, start_ns: int) -> ViewState:
    there = _in_chart(scene, STEPS.name)
    state = to_time(there, start_ns)
    return STEPS.with_step(state, step, pattern="")


def _kernels(scene: Scene) -> list[Entry]:
    found = scene.answers.answer(NamesQuery(scene.findings.generation, "name"))
    if found is None:
        return []
    rows = zip(found.name, found.total_ns.tolist(), found.calls.tolist(), strict=True)
    return [
        _place(name, (total, total / max(found.all_ns, 1), calls), partial(_to_kernel, scene, row))
        for row, (name, total, calls) in enumerate(rows)
    ]


def _to_kernel(scene: Scene, row: int) -> ViewState:
    """Show a kernel in Kernels: rows by total are in the order of the table."""
    state = replace(scene.state, pane=KERNELS.name, drawer=None)
    return KERNELS.own.put(state, replace(KERNELS.own.default, row=row))


class Kind(Struct, frozen=True):
    """A kind of places: how they are found, the worst first, their columns, and why none is."""

    places: Callable[[Scene], list[Entry]]
    columns: tuple[Column[Entry], ...]
    nothing: str


def _columns(title: str, *figures: tuple[str, Callable[[Any], str]]) -> tuple[Column[Entry], ...]:
    """Return the column of names, and those of figures with the functions that print them."""
    name = attrgetter("name")
    names: Column[Entry] = name_column(
        title, name, takes_rest=True, least=_LEAST_NAME, widest=lambda width: width
    )
    return (names, *(_figure(at, *figure) for at, figure in enumerate(figures)))


def _figure(at: int, title: str, form: Callable[[Any], str]) -> Column[Entry]:
    def shown(value: Value) -> str:
        return _LATER if value == _LATER else form(value)

    return Column(title, lambda entry: entry.values[at], shown)


def _from_ms(ms: float) -> str:
    return numbers.duration(round(ms * 1e6))


def _from_us(us: float) -> str:
    return numbers.duration(round(us * 1e3))


KINDS: Final[Mapping[Picked, Kind]] = {
    Picked.COMMUNICATORS: Kind(
        _communicators,
        _columns(
            "communicator",
            ("ranks", str),
            ("calls", numbers.count),
            ("bytes", numbers.binary_size),
            ("waited", _from_ms),
            ("worst rank", rank_name),
        ),
        "no collective is matched across ranks",
    ),
    Picked.RANKS: Kind(
        _ranks,
        _columns(
            "rank",
            ("waits caused", _from_us),
            ("waits suffered", _from_us),
            ("compute, copies", numbers.percent_cell),
        ),
        "no rank is loaded yet",
    ),
    Picked.STEPS: Kind(
        _steps,
        _columns("step", ("on device", numbers.duration), ("waited for", rank_name)),
        "the traces have no step markers",
    ),
    Picked.KERNELS: Kind(
        _kernels,
        _columns(
            "kernel",
            ("total", numbers.duration),
            ("share", numbers.percent_cell),
            ("calls", numbers.count),
        ),
        "no kernel is summed yet, or none was recorded in the window",
    ),
}

_OF_PANE: Final = {
    pane_states.ALIGNMENT: Picked.COMMUNICATORS,
    pane_states.PARALLELISM: Picked.COMMUNICATORS,
    pane_states.STEPS: Picked.STEPS,
    pane_states.KERNELS: Picked.KERNELS,
}


def kind_for(pane: str) -> Picked:
    """Return the kind of places to begin with in a pane."""
    return _OF_PANE.get(pane, Picked.RANKS)


class Picker(PromptedList, frozen=True):
    """Places of a kind that match the typed text."""

    hint = "type to filter   ↑↓ choose   enter go   tab next kind"
    lines_above = 2

    kind: Picked = Picked.RANKS

    @property
    def picking(self) -> Picked:
        """Kind of places that are listed."""
        return self.kind

    @classmethod
    def of(cls, kind: Picked, scene: Scene) -> Picker:
        """Open the list of a kind, at the place after the one in view."""
        listed = KINDS[kind].places(scene)
        here = next((row for row, place in enumerate(listed) if place.is_here), -1)
        return cls(kind=kind, row=(here + 1) % max(len(listed), 1))

    def entries(self, scene: Scene, bindings: Bindings) -> list[Entry]:
        """Return the places that match the text, those that match best first."""
        places = KINDS[self.kind].places(scene)
        fits = [(misfit(self.prompt.text, one.name), one) for one in places]
        found = [(bad, one) for bad, one in fits if bad is not None]
        return [one for _, one in sorted(found, key=lambda pair: pair[0])]

    def press(
        self, key: str, character: str | None, scene: Scene, bindings: Bindings
    ) -> Picker | Chosen | None:
        """Return the list after a key, of the next kind after tab."""
        if key in ("tab", "shift+tab"):
            kinds = list(Picked)
            step = 1 if key == "tab" else -1
            return Picker.of(kinds[(kinds.index(self.kind) + step) % len(kinds)], scene)
        return PromptedList.press(self, key, character, scene, bindings)

    def nothing(self, scene: Scene) -> str:
        """Return the reason why no place is listed."""
        kind = KINDS[self.kind]
        if self.prompt.text and kind.places(scene):
            return f"no {kind.columns[0].title} matches {self.prompt.text!r}"
        return kind.nothing

    def drawn(
        self, scene: Scene, number: int, shown: Sequence[Entry], at: int, width: int
    ) -> list[Line]:
        """Return the number of places with the kinds, the heading, and the places."""
        kind = KINDS[self.kind]
        every = len(kind.places(scene))
        count = f"{every}" if number == every else f"{number} of {every}"
        kinds = "  ".join(f"[{one.value}]" if one is self.kind else one.value for one in Picked)
        titles = [column.title for column in kind.columns]
        (heading, *texts), _ = aligned(kind.columns, titles, shown, width)
        lines = [
            cut([(f" {count}  {kinds}", Ink.HEADER)], width, Ink.HEADER_DIM),
            cut([(f" {heading}", Ink.DIM)], width, Ink.TEXT),
        ]
        for index, text in enumerate(texts):
            ink = Ink.LABEL_ON if index == at else Ink.TEXT
            lines.append(cut([(f"{'▶' if index == at else ' '}{text}", ink)], width, ink))
        if not shown:
            lines.append(cut([(f" {self.nothing(scene)}", Ink.DIM)], width, Ink.TEXT))
        return lines
