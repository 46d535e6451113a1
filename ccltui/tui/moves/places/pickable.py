"""Places of each kind with the figures to choose one by, the worst first.

The figures are those of the metrics and panes that they are named after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.parsers import numbers
from ccltui.tui.moves.cursor import show_communicator, to_time
from ccltui.tui.panes.kernels import KERNELS
from ccltui.tui.panes.steps import STEPS
from ccltui.tui.state.figures.rank_board import board_rows
from ccltui.tui.state.own.pane_names import ALIGNMENT, TIMELINE
from ccltui.tui.state.pane import pane_in_view
from ccltui.tui.state.queries.query_kinds import NamesQuery
from ccltui.tui.state.queries.wanted_queries import culprits_of_steps, parts_of_steps
from ccltui.tui.state.scene import Picked, Scene, rank_name
from ccltui.tui.state.view_state import ViewState

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
    Picked.STEPS: ("step", "on device", "kept by"),
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
