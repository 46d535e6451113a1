"""The Steps pane: parts of each step's time, and of the chosen step rank by rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.draw.palette import KIND_INKS, Ink
from ccltui.draw.text import GAP, Line
from ccltui.metrics.confidence import sure_text
from ccltui.parsers import numbers
from ccltui.tui.moves.cursor import in_view, select_at
from ccltui.tui.panes.chart_pane import as_many, named
from ccltui.tui.panes.list_pane import UNKNOWN, Column, ListPane, Page
from ccltui.tui.state.answers import Query
from ccltui.tui.state.finding_rows import naming, naming_text
from ccltui.tui.state.pane import Record, compared, queries_of
from ccltui.tui.state.pane_states import STEPS as NAME
from ccltui.tui.state.pane_states import Sorting, with_event
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.session import Session
from ccltui.tui.state.view_state import Shown, ViewState

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.metrics.findings.rank_time.step_parts import StepParts
    from ccltui.metrics.findings.slow_steps import StepCulprits
    from ccltui.tui.state.compared import TimeOf

PARTS: Final = ("compute", "overlapped", "waiting", "transfer", "bubble", "copies", "idle")
"""Parts of a step in the order of the arrays."""
_LENGTH, _NUMBER = "on device", "step"
_NEVER: Final = 10_000
"""Width of no pane: such a column is shown where rows are in its order."""
_SHORT: Final = {
    "compute": "comp",
    "overlapped": "both",
    "waiting": "wait",
    "transfer": "net",
    "bubble": "bubble",
    "copies": "copy",
    "idle": "idle",
}
_LEAST_EXCESS: Final = 0.01
"""Excess over the median step from which it is explained: the share below which nobody is named."""
_FOR_OTHERS: Final = frozenset({"waiting", "transfer", "bubble"})
"""Parts that grow on a rank because of others."""
_MOST_STEPS = 0.55
"""Largest share of the pane for the steps; the ranks of the chosen one have the rest."""


class Step(Struct, frozen=True):
    """A row of the table of steps, with who keeps the others waiting in each.

    ``is_inside`` is whether the step is in the window of steps.
    """

    parts: StepParts
    at: int
    culprits: StepCulprits | None
    is_inside: bool

    @property
    def number(self) -> int:
        """Id of the step."""
        return self.parts.steps[self.at]

    @property
    def length_ns(self) -> int:
        """Length on the slowest rank."""
        return int(self.parts.longest_ns[self.at])

    @property
    def slowest(self) -> int:
        """Column of the slowest rank."""
        return int(self.parts.slowest[self.at])

    @property
    def culprit(self) -> str | None:
        """The rank that keeps the others waiting, None for nobody."""
        label = None if self.culprits is None else self.culprits.of(self.number).label
        return None if label is None else rank_name(label)


def _over(row: Step, _: int) -> str:
    return numbers.signed_duration(row.length_ns - row.parts.median_ns)


def _waited_for(row: Step, _: int) -> str:
    name = "…" if row.culprits is None else row.culprit or UNKNOWN
    return f"{name[:5]:<5}{'•' if row.is_inside else ' '}"


def _part(place: int) -> Callable[[Step], int]:
    return lambda row: row.parts.mean_ns(row.at)[place]


class StepsPane(ListPane[Step]):
    """Steps with the parts of their time, and the ranks of the chosen step."""

    name = NAME
    key = "6"
    title = "Steps"
    short_title = "Steps"
    about = (
        "Steps, the slowest first: length on the slowest rank, the difference from the median "
        "step, who keeps the others waiting, and what the time of the device went to, mean over "
        "ranks; below the same rank by rank for the chosen step. Moving here moves the cursor of "
        "all panes to the step; enter limits them to it, and again to all. V divides the "
        "difference of two steps completely into parts. o sorts by a column or a part of the time. "
        "Beside a second path: the mean step of both, and whether the difference is noise."
    )
    details = frozenset({Shown.VERSUS})
    first_order = Sorting(_LENGTH)
    noun = "step"
    has_bars = True
    waiting = "the steps are still being divided into parts"
    nothing = (
        "no step has device work, which this pane divides: record the devices as well "
        "(ProfilerActivity.CUDA, or nsys); Overview has the times of the steps"
    )
    metric_name = "temporal_breakdown"
    columns = (
        # Numbers of steps are names: in order of time.
        Column(
            _NUMBER,
            lambda row: row.number,
            sort_value=lambda row: -row.number,
            align="left",
            width=6,
        ),
        Column(_LENGTH, lambda row: row.length_ns, numbers.duration, width=10),
        Column("vs median", text=_over, width=9),
        Column("waited for", lambda row: row.culprit, text=_waited_for, align="left", width=10),
        *(
            Column(name, _part(place), numbers.duration, from_width=_NEVER)
            for place, name in enumerate(PARTS)
        ),
    )

    def queries(self, scene: Scene) -> Iterable[Query[Any]]:
        """Yield the queries for the parts of all steps, and for who keeps the others waiting."""
        from ccltui.tui.state.query_kinds import CulpritsQuery, StepsQuery

        if not scene.findings.steps:
            return ()
        if not scene.findings.is_matched:  # waits are known from matched collectives
            return ()
        generation = scene.findings.generation
        return (StepsQuery(generation), CulpritsQuery(generation), *queries_of(scene))

    def parts(self, scene: Scene) -> StepParts | None:
        """Return the parts of all steps, None before the first answer."""
        from ccltui.tui.state.wanted_queries import parts_of_steps

        return parts_of_steps(scene)

    def found_rows(self, scene: Scene) -> Sequence[Step] | None:
        """Return the steps in order of time."""
        from ccltui.tui.state.wanted_queries import culprits_of_steps

        parts, culprits = self.parts(scene), culprits_of_steps(scene)
        if parts is None:
            return None
        return self.made_from("steps", _rows, parts, culprits, scene.session.filter.steps)

    def words(self, row: Step) -> tuple[str]:
        """Return the number of a step, and who keeps the others waiting in it."""
        return (f"{row.number} {row.culprit or ''}",)

    def missing(self, scene: Scene) -> str | None:
        """Return the reason: no rank is loaded, or no step is marked."""
        if not scene.findings.lanes:
            return "no rank is loaded yet"
        return None if scene.findings.steps else "the traces have no step markers"

    def sort_columns(self, scene: Scene) -> tuple[str, ...]:
        """Return the titles of the columns; after the length comes the order of time."""
        return (_LENGTH, _NUMBER, *super().sort_columns(scene)[2:])

    def row_name(self, row: Step) -> int:
        """Return the number of the step."""
        return row.number

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Choose a step; the shared cursor moves to its beginning on its slowest rank."""
        rows = self.rows(scene)
        if not rows:
            return scene.state
        step = rows[row]
        time_ns = int(step.parts.start_ns[step.at, step.slowest])
        state = select_at(scene, step.parts.labels[step.slowest], time_ns)
        return in_view(with_event(self.with_step(state, step.number), None))

    def with_step(self, state: ViewState, step: int, **changes: Any) -> ViewState:
        """Return a view with another chosen step."""
        return self.own.put(state, replace(self.own.of(state), chosen=step, **changes))

    def side(self, scene: Scene) -> tuple[str, int | None] | None:
        """Return the slowest rank of the chosen step."""
        row = self.chosen(scene)
        return None if row is None else (row.parts.labels[row.slowest], row.number)

    def suggested_side(self, scene: Scene, side: tuple[str, int | None]) -> str:
        """Return the median of the other steps of the rank; of a single step another rank."""
        middle = middle_step(scene, *side)
        return super().suggested_side(scene, side) if middle is None else f"it {middle}"

    def chosen_step(self, scene: Scene) -> int | None:
        """Return the chosen step."""
        row = self.chosen(scene)
        return None if row is None else row.number

    def ink(self, row: Step) -> Ink:
        """Return the style of labels."""
        return Ink.LABEL

    def room(self, scene: Scene, height: int) -> int:
        """Return how many lines the steps take; the ranks of the chosen one have the rest."""
        most = round((height + 1) * _MOST_STEPS) - 1 - len(_against(scene, height))
        return min(self.count(scene), most)

    def draw_beside(self, planes: Planes, scene: Scene, page: Page[Step]) -> None:
        """Draw the bars of the steps, and below them the ranks of the chosen step."""
        from ccltui.draw.composition import put_bar, put_scale
        from ccltui.metrics.findings.rank_time.step_parts import one_per_rank

        chosen = self.chosen(scene)
        assert chosen is not None
        parts, width = chosen.parts, planes.width
        most_ns = max(int(parts.longest_ns.max()), 1)
        put_scale(planes, page.y - 1, page.x, most_ns)
        for y, row in enumerate(page.rows, page.y):
            mean_ns = dict(zip(PARTS, parts.mean_ns(row.at), strict=True))
            put_bar(planes, y, page.x, mean_ns, most_ns, colour=scene.colour)
        y = page.y + len(page.rows)
        left = self.count(scene) - page.first - len(page.rows)
        if left > 0:
            planes.put(y, 1, f"… {numbers.counted(left, 'more step')}", Ink.DIM)
        for text in _against(scene, width - 2):
            y += 1
            planes.put(y, 1, text, Ink.TEXT)
        title = f"step {chosen.number} on the devices rank by rank, the slowest first"
        planes.put(y + 1, 0, f"── {title} ".ljust(width, "─"), Ink.RULER)
        ranks = one_per_rank(parts, chosen.at)
        _put_ranks(planes, (y + 2, page.x), scene, ranks, most_ns)
        _put_changes(planes, (y + 3 + len(ranks), page.x), scene, chosen)

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the parts that a bar of a step consists of."""
        kinds = _kinds_with_time(scene)
        inks = [KIND_INKS[kind] for kind in kinds]
        names = [f"{_SHORT[kind]} " if narrow else f" {kind}  " for kind in kinds]
        return named(scene, inks, names)

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return who keeps the others waiting in the chosen step, and how its parts differ."""
        above: Line = [(f" {_chosen_text(scene, width - 2)}", Ink.TEXT)]
        return above, [(f" {_changes_text(scene, width - 2)}", Ink.TEXT)]

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield the parts of every listed step on every rank."""
        for row in self.rows(scene):
            parts, at = row.parts, row.at
            for column, label in enumerate(parts.labels):
                if parts.start_ns[at, column] >= 0:
                    spent = parts.parts_ns[:, at, column].tolist()
                    yield {
                        "step": row.number,
                        "rank": label,
                        "start_ns": int(parts.start_ns[at, column]),
                        "length_ns": int(parts.length_ns[at, column]),
                        **{f"{name}_ns": ns for name, ns in zip(PARTS, spent, strict=True)},
                    }


STEPS: Final = StepsPane()


def _rows(
    parts: StepParts, culprits: StepCulprits | None, window: tuple[int, int] | None
) -> list[Step]:
    first, last = (1, 0) if window is None else window
    return [Step(parts, at, culprits, first <= one <= last) for at, one in enumerate(parts.steps)]


def _kinds_with_time(scene: Scene) -> list[str]:
    """Return the parts that any step has, all while they are not known."""
    parts = STEPS.parts(scene)
    if parts is None:
        return list(PARTS)
    totals = parts.parts_ns.sum(axis=(1, 2)).tolist()
    return [kind for kind, total in zip(PARTS, totals, strict=True) if total]


def _chosen_text(scene: Scene, width: int) -> str:
    """Describe the chosen step: its length, and who keeps the others waiting or why nobody."""
    from ccltui.metrics.findings.causes.evidence import cause_words

    row = STEPS.chosen(scene)
    if row is None:
        return ""
    step, length = row.number, numbers.duration(row.length_ns)
    if row.culprits is None:
        return GAP.join([f"step {step}", length, "who keeps the others waiting: …"])
    found = row.culprits.of(step)
    texts = []
    excess = _excess_text(row, found.wait_ns)
    if excess:
        texts.append(excess)
    elif found.label is None:
        of_job = naming(scene)
        texts.append(
            f"nobody is named: {found.why}"
            if of_job is None
            else f"{naming_text(scene, of_job)}; of this step alone nobody is named: {found.why}"
        )
    else:
        cause = cause_words(found.cause or "")
        texts.append(f"{rank_name(found.label)} keeps the others waiting: {cause}")
        if found.wait_ns:
            texts.append(f"{numbers.duration(found.wait_ns)} in sum")
        of_job = naming(scene, found.label)
        sure = found.sure.text if of_job is None else sure_text(of_job["sure"])
        texts.append(f"confidence: {sure}")
    # On narrow screens the length, which stands in the table, gives way to the sentence.
    begin = GAP.join([f"step {step}", length, texts[0]])
    if len(begin) > width:
        begin = GAP.join([f"step {step}", texts[0]])
    return as_many([begin, *texts[1:]], width)


def _excess_text(row: Step, wait_ns: int) -> str:
    """Return what makes a step longer than the median step, "" where the waiting in it does.

    Who causes less waiting than one rank would do in the excess is not what made the step long.
    """
    parts, middle, column = row.parts, row.parts.median_step, row.slowest
    over = row.length_ns - parts.median_ns
    if middle is None or over < _LEAST_EXCESS * parts.median_ns or wait_ns >= over:
        return ""
    grown = (parts.parts_ns[:, row.at, column] - parts.parts_ns[:, middle, column]).tolist()
    most = max(range(len(grown)), key=lambda place: grown[place])
    if PARTS[most] in _FOR_OTHERS:
        return ""
    return (
        f"on {rank_name(parts.labels[column])}, from its first work to that of the next step: "
        f"{PARTS[most]} {numbers.signed_duration(grown[most])}"
    )


def _changes_text(scene: Scene, width: int) -> str:
    """Return how each part of the chosen step differs from the median step, the largest first."""
    chosen = STEPS.chosen(scene)
    if chosen is None or chosen.parts.median_step is None:
        return ""
    parts, row, middle = chosen.parts, chosen.at, chosen.parts.median_step
    if row == middle:
        shares = zip(PARTS, parts.mean_shares(row), strict=True)
        title = "the median step" if len(parts) > 1 else "the only step"
        return GAP.join([title, *(f"{name} {numbers.percent(share)}" for name, share in shares)])
    changes = sorted(_changes(chosen, middle).items(), key=lambda change: -abs(change[1]))
    texts = [f"{name} {numbers.signed_duration(ns)}" for name, ns in changes if ns]
    return as_many([f"against step {parts.steps[middle]}, the median", *texts], width)


def _changes(row: Step, middle: int) -> dict[str, int]:
    """Return by how many ns each part of a step differs from another step, mean over ranks."""
    own, usual = row.parts.mean_ns(row.at), row.parts.mean_ns(middle)
    return {name: a - b for name, a, b in zip(PARTS, own, usual, strict=True)}


def _against(scene: Scene, width: int) -> list[str]:
    """Return the step of both paths and its kinds of time, [] without a second path.

    Steps of two jobs are different steps: their means are compared, not one by one.
    """
    sides = compared(scene)
    if sides is None:
        return []
    document = sides.document
    if document is None or not sides.by_step:
        return [f"B: {sides.problem or 'without steps on both sides there is none to compare'}"]
    texts = [_difference("step time", document.step_time), document.verdict]
    parts = [_difference(one.name or "", one) for one in document.kinds]
    lines = [as_many([f"A → B, means: {texts[0]}", texts[1], document.why or ""], width)]
    return [line.rstrip() for line in (*lines, as_many(parts, width)) if line.strip()]


def _difference(name: str, row: TimeOf) -> str:
    """Describe a time of both paths, with its interval where that is known."""
    if row.a_ms is None or row.b_ms is None or row.delta_ms is None:
        return f"{name} unknown"
    a, b, delta = (round(ms * 1e6) for ms in (row.a_ms, row.b_ms, row.delta_ms))
    text = f"{name} {numbers.duration(a)} → {numbers.duration(b)} {numbers.signed_duration(delta)}"
    if row.half_width_ms is not None:
        text += f" ± {numbers.duration(round(row.half_width_ms * 1e6))}"
    return f"{text} {row.verdict}".rstrip()


def _put_ranks(
    planes: Planes,
    corner: tuple[int, int],
    scene: Scene,
    ranks: Sequence[tuple[str, list[int]]],
    most_ns: int,
) -> None:
    """Draw length and parts of a step on as many ranks as fit; bars begin at the corner."""
    from ccltui.draw.composition import put_bar

    y, x = corner
    room = planes.height - y
    if room < 1:
        return
    hidden = len(ranks) - room
    for offset, (label, one) in enumerate(ranks[: room - (hidden > 0)]):
        on = label == scene.state.selection.rank
        text = f" {rank_name(label)[:7]:<7}{numbers.duration(sum(one)):>11}"
        planes.put(y + offset, 0, text.ljust(x), Ink.STRONG if on else Ink.TEXT)
        parts_ns = dict(zip(PARTS, one, strict=True))
        put_bar(planes, y + offset, x, parts_ns, most_ns, colour=scene.colour)
    if hidden > 0:
        planes.put(planes.height - 1, 1, f"… {hidden + 1} more ranks", Ink.DIM)


def _put_changes(planes: Planes, corner: tuple[int, int], scene: Scene, chosen: Step) -> None:
    """Draw by how much each part differs from the median step, where all of them fit."""
    from ccltui.draw.composition import put_difference

    middle = chosen.parts.median_step
    if middle is None or middle == chosen.at:
        return
    changes = {name: ns for name, ns in _changes(chosen, middle).items() if ns}
    (y, x), most_ns = corner, max(map(abs, changes.values()), default=0)
    if not changes or y + 1 + len(changes) > planes.height:
        return
    usual = f"step {chosen.parts.steps[middle]}, the median, mean over ranks"
    title = f"step {chosen.number} against {usual}"
    planes.put(y, 0, f"── {title} ".ljust(planes.width, "─"), Ink.RULER)
    for at, (name, ns) in enumerate(changes.items(), y + 1):
        planes.put(at, 1, f"{name:<10}{numbers.signed_duration(ns):>14}", Ink.TEXT)
        put_difference(planes, at, x, (name, ns), most_ns, colour=scene.colour)


def middle_step(scene: Scene, label: str, other_than: int | None) -> int | None:
    """Return the step of a rank whose length is the median of its other steps."""
    parts = STEPS.parts(scene)
    if parts is None or label not in parts.labels:
        return None
    lengths = parts.length_ns[:, parts.labels.index(label)].tolist()
    known = sorted(
        (length, step)
        for length, step in zip(lengths, parts.steps, strict=True)
        if length and step != other_than
    )
    return known[len(known) // 2][1] if known else None


def windowed(scene: Scene) -> Session:
    """Set the chosen step as the window; clear the window where it was that step."""
    step, old = STEPS.chosen_step(scene), scene.session.filter
    if step is None:
        return scene.session
    steps = None if old.steps == (step, step) else (step, step)
    return scene.session.filtered(old.changed(steps=steps, window=None))
