"""Panes on files beside traces. Runs: key figures, curves of loss and throughput, missing files.

Cluster: values about machines from benchmarks, NCCL and drivers, and doubts about them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import Ink
from ccltui.draw.text import clean, spark, wrap
from ccltui.parsers.numbers import quantity
from ccltui.tui.panes.list_pane import Column, FilePane, name_column
from ccltui.tui.state.answers import FileQuery
from ccltui.tui.state.pane_states import CLUSTER as CLUSTER_NAME
from ccltui.tui.state.pane_states import RUNS as NAME
from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from ccltui.metrics.cluster.cluster_table import ClusterRow
    from ccltui.metrics.runs.completeness import RunRow
    from ccltui.parsers.job import Job


_WIDE: Final = 110
_VERY_WIDE: Final = 150
_STATES: Final = {"complete": "complete", "unmarked": "! unmarked", "incomplete": "x incomplete"}
_INKS: Final = {"complete": Ink.TEXT, "unmarked": Ink.WARNING, "incomplete": Ink.ERROR}


class RunsQuery(FileQuery["Sequence[RunRow]"], frozen=True):
    """All runs below the open path; after a reload the query is sent again."""

    path: str

    def answer(self, job: Job, cancelled: Callable[[], bool]) -> Sequence[RunRow]:
        """Return a row for each run; long logs are read in a separate process."""
        from ccltui.metrics.runs.completeness import run_table
        from ccltui.tui.state.query_kinds import has_short_texts, made_in_process

        make = partial(run_table, job.discovery)
        return make() if has_short_texts(job) else made_in_process(make, cancelled)


def _step_time(title: str, value: Callable[[RunRow], float | None]) -> Column[RunRow]:
    """Return a column of times of steps, with a mark where they rest on few samples."""

    def text(row: RunRow, _: int) -> str:
        return f"{quantity(value(row))}{' !' if row.step_caveat and value(row) is not None else ''}"

    return Column(title, value, text=text)


def _trend(values: Callable[[RunRow], Sequence[float | None]]) -> Column[RunRow]:
    """Return a column of sparklines; "" for fewer than two values."""

    def text(row: RunRow, room: int) -> str:
        return spark(values(row), room) if len(values(row)) > 1 else ""

    def widest(width: int) -> int:
        return 20 if width >= _VERY_WIDE else 12 if width >= _WIDE else 8

    return Column("trend", text=text, align="left", widest=widest)


class RunsPane(FilePane["RunRow"]):
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
    asks = RunsQuery
    noun = "run"
    counts = False
    waiting = "runs are being read"
    nothing = "no run here: no folder with training_metrics.json, training_steps.jsonl or a log"
    definition = "tokens/s: of all ranks, over training wall time; p50, p95: of micro-steps timed"
    metric_name = "run_throughput"
    detail_lines = 9
    columns = (
        name_column("run", lambda row: row.name, widest=lambda width: 40 if width >= _WIDE else 24),
        Column("state", lambda row: row.completeness.state, _STATES.__getitem__, align="left"),
        Column("tokens/s", lambda row: row.tokens_per_s, quantity),
        _trend(lambda row: row.rate_curve),
        Column("loss", lambda row: row.train_loss, quantity),
        _trend(lambda row: row.loss_curve),
        _step_time("p95 ms", lambda row: row.step_p95_ms),
        Column("ranks", lambda row: row.world_size),
        _step_time("p50 ms", lambda row: row.step_p50_ms),
        Column("val loss", lambda row: row.val_loss, quantity),
        Column("AllReduce/bwd", lambda row: row.allreduce_per_backward, quantity),
        Column(
            "commit",
            lambda row: row.git_commit or None,
            text=lambda row, _: row.git_commit[:7],
            align="left",
        ),
        Column("nsys", lambda row: row.profiled, lambda on: "on" if on else "", align="left"),
    )

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason when there are no runs."""
        return None if scene.session.has_runs else self.nothing

    def query(self, scene: Scene) -> RunsQuery | None:
        """Return the query for all runs below the open path."""
        return None if scene.session.job is None else RunsQuery(scene.session.path)

    def words(self, row: RunRow) -> tuple[str]:
        """Return name, state and commit of a run."""
        return (f"{row.name} {row.completeness.state} {row.git_commit}",)

    def ink(self, row: RunRow) -> Ink:
        """Return the style of the state of a run."""
        return _INKS[row.completeness.state]

    def remark(self, scene: Scene, *, narrow: bool) -> str:
        """Return the number of incomplete runs."""
        found = self.found_rows(scene) or ()
        lacking = sum(one.completeness.state == "incomplete" for one in found)
        return f"x {lacking}" if narrow else f"{lacking} of {len(found)} incomplete"

    def details_of(self, row: RunRow, width: int) -> list[tuple[str, Ink]]:
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


RUNS: Final = RunsPane()


def capture_of_run(scene: Scene) -> str | None:
    """Return the capture that was recorded in the selected run, None where there is none."""
    job, row = scene.session.job, RUNS.chosen(scene)
    if job is None or row is None:
        return None
    alone = RUNS.count(scene) == 1
    fitting = [one for one in job.discovery.captures if _is_in(one.name, row.name, alone=alone)]
    whole = [one for one in fitting if one.complete] or fitting
    return whole[-1].name if whole else None


def _is_in(capture: str, run: str, *, alone: bool) -> bool:
    """Return whether a capture is in the folder of a run; "" is the opened directory."""
    return capture == run or capture.startswith(f"{run}/") or (alone and capture == "")


def why_no_capture(scene: Scene) -> str | None:
    """Return the reason when the selected run opens no traces."""
    if not RUNS.count(scene):
        return "no run is listed yet"
    if capture_of_run(scene) is None:
        return "no trace was recorded in this run: nothing to open"
    return None


_WITHOUT_WHY: Final = 122
"""Most cells that the other columns take."""
_SIGNS = {
    "": "",
    "outlier": "! outlier",
    "suspect": "! suspect",
    "impossible": "x impossible",
    "problem": "x problem",
}
_MARK_INKS = {
    "": Ink.TEXT,
    "outlier": Ink.WARNING,
    "suspect": Ink.WARNING,
    "impossible": Ink.ERROR,
    "problem": Ink.ERROR,
}


class ClusterQuery(FileQuery["Sequence[ClusterRow]"], frozen=True):
    """All values about the machines below the open path; ``device`` as named in the card."""

    path: str
    device: str

    def answer(self, job: Job, cancelled: Callable[[], bool]) -> Sequence[ClusterRow]:
        """Return a row for each value; long logs are read in a separate process."""
        from ccltui.metrics.cluster.cluster_table import cluster_table
        from ccltui.tui.state.query_kinds import has_short_texts, made_in_process

        make = partial(cluster_table, job.discovery, self.device)
        return make() if has_short_texts(job) else made_in_process(make, cancelled)


def _value(row: ClusterRow, _: int) -> str:
    return quantity(row.value) if row.value is not None or row.unit else ""


def _unit(row: ClusterRow, _: int) -> str:
    return row.unit or ("" if row.value is not None else row.text)


def _why(row: ClusterRow, _: int) -> str:
    return row.message if row.mark else row.text if row.unit else ""


class ClusterPane(FilePane["ClusterRow"]):
    """Values about machines from files, with marks on doubtful ones."""

    name = CLUSTER_NAME
    key = "8"
    title = "Cluster"
    short_title = "Clu"
    about = (
        "What benchmarks, nccl-tests, logs of NCCL and drivers show about the machines. outlier: "
        "far from the median of the other devices; impossible: above what the hardware can do, or "
        "at odds with another value of the same file; suspect: probably not what its name "
        "suggests."
    )
    is_of_ranks = False
    asks = ClusterQuery
    counts = False
    waiting = "benchmarks and logs are being read"
    nothing = "nothing about machines here: no benchmark, log of NCCL, topology or ibstat"
    definition = "outlier: beyond 3.5 scaled MADs and 5 % of the median of the same test"
    metric_name = "cluster_outliers"
    detail_lines = 4
    columns = (
        Column("", text=lambda row, _: _SIGNS[row.mark][:1]),
        name_column(
            "where",
            lambda row: row.section,
            widest=lambda width: 36 if width >= _WIDE else 20,
            is_once=True,
        ),
        name_column(
            "what", lambda row: row.what, widest=lambda width: 34 if width >= _WIDE else 28
        ),
        Column("value", lambda row: row.value, text=_value),
        Column("unit", lambda row: row.unit or None, text=_unit, align="left", widest=lambda _: 12),
        Column(
            "verdict",
            lambda row: row.mark or None,
            text=lambda row, _: _SIGNS[row.mark],
            align="left",
        ),
        Column(
            "why",
            lambda row: row.message or None,
            text=_why,
            align="left",
            widest=lambda width: width - _WITHOUT_WHY,
            from_width=_WITHOUT_WHY + 3,
        ),
    )

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason when there are no values about machines."""
        return None if scene.session.has_cluster else self.nothing

    def query(self, scene: Scene) -> ClusterQuery | None:
        """Return the query for all values about the machines."""
        job = scene.session.job
        if job is None:
            return None
        device = "" if job.card is None else job.card.gpu_model or ""
        return ClusterQuery(scene.session.path, device)

    def words(self, row: ClusterRow) -> tuple[str]:
        """Return where a value is from, what it is, its text and its mark."""
        return (f"{row.section} {row.what} {row.unit} {row.text} {row.mark}",)

    def ink(self, row: ClusterRow) -> Ink:
        """Return the style of the doubt about a value."""
        return _MARK_INKS[row.mark]

    def remark(self, scene: Scene, *, narrow: bool) -> str:
        """Return the number of doubtful rows."""
        marks = [one.mark for one in self.found_rows(scene) or ()]
        if narrow:
            doubted = marks.count("outlier") + marks.count("suspect")
            return f"x {marks.count('impossible')}  ! {doubted}"
        return "  ".join(
            f"{marks.count(mark)} {mark}" for mark in ("impossible", "outlier", "suspect")
        )

    def details_of(self, row: ClusterRow, width: int) -> list[tuple[str, Ink]]:
        """Return the selected row in full, and the reason for its doubt."""
        value = f"{quantity(row.value)} {row.unit}" if row.value is not None else row.text
        head = f"{row.section}, {row.what}: {value}" if value else f"{row.section}, {row.what}"
        lines = [(clean(head)[:width], Ink.STRONG)]
        if row.message:
            sign = _SIGNS[row.mark]
            text = clean(f"{sign}: {row.message}" if sign else row.message)
            ink = _MARK_INKS[row.mark] if row.mark else Ink.DIM
            most = self.detail_lines - 1
            lines += [(line, ink) for line in wrap(text, width, most=most, indent="  ")]
        return lines


CLUSTER: Final = ClusterPane()
