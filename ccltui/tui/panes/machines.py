"""The Cluster pane: values about machines from benchmarks, NCCL and drivers, and doubts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import Ink
from ccltui.draw.table import Column, table
from ccltui.draw.text import clean, fit_middle, wrap
from ccltui.parsers import numbers
from ccltui.parsers.system.quick_dataclass import dataclass
from ccltui.tui.panes.pages.side_pane import SidePane
from ccltui.tui.state.answers import FileQuery
from ccltui.tui.state.own.pane_names import CLUSTER as NAME
from ccltui.tui.state.own.sorting import Sorting, Value
from ccltui.tui.state.scene import Scene
from ccltui.tui.styled_text import Line

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.metrics.cluster.cluster_table import ClusterRow
    from ccltui.parsers.job import Job

_SECTION = 20
_WIDE_SECTION = 36
_WHAT = 28
_WIDE_WHAT = 34
_WIDE = 110
_WITHOUT_WHY = 122  # most characters that the other columns take
_DETAIL_LINES = 4
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


@dataclass(frozen=True, slots=True)
class ClusterQuery(FileQuery["Sequence[ClusterRow]"]):
    """All values about the machines below the open path; ``device`` as named in the card."""

    path: str
    device: str

    def answer(self, job: Job, cancelled: Callable[[], bool]) -> Sequence[ClusterRow]:
        """Return a row for each value; long logs are read in a separate process."""
        from ccltui.metrics.cluster.cluster_table import cluster_table
        from ccltui.tui.state.side_tables import has_short_texts, made_in_process

        make = partial(cluster_table, job.discovery, self.device)
        return make() if has_short_texts(job) else made_in_process(make, cancelled)


_SORT_KEYS: Final[Mapping[str, Callable[[ClusterRow], Value]]] = {
    "where": lambda row: row.section,
    "what": lambda row: row.what,
    "value": lambda row: row.value,
    "unit": lambda row: row.unit or None,
    "verdict": lambda row: row.mark or None,
    "why": lambda row: row.message or None,
}


class ClusterPane(SidePane["ClusterRow"]):
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
    kind = ClusterQuery
    sort_keys = _SORT_KEYS
    definition = "outlier: beyond 3.5 scaled MADs and 5 % of the median of the same test"

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason when there are no values about machines."""
        if scene.session.has_cluster:
            return None
        return "nothing about machines here: no benchmark, log of NCCL, topology or ibstat"

    def query(self, scene: Scene) -> ClusterQuery:
        """Return the query for all values about the machines."""
        job = scene.session.job
        device = "" if job is None or job.card is None else job.card.gpu_model or ""
        return ClusterQuery(scene.session.path, device)

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw a page of values with the selected one, and below it the reason for its doubt."""
        return _paint(scene, height, width)

    def text_of(self, row: ClusterRow) -> str:
        """Return where a value is from, what it is, its text and its mark."""
        return f"{row.section} {row.what} {row.unit} {row.text} {row.mark}"

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return filter and order, and the number of doubtful rows."""
        marks = [one.mark for one in self.found_rows(scene) or ()]
        listing = self.listing_text(scene)
        if narrow:
            doubted = marks.count("outlier") + marks.count("suspect")
            return [(f"{listing}x {marks.count('impossible')}  ! {doubted} ", Ink.TAB)]
        doubts = [f"{marks.count(mark)} {mark}" for mark in ("impossible", "outlier", "suspect")]
        return [(f"{listing}{'  '.join(doubts)} ", Ink.TAB)]

    def metric(self, scene: Scene) -> str:
        """Return the name of the metric of the rows."""
        return "cluster_outliers"


CLUSTER: Final = ClusterPane()


def _paint(scene: Scene, height: int, width: int) -> Planes:
    from ccltui.draw.planes import Planes

    planes = Planes.blank(height, width, Ink.TEXT)
    rows = CLUSTER.rows(scene)
    if rows is None:
        planes.put(1, 1, "Benchmarks and logs are being read.", Ink.DIM)
        return planes
    if not rows:
        text = "Nothing about machines here: no benchmark, log of NCCL, topology or ibstat."
        if CLUSTER.row_pattern(scene):
            text = f"{CLUSTER.why_no_rows(scene).capitalize()}."
        planes.put(1, 1, text, Ink.DIM)
        return planes
    at = min(CLUSTER.row(scene), len(rows) - 1)
    below = _detail(rows[at], width - 2)
    room = max(height - _DETAIL_LINES - 2, 1)
    first = at // room * room
    shown = rows[first : first + room]
    cells = [_cells(row, width) for row in _once(shown)]
    lines = table(_columns(width, CLUSTER.sorting(scene)), cells, width - 2)
    planes.put(0, 1, lines[0], Ink.DIM)
    for index, (row, line) in enumerate(zip(shown, lines[1:], strict=True)):
        on = first + index == at
        ink = Ink.LABEL_ON if on else _INKS[row.mark]
        planes.put(1 + index, 0, (("▶" if on else " ") + line).ljust(width), ink)
        planes.listed[1 + index] = first + index
    for index, (text, ink) in enumerate(below):
        planes.put(height - _DETAIL_LINES + index, 1, text, ink)
    return planes


def _once(rows: Sequence[ClusterRow]) -> list[tuple[ClusterRow, str]]:
    """Return each row with its section where the section begins, and with "" below that."""
    found, before = [], ""
    for row in rows:
        found.append((row, "" if row.section == before else row.section))
        before = row.section
    return found


def _columns(width: int, sorting: Sorting) -> list[Column]:
    wide = width >= _WIDE
    found = (
        Column("", widest=1),
        Column("where", widest=_WIDE_SECTION if wide else _SECTION),
        Column("what", widest=_WIDE_WHAT if wide else _WHAT),
        Column("value", "right"),
        Column("unit", widest=12),
        Column("verdict", widest=12),
        Column("why", widest=max(width - _WITHOUT_WHY, 3)),
    )
    return [replace(one, title=sorting.marked(one.title)) for one in found]


def _cells(pair: tuple[ClusterRow, str], width: int) -> tuple[str, ...]:
    row, section = pair
    wide = width >= _WIDE
    text = clean(row.text) if row.value is None else ""
    text_of_row = row.message if row.mark else row.text if row.unit else ""
    why = clean(text_of_row) if width > _WITHOUT_WHY else ""
    return (
        _SIGNS[row.mark][:1],
        fit_middle(clean(section), _WIDE_SECTION if wide else _SECTION).rstrip(),
        fit_middle(clean(row.what), _WIDE_WHAT if wide else _WHAT).rstrip(),
        numbers.quantity(row.value) if row.value is not None or row.unit else "",
        row.unit or text,
        _SIGNS[row.mark],
        why,
    )


def _detail(row: ClusterRow, width: int) -> list[tuple[str, Ink]]:
    """Return the selected row in full, and the reason for its doubt."""
    value = f"{numbers.quantity(row.value)} {row.unit}" if row.value is not None else row.text
    head = f"{row.section}, {row.what}: {value}" if value else f"{row.section}, {row.what}"
    lines = [(clean(head)[:width], Ink.STRONG)]
    if row.message:
        sign = _SIGNS[row.mark]
        text = clean(f"{sign}: {row.message}" if sign else row.message)
        ink = _INKS[row.mark] if row.mark else Ink.DIM
        most = _DETAIL_LINES - 1
        lines += [(line, ink) for line in wrap(text, width, most=most, indent="  ")]
    return lines
