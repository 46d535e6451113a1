"""The Cluster pane: values about machines from benchmarks, NCCL and drivers, and doubts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import Ink
from ccltui.draw.text import clean, wrap
from ccltui.parsers import numbers
from ccltui.tui.panes.list_pane import Column, FilePane, name_column
from ccltui.tui.state.answers import FileQuery
from ccltui.tui.state.pane_states import CLUSTER as NAME
from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from ccltui.metrics.cluster.cluster_table import ClusterRow
    from ccltui.parsers.job import Job

_WIDE: Final = 110
_WITHOUT_WHY: Final = 122
"""Most cells that the other columns take."""
_SIGNS = {
    "": "",
    "outlier": "! outlier",
    "suspect": "! suspect",
    "impossible": "x impossible",
    "problem": "x problem",
}
_INKS = {
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
    return numbers.quantity(row.value) if row.value is not None or row.unit else ""


def _unit(row: ClusterRow, _: int) -> str:
    return row.unit or ("" if row.value is not None else row.text)


def _why(row: ClusterRow, _: int) -> str:
    return row.message if row.mark else row.text if row.unit else ""


class ClusterPane(FilePane["ClusterRow"]):
    """Values about machines from files, with marks on doubtful ones."""

    name = NAME
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
        return _INKS[row.mark]

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
        value = f"{numbers.quantity(row.value)} {row.unit}" if row.value is not None else row.text
        head = f"{row.section}, {row.what}: {value}" if value else f"{row.section}, {row.what}"
        lines = [(clean(head)[:width], Ink.STRONG)]
        if row.message:
            sign = _SIGNS[row.mark]
            text = clean(f"{sign}: {row.message}" if sign else row.message)
            ink = _INKS[row.mark] if row.mark else Ink.DIM
            most = self.detail_lines - 1
            lines += [(line, ink) for line in wrap(text, width, most=most, indent="  ")]
        return lines


CLUSTER: Final = ClusterPane()
