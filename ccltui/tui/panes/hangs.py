"""The Hangs pane: what each rank of a job that hangs does, and whom it waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.draw.palette import Ink
from ccltui.draw.text import clean, fit_middle, wrap
from ccltui.parsers import numbers
from ccltui.tui.panes.list_pane import Column, FilePane
from ccltui.tui.state.answers import FileQuery, Query, ViewQuery
from ccltui.tui.state.finding_rows import findings
from ccltui.tui.state.pane import Record
from ccltui.tui.state.pane_states import HANGS as NAME
from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ccltui.metrics.hangs.hang import Hang, Standing
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.found_files import Discovery
    from ccltui.parsers.job import Job
    from ccltui.tui.state.answers import Findings

_WIDE: Final = 110
_RECORD_FROM: Final = 100
_RECORDS: Final = {
    "flight recorder": "dumps of the flight recorder",
    "watchdog": "logs of watchdogs",
    "ras": "reports of ncclras",
}


class Row(Struct, frozen=True):
    """Ranks that do the same, and the hang that they are in."""

    hang: Hang
    standing: Standing


class HangsQuery(FileQuery["Sequence[Row]"], frozen=True):
    """What ranks do in the hangs that dumps, logs and reports below the open path tell of."""

    path: str

    def answer(self, job: Job, cancelled: Callable[[], bool]) -> Sequence[Row]:
        """Return the ranks hang by hang, the surest first, found in a separate process."""
        from ccltui.tui.state.query_kinds import made_in_process

        return made_in_process(partial(_rows, job.discovery, job.store), cancelled)


class TracedHangsQuery(ViewQuery["Sequence[Row]"], frozen=True):
    """The same where traces lie beside them, with what these show of the ranks that are named."""

    path: str
    generation: int

    def answer(self, view: View, findings: Findings) -> Sequence[Row]:
        """Return the ranks hang by hang, the surest first: those that the findings rest on."""
        from ccltui.metrics.findings.recordings.hang_window import hangs_of_view

        return _rows_of(hangs_of_view(view))


def _rows(discovery: Discovery, store: Path | None) -> list[Row]:
    from ccltui.metrics.hangs.find_hang import hangs_of

    return _rows_of(hangs_of(discovery, store))


def _rows_of(hangs: Sequence[Hang]) -> list[Row]:
    return [Row(hang, standing) for hang in hangs for standing in hang.rows()]


def _ranks(labels: Sequence[str]) -> str:
    """Return ranks as ranges: ``r0-3,7``; labels that are no numbers one by one."""
    from ccltui.metrics.hangs.hang import ranges

    if not labels:
        return "--"
    if not all(label.isdecimal() for label in labels):
        return ", ".join(map(clean, labels))
    return f"r{','.join(ranges(sorted({int(label) for label in labels})))}"


def _ranks_column(title: str, labels: Callable[[Row], Sequence[str]]) -> Column[Row]:
    """Return a column of ranks, which are sorted by the first."""

    def text(row: Row, room: int) -> str:
        return fit_middle(_ranks(labels(row)) if labels(row) else "", room).rstrip()

    def order(row: Row) -> int | None:
        first = next(iter(labels(row)), "")
        return int(first) if first.isdecimal() else None

    def widest(width: int) -> int:
        return 36 if width >= _WIDE else 14

    return Column(title, order, text=text, align="left", widest=widest)


class HangsPane(FilePane[Row]):
    """Ranks of a job that hangs, by what they do."""

    name = NAME
    key = "W"
    title = "Hangs"
    short_title = "Hang"
    about = (
        "Ranks of a job that hangs, those that are named first: what they do, in which call, and "
        "the ranks that have not entered it. Ranks in the same call are one row. Below: who did "
        "not arrive, how sure that is, and what to do. From dumps of the flight recorder, what "
        "watchdogs print in logs, and reports of ncclras."
    )
    is_of_ranks = False
    opens_without_traces = False  # Overview has the finding
    asks = HangsQuery
    noun = "row"
    waiting = "dumps and logs are being read"
    nothing = (
        "no flight recorder dump here, no log in which a watchdog timed out, and no report of "
        "ncclras: to record them: docs/hangs.md"
    )
    metric_name = "hang_verdict"
    detail_lines = 13
    least_rows = 9
    columns = (
        _ranks_column("ranks", lambda row: row.standing.ranks),
        Column("does", lambda row: row.standing.does, align="left"),
        Column(
            "call",
            lambda row: row.standing.call,
            text=lambda row, room: fit_middle(row.standing.call, room).rstrip(),
            align="left",
            takes_rest=True,
            least=12,
        ),
        _ranks_column("waits for", lambda row: row.standing.waits_for),
        Column(
            "called from",
            lambda row: row.standing.place,
            align="left",
            from_width=_RECORD_FROM,
            widest=lambda width: 40,
        ),
    )

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason when nothing tells of a hang."""
        if scene.session.has_hangs or any(row["class"] == "hang" for row in findings(scene)):
            return None
        return self.nothing

    def query(self, scene: Scene) -> Query[Sequence[Row]] | None:
        """Return the query for the hangs below the open path."""
        session, found = scene.session, scene.findings
        if session.job is None:
            return None
        if session.job.ranks and found.generation == session.generation:
            return TracedHangsQuery(session.path, found.generation)
        return HangsQuery(session.path)

    def found_rows(self, scene: Scene) -> Sequence[Row] | None:
        """Return the rows of the newest query, None while it has no answer."""
        return scene.answers.answer(self.query(scene))

    def words(self, row: Row) -> tuple[str, ...]:
        """Return ranks, what they do, and where."""
        one = row.standing
        return (*(f"r{label} rank {label}" for label in one.ranks), one.does, one.call, one.place)

    def ink(self, row: Row) -> Ink:
        """Return the style of ranks that are named, and of the others."""
        return Ink.STRONG if row.standing.is_named else Ink.TEXT

    def remark(self, scene: Scene, *, narrow: bool) -> str:
        """Return how many jobs hang, where there are several."""
        count = len({row.hang.where for row in self.found_rows(scene) or ()})
        return numbers.counted(count, "job") if count > 1 else ""

    def details_of(self, row: Row, width: int) -> list[tuple[str, Ink]]:
        """Return the sentences of the hang, what to do, and what it is from."""
        hang = row.hang
        lines = [(line, Ink.STRONG) for line in wrap(clean(hang.text), width, most=3)]
        if hang.do:
            lines += [(line, Ink.LABEL) for line in wrap(f"Next: {clean(hang.do)}", width, most=2)]
        place = f" in {clean(hang.where)}" if hang.where else ""
        files = numbers.counted(len(hang.files), "file")
        told = " and ".join(_RECORDS.get(one, one) for one in hang.record.split(", "))
        source = f"confidence: {hang.sure}   {told}, {files}{place}"
        lines += [(line, Ink.DIM) for line in wrap(source, width, most=2)]
        for text in hang.more:
            lines += [(line, Ink.TEXT) for line in wrap(clean(text), width, most=4, indent="  ")]
        return lines

    def details_from(self, rows_end: int, lowest: int) -> int:
        """Return the line below the rows: ranks in one call are one row, so that they are few."""
        return min(rows_end + 2, lowest)

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield what each row says."""
        for row in self.rows(scene):
            one = row.standing
            yield {
                "ranks": " ".join(one.ranks),
                "does": one.does,
                "call": one.call,
                "waits_for": " ".join(one.waits_for),
                "called_from": one.place,
                "named": int(one.is_named),
                "record": row.hang.record,
                "job": row.hang.where,
            }


HANGS: Final = HangsPane()
