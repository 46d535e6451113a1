"""Tables of what lies beside traces: runs and machines. Rows come from the metrics, by a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from ccltui.tui.state.view_state import Pane

if TYPE_CHECKING:
    from ccltui.metrics.cluster.cluster_table import ClusterRow
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.runs.runs_table import RunRow
    from ccltui.parsers.job import Job
    from ccltui.report.nsys_overview import OverviewLine
    from ccltui.tui.state.scene import Scene
    from ccltui.tui.state.view_state import ViewState

    Rows = Sequence[RunRow] | Sequence[ClusterRow] | Sequence[OverviewLine]

_SHORT_BYTES: Final = 1_000_000
"""So much text is read in the time of a frame or two; more must not hold up the keys."""
_CATEGORIES: Final = frozenset({"runs", "cluster"})
PANES: Final = frozenset({Pane.RUNS, Pane.CLUSTER, Pane.REPORTS})
NO_REPORTS: Final = (
    "no text of nsys stats and no all-to-all here; ccltui stats prints the tables of an export"
)


@dataclass(frozen=True, slots=True)
class RunsQuery:
    """All runs below what is open; loading it again asks again."""

    path: str


@dataclass(frozen=True, slots=True)
class ClusterQuery:
    """All that is known of the machines below what is open; ``device`` as the card names it."""

    path: str
    device: str


@dataclass(frozen=True, slots=True)
class ReportsQuery:
    """What the files of nsys below what is open say."""

    path: str


SideQuery = RunsQuery | ClusterQuery | ReportsQuery


def of_traces() -> dict[str, Metric]:
    """Metrics of the Summary; those of runs and machines have their own panes."""
    from ccltui.metrics.registry import metrics  # noqa: PLC0415  (the screen paints before)

    return {name: one for name, one in metrics().items() if one.category not in _CATEGORIES}


def wanted(scene: Scene) -> SideQuery | None:
    """What the pane in view needs, None for other panes and before the directory is known."""
    job = scene.session.job
    if job is None:
        return None
    if scene.state.pane is Pane.RUNS:
        return RunsQuery(scene.session.path)
    if scene.state.pane is Pane.CLUSTER:
        device = "" if job.card is None else job.card.gpu_model or ""
        return ClusterQuery(scene.session.path, device)
    if scene.state.pane is Pane.REPORTS:
        return ReportsQuery(scene.session.path)
    return None


def rows_of(job: Job, query: SideQuery, cancelled: Callable[[], bool]) -> Rows:
    """Read the files and make the rows, those of long files in a process of its own.

    No rows once ``cancelled``: the process ends.
    """
    # The screen paints before these are imported.
    from ccltui.metrics.cluster.cluster_table import cluster_table  # noqa: PLC0415
    from ccltui.metrics.runs.runs_table import run_table  # noqa: PLC0415

    make: Callable[[], Rows]
    if isinstance(query, ReportsQuery):
        from ccltui.report.nsys_overview import nsys_overview  # noqa: PLC0415

        make = partial(nsys_overview, query.path)
    elif isinstance(query, RunsQuery):
        make = partial(run_table, job.discovery)
    else:
        make = partial(cluster_table, job.discovery, query.device)
    text = sum(file.size_bytes for file in job.discovery.files if file.format.read_by_line)
    if text <= _SHORT_BYTES and not isinstance(query, ReportsQuery):
        return make()
    from ccltui.tui.subprocess_task import run_in_process  # noqa: PLC0415

    return run_in_process(make, cancelled) or ()


def runs(scene: Scene) -> Sequence[RunRow] | None:
    """The runs, None as long as they are being read."""
    found = scene.told.get(RunsQuery.__name__)
    return None if found is None else cast("Sequence[RunRow]", found.answer)


def machines(scene: Scene) -> Sequence[ClusterRow] | None:
    """Rows about machines, None as long as they are being read."""
    found = scene.told.get(ClusterQuery.__name__)
    return None if found is None else cast("Sequence[ClusterRow]", found.answer)


def reports(scene: Scene) -> Sequence[OverviewLine] | None:
    """Lines about the files of nsys, None as long as they are being read."""
    found = scene.told.get(ReportsQuery.__name__)
    return None if found is None else cast("Sequence[OverviewLine]", found.answer)


def opened(scene: Scene) -> Scene:
    """The scene of a directory that was looked at: one without traces shows what it has."""
    session, job = scene.session, scene.session.job
    if job is None or job.capture.files or scene.state.pane is not Pane.SUMMARY:
        return scene
    if session.has_runs:
        return scene.with_state(replace(scene.state, pane=Pane.RUNS))
    if session.has_cluster:
        return scene.with_state(replace(scene.state, pane=Pane.CLUSTER))
    if session.has_reports:
        return scene.with_state(replace(scene.state, pane=Pane.REPORTS))
    return scene


def why_no_runs(scene: Scene) -> str | None:
    """Why there is nothing to see in Runs."""
    if scene.session.has_runs:
        return None
    return "no run here: no folder with training_metrics.json, training_steps.jsonl or a log"


def why_no_cluster(scene: Scene) -> str | None:
    """Why there is nothing to see in Cluster."""
    if scene.session.has_cluster:
        return None
    return "nothing about machines here: no benchmark, log of NCCL, topology or ibstat"


def why_no_reports(scene: Scene) -> str | None:
    """Why there is nothing to see in Reports."""
    return None if scene.session.has_reports else NO_REPORTS


def count(scene: Scene) -> int:
    """Rows of the pane in view, 0 in another pane."""
    if scene.state.pane not in PANES:
        return 0
    return len(_rows(scene) or ())


def _rows(scene: Scene) -> Rows | None:
    if scene.state.pane is Pane.REPORTS:
        return reports(scene)
    return runs(scene) if scene.state.pane is Pane.RUNS else machines(scene)


def row(state: ViewState) -> int:
    """The selected row of the pane in view."""
    if state.pane is Pane.REPORTS:
        return state.report
    return state.run if state.pane is Pane.RUNS else state.machine


def to_row(state: ViewState, place: int) -> ViewState:
    """Select a row."""
    if state.pane is Pane.RUNS:
        return replace(state, run=place)
    if state.pane is Pane.REPORTS:
        return replace(state, report=place)
    return replace(state, machine=place)


def legend(scene: Scene, *, narrow: bool) -> str:
    """How many rows are in doubt, of Reports where the cursor is."""
    if scene.state.pane is Pane.REPORTS:
        found_lines = reports(scene) or ()
        at = min(scene.state.report, max(len(found_lines) - 1, 0))
        return "" if narrow or not found_lines else f"line {at + 1} of {len(found_lines)} "
    if scene.state.pane is Pane.RUNS:
        found = runs(scene) or ()
        lacking = sum(one.completeness.state == "incomplete" for one in found)
        return f"x {lacking} " if narrow else f"{lacking} of {len(found)} incomplete "
    marks = [one.mark for one in machines(scene) or ()]
    if narrow:
        doubted = marks.count("outlier") + marks.count("suspect")
        return f"x {marks.count('impossible')}  ! {doubted} "
    doubts = [f"{marks.count(mark)} {mark}" for mark in ("impossible", "outlier", "suspect")]
    return f"{'  '.join(doubts)} "


def capture_of_run(scene: Scene) -> str | None:
    """The capture that was recorded in the selected run, None where there is none."""
    job, rows = scene.session.job, runs(scene)
    if job is None or not rows:
        return None
    name = rows[min(scene.state.run, len(rows) - 1)].name
    fitting = [
        one for one in job.discovery.captures if _is_in(one.name, name, alone=len(rows) == 1)
    ]
    whole = [one for one in fitting if one.complete] or fitting
    return whole[-1].name if whole else None


def _is_in(capture: str, run: str, *, alone: bool) -> bool:
    """Whether a capture lies in the folder of a run; "" is the directory that was opened."""
    return capture == run or capture.startswith(f"{run}/") or (alone and capture == "")


def why_no_capture(scene: Scene) -> str | None:
    """Why the selected run opens no traces."""
    if not runs(scene):
        return "no run is listed yet"
    if capture_of_run(scene) is None:
        return "no trace was recorded in this run: nothing to open"
    return None


def definition(scene: Scene) -> str:
    """What the numbers of the pane in view are."""
    if scene.state.pane is Pane.REPORTS:
        return "delay: longest less shortest kernel of an exchange, over the devices"
    if scene.state.pane is Pane.RUNS:
        return "tokens/s: of all ranks, over training wall time; p50, p95: of micro-steps timed"
    return "outlier: beyond 3.5 scaled MADs and 5 % of the median of the same test"


def metric(scene: Scene) -> str:
    """The metric that prints what the pane in view shows."""
    return "run_throughput" if scene.state.pane is Pane.RUNS else "cluster_outliers"


def records(scene: Scene) -> Iterator[dict[str, Any]]:
    """Rows of the pane in view to be written to a file; curves are left out."""
    for one in _rows(scene) or ():
        values = {field.name: getattr(one, field.name) for field in fields(one)}
        values.pop("loss_curve", None)
        values.pop("rate_curve", None)
        done = values.pop("completeness", None)
        if done is not None:
            values |= {"state": done.state, "missing": ", ".join(done.missing)}
        remarks = values.pop("remarks", None)
        if remarks is not None:
            values["remarks"] = "; ".join(remarks)
        yield values
