"""The Runs pane: key figures of runs, curves of loss and throughput, and missing files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import Ink
from ccltui.draw.spark import spark
from ccltui.draw.table import Column, table
from ccltui.draw.text import clean, fit_middle, wrap
from ccltui.parsers import numbers
from ccltui.parsers.system.quick_dataclass import dataclass
from ccltui.tui.panes.pages.side_pane import SidePane
from ccltui.tui.state.answers import FileQuery
from ccltui.tui.state.own.pane_names import RUNS as NAME
from ccltui.tui.state.own.sorting import Sorting, Value
from ccltui.tui.state.scene import Scene
from ccltui.tui.styled_text import Line

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.metrics.runs.runs_table import RunRow
    from ccltui.parsers.job import Job

_NAME = 24
_WIDE_NAME = 40
_NARROW_SPARK = 8
_SPARK = 12
_WIDE_SPARK = 20
_WIDE = 110
_VERY_WIDE = 150
_DETAIL_LINES = 9
_STATES = {"complete": "complete", "unmarked": "! unmarked", "incomplete": "x incomplete"}
_INKS = {"complete": Ink.TEXT, "unmarked": Ink.WARNING, "incomplete": Ink.ERROR}


@dataclass(frozen=True, slots=True)
class RunsQuery(FileQuery["Sequence[RunRow]"]):
    """All runs below the open path; after a reload the query is sent again."""

    path: str

    def answer(self, job: Job, cancelled: Callable[[], bool]) -> Sequence[RunRow]:
        """Return a row for each run; long logs are read in a separate process."""
        from ccltui.metrics.runs.runs_table import run_table
        from ccltui.tui.state.side_tables import has_short_texts, made_in_process

        make = partial(run_table, job.discovery)
        return make() if has_short_texts(job) else made_in_process(make, cancelled)


_SORT_KEYS: Final[Mapping[str, Callable[[RunRow], Value]]] = {
    "run": lambda row: row.name,
    "state": lambda row: row.completeness.state,
    "tokens/s": lambda row: row.tokens_per_s,
    "loss": lambda row: row.train_loss,
    "p95 ms": lambda row: row.step_p95_ms,
    "ranks": lambda row: row.world_size,
    "p50 ms": lambda row: row.step_p50_ms,
    "val loss": lambda row: row.val_loss,
    "AllReduce/bwd": lambda row: row.allreduce_per_backward,
    "commit": lambda row: row.git_commit or None,
    "nsys": lambda row: row.profiled,
}


class RunsPane(SidePane["RunRow"]):
    """Runs below the open path, and the traces of the selected one."""

    name = NAME
    key = "7"
    title = "Runs"
    short_title = "Runs"
    about = (
        "Runs below what is open: figures that each recorded, loss and throughput over its steps, "
        "and what it lacks. !: the step times rest on few samples, or the run has no mark of its "
        "end. ccltui diff A B shows whether two of them may be compared, and what changed."
    )
    is_of_ranks = False
    kind = RunsQuery
    sort_keys = _SORT_KEYS
    definition = "tokens/s: of all ranks, over training wall time; p50, p95: of micro-steps timed"

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason when there are no runs."""
        if scene.session.has_runs:
            return None
        return "no run here: no folder with training_metrics.json, training_steps.jsonl or a log"

    def query(self, scene: Scene) -> RunsQuery:
        """Return the query for all runs below the open path."""
        return RunsQuery(scene.session.path)

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw a page of runs with the selected one, and its details below."""
        return _paint(scene, height, width)

    def text_of(self, row: RunRow) -> str:
        """Return name, state and commit of a run."""
        return f"{row.name} {row.completeness.state} {row.git_commit}"

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return filter and order, and the number of incomplete runs."""
        found = self.found_rows(scene) or ()
        lacking = sum(one.completeness.state == "incomplete" for one in found)
        text = f"x {lacking} " if narrow else f"{lacking} of {len(found)} incomplete "
        return [(f"{self.listing_text(scene)}{text}", Ink.TAB)]

    def metric(self, scene: Scene) -> str:
        """Return the name of the metric of the rows."""
        return "run_throughput"


RUNS: Final = RunsPane()


def capture_of_run(scene: Scene) -> str | None:
    """Return the capture that was recorded in the selected run, None where there is none."""
    job, rows = scene.session.job, RUNS.rows(scene)
    if job is None or not rows:
        return None
    name = rows[min(RUNS.row(scene), len(rows) - 1)].name
    fitting = [
        one for one in job.discovery.captures if _is_in(one.name, name, alone=len(rows) == 1)
    ]
    whole = [one for one in fitting if one.complete] or fitting
    return whole[-1].name if whole else None


def _is_in(capture: str, run: str, *, alone: bool) -> bool:
    """Return whether a capture is in the folder of a run; "" is the opened directory."""
    return capture == run or capture.startswith(f"{run}/") or (alone and capture == "")


def why_no_capture(scene: Scene) -> str | None:
    """Return the reason when the selected run opens no traces."""
    if not RUNS.rows(scene):
        return "no run is listed yet"
    if capture_of_run(scene) is None:
        return "no trace was recorded in this run: nothing to open"
    return None


def _paint(scene: Scene, height: int, width: int) -> Planes:
    from ccltui.draw.planes import Planes

    planes = Planes.blank(height, width, Ink.TEXT)
    rows = RUNS.rows(scene)
    if rows is None:
        planes.put(1, 1, "Runs are being read.", Ink.DIM)
        return planes
    if not rows:
        text = "No run here: no folder with training_metrics.json or a log."
        if RUNS.row_pattern(scene):
            text = f"{RUNS.why_no_rows(scene).capitalize()}."
        planes.put(1, 1, text, Ink.DIM)
        return planes
    at = min(RUNS.row(scene), len(rows) - 1)
    below = _detail(rows[at], width - 2)
    below = below[: max(min(_DETAIL_LINES, height - 4), 0)]
    room = max(height - len(below) - 2, 1)
    first = at // room * room
    shown = rows[first : first + room]
    lines = table(
        _columns(width, RUNS.sorting(scene)), [_cells(row, width) for row in shown], width - 2
    )
    planes.put(0, 1, lines[0], Ink.DIM)
    for index, (row, line) in enumerate(zip(shown, lines[1:], strict=True)):
        on = first + index == at
        ink = Ink.LABEL_ON if on else _INKS[row.completeness.state]
        planes.put(1 + index, 0, (("▶" if on else " ") + line).ljust(width), ink)
        planes.listed[1 + index] = first + index
    for index, (text, ink) in enumerate(below):
        planes.put(height - len(below) + index, 1, text, ink)
    return planes


def _columns(width: int, sorting: Sorting) -> list[Column]:
    wide, curve = width >= _WIDE, _curve_width(width)
    found = (
        Column("run", widest=_WIDE_NAME if wide else _NAME),
        Column("state", widest=12),
        Column("tokens/s", "right"),
        Column("trend", widest=curve),
        Column("loss", "right"),
        Column("trend", widest=curve),
        Column("p95 ms", "right"),
        Column("ranks", "right"),
        Column("p50 ms", "right"),
        Column("val loss", "right"),
        Column("AllReduce/bwd", "right"),
        Column("commit", widest=9),
        Column("nsys", widest=5),
    )
    return [replace(one, title=sorting.marked(one.title)) for one in found]


def _cells(row: RunRow, width: int) -> tuple[str, ...]:
    wide, curve = width >= _WIDE, _curve_width(width)
    doubt = " !" if row.step_caveat else ""
    return (
        fit_middle(clean(row.name), _WIDE_NAME if wide else _NAME).rstrip(),
        _STATES[row.completeness.state],
        numbers.quantity(row.tokens_per_s),
        _curve(row.rate_curve, curve),
        numbers.quantity(row.train_loss),
        _curve(row.loss_curve, curve),
        f"{numbers.quantity(row.step_p95_ms)}{doubt if row.step_p95_ms is not None else ''}",
        "" if row.world_size is None else str(row.world_size),
        f"{numbers.quantity(row.step_p50_ms)}{doubt if row.step_p50_ms is not None else ''}",
        numbers.quantity(row.val_loss),
        numbers.quantity(row.allreduce_per_backward),
        row.git_commit[:7],
        {True: "on", False: "", None: ""}[row.profiled],
    )


def _curve_width(width: int) -> int:
    if width >= _VERY_WIDE:
        return _WIDE_SPARK
    return _SPARK if width >= _WIDE else _NARROW_SPARK


def _curve(values: Sequence[float | None], width: int) -> str:
    """Return the values as a sparkline; "" for fewer than two."""
    return spark(values, width) if len(values) > 1 else ""


def _detail(row: RunRow, width: int) -> list[tuple[str, Ink]]:
    """Return remarks on a run, the most severe first, below its name."""
    done = row.completeness
    remarks: list[tuple[str, Ink]] = []
    if done.sentence:
        sign, ink = ("x", Ink.ERROR) if done.state == "incomplete" else ("!", Ink.WARNING)
        remarks.append((f"{sign} {done.sentence}", ink))
    remarks += [(f"! {remark}", Ink.WARNING) for remark in row.remarks]
    if row.step_caveat:
        remarks.append((f"! {row.step_caveat}", Ink.WARNING))
    if row.tokens_source:
        remarks.append((f"throughput: {row.tokens_source}", Ink.DIM))
    if done.present:
        remarks.append((f"there: {', '.join(done.present)}", Ink.DIM))
    lines = [(clean(row.name).ljust(width)[:width], Ink.STRONG)]
    for text, ink in remarks:
        lines += [(line, ink) for line in wrap(clean(text), width, most=3, indent="  ")]
    return lines
