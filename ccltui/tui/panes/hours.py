"""The Hours pane: how late ranks are over hours, from records of NCCL Inspector."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.draw.palette import HEAT, LEVELS, USUAL_FLOOR_NS, Ink
from ccltui.draw.text import Line
from ccltui.parsers import numbers
from ccltui.tui.panes.list_pane import Column, FilePane, Page
from ccltui.tui.state.answers import FileQuery
from ccltui.tui.state.pane import Record, pane_in_view
from ccltui.tui.state.pane_states import HOURS as NAME
from ccltui.tui.state.pane_states import ListState, OwnState, Value
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState

if TYPE_CHECKING:
    from pathlib import Path

    from ccltui.draw.planes import Planes
    from ccltui.metrics.inspector.rolled_job import RankMinutes
    from ccltui.parsers.array_types import I64
    from ccltui.parsers.found_files import FoundFile
    from ccltui.parsers.job import Job

_HOST_FROM: Final = 100
_LEAST_CELLS: Final = 16
_MOST_ZOOM: Final = 14
_SIXTIETH: Final = 60


class HoursQuery(FileQuery["Sequence[RankMinutes]"], frozen=True):
    """How late ranks are over time, from the records below the open path."""

    path: str

    def answer(self, job: Job, cancelled: Callable[[], bool]) -> Sequence[RankMinutes]:
        """Return a matrix for each kind of collective; logs are read in a separate process."""
        from ccltui.tui.state.query_kinds import made_in_process

        return made_in_process(partial(_matrices, job.discovery.files, job.store), cancelled)


def _matrices(files: Sequence[FoundFile], store: Path | None) -> Sequence[RankMinutes]:
    from ccltui.metrics.inspector.inspector_job import job_of
    from ccltui.metrics.inspector.rolled_job import rank_minutes
    from ccltui.metrics.unavailable import Refusal

    try:
        return rank_minutes(job_of(files, store))
    except Refusal:
        return ()


class Row(Struct, frozen=True):
    """A rank: its place in the matrix, and what is known of it.

    ``lag_us`` is the median over the windows where it is late, else over all; None without any.
    """

    matrix: RankMinutes
    place: int
    lag_us: float | None
    num_late: int

    @property
    def label(self) -> str:
        """Its rank in the job, else host and process."""
        return self.matrix.labels[self.place]

    @property
    def host(self) -> str:
        """Its host."""
        return self.matrix.hosts[self.place]

    @property
    def late_s(self) -> float:
        """Seconds of the windows where it is late."""
        return self.num_late * self.matrix.window_us / 1e6


def _rows(matrix: RankMinutes) -> list[Row]:
    import numpy as np

    found = []
    for place in range(len(matrix.labels)):
        lag, late = matrix.lag_us[place], matrix.late[place]
        chosen = lag[late] if late.any() else lag
        known = chosen[~np.isnan(chosen)]
        middle = float(np.median(known)) if len(known) else None
        found.append(Row(matrix, place, middle, int(late.sum())))
    return found


class HoursState(ListState, frozen=True):
    """State of the list, and of the time: selected window (-1: none), and how often halved."""

    window: int = -1
    zoom: int = 0


def _label_order(row: Row) -> Value:
    return row.place  # rows are in order of their labels


def _drawn(matrix: RankMinutes) -> tuple[I64, int]:
    """Return lags in ns, -1 where there is none, and where the last colour begins."""
    import numpy as np

    from ccltui.draw.alignment_chart import scale_top_ns

    lag_ns = np.where(np.isnan(matrix.lag_us), -1, matrix.lag_us * 1e3).astype(np.int64)
    return lag_ns, scale_top_ns(lag_ns[lag_ns >= USUAL_FLOOR_NS], USUAL_FLOOR_NS)


class HoursPane(FilePane[Row]):
    """Lag of ranks over hours."""

    name = NAME
    key = "^"
    title = "Hours"
    short_title = "Hours"
    about = (
        "Rows are ranks, columns time of day (UTC), from records of NCCL Inspector. Colour: median "
        "lag of the rank in a minute (ten seconds where the recording is short): how much later "
        "than the first rank it arrived at a collective, from execution times alone. A cell of "
        "several minutes shows the largest; a dot is on time, a blank cell has no collective that "
        "all members recorded. C chooses the kind of collective."
    )
    is_of_ranks = False
    opens_without_traces = False  # Overview has the finding
    has_bars = True
    names_kind = False  # the legend has it
    asks = HoursQuery  # type: ignore[assignment]
    noun = "rank"
    waiting = "records of NCCL Inspector are being read"
    nothing = "no records of NCCL Inspector here: docs/inspector.md explains how to record them"
    metric_name = "duration_lag"
    columns = (
        Column("rank", _label_order, text=lambda row, _: f"r{row.label}", align="left", width=6),
        Column("host", lambda row: row.host, align="left", from_width=_HOST_FROM),
        Column("lag", lambda row: row.lag_us, lambda us: numbers.duration(us * 1e3), width=8),
        Column(
            "late for",
            lambda row: row.late_s,
            lambda s: numbers.duration(s * 1e9) if s else "",
            width=8,
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self.own = OwnState[ListState](self.name, HoursState(sorting=self.first_order))

    def time(self, scene: Scene) -> HoursState:
        """Return what of the time is in view."""
        own = self.own.of(scene.state)
        assert isinstance(own, HoursState)
        return own

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason when there are no records."""
        return None if scene.session.has_hours else self.nothing

    def query(self, scene: Scene) -> HoursQuery | None:
        """Return the query for the records below the open path."""
        return None if scene.session.job is None else HoursQuery(scene.session.path)

    def matrices(self, scene: Scene) -> Sequence[RankMinutes] | None:
        """Return the matrices of all kinds, None while they are not known."""
        return scene.answers.latest(HoursQuery)

    def kinds(self, scene: Scene) -> Sequence[str]:
        """Return the kinds of collectives."""
        return tuple(one.kind for one in self.matrices(scene) or ())

    def matrix(self, scene: Scene) -> RankMinutes | None:
        """Return the matrix of the kind in view."""
        kind = self.kind(scene)
        return next((one for one in self.matrices(scene) or () if one.kind == kind), None)

    def found_rows(self, scene: Scene) -> Sequence[Row] | None:
        """Return the ranks of the kind in view, in order."""
        found = self.matrices(scene)
        if found is None:
            return None
        matrix = self.matrix(scene)
        return () if matrix is None else self.made_from("found", _rows, matrix)

    def words(self, row: Row) -> tuple[str]:
        """Return rank and host."""
        return (f"r{row.label} rank {row.label} {row.host}",)

    def ink(self, row: Row) -> Ink:
        """Return the style of ranks that are late, and of the others."""
        return Ink.STRONG if row.num_late else Ink.TEXT

    def draw_beside(self, planes: Planes, scene: Scene, page: Page[Row]) -> None:
        """Draw the hours of the ranks of a page."""
        from ccltui.draw.alignment_chart import HourCells, draw_hours

        matrix, cells = self.matrix(scene), planes.width - page.x - 1
        if matrix is None or cells < _LEAST_CELLS:
            return
        own, windows = self.time(scene), matrix.lag_us.shape[1]
        at = min(own.window, windows - 1)
        lag_ns, top_ns = self.made_from("drawn", _drawn, matrix)
        hours = draw_hours(
            lag_ns[[row.place for row in page.rows]],
            HourCells.of(windows, cells, zoom=own.zoom, at=at),
            width=cells,
            first_us=matrix.first_us,
            window_us=matrix.window_us,
            floor_ns=USUAL_FLOOR_NS,
            top_ns=top_ns,
            at=at,
            colour=scene.colour,
        )
        planes.paste(hours, page.y - 1, page.x)

    def remark(self, scene: Scene, *, narrow: bool) -> str:
        """Return the kind of collective in view."""
        kinds = self.kinds(scene)
        if not kinds:
            return ""
        place = f" ({kinds.index(self.kind(scene)) + 1}/{len(kinds)})" if len(kinds) > 1 else ""
        return f"{self.kind(scene)}{place}"

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return number of ranks, kind, and the colours of lag."""
        cell = " " if narrow else "  "
        ramp: Line = [(cell, HEAT + level * LEVELS + level) for level in range(1, LEVELS)]
        text = super().legend(scene, narrow=narrow)
        if not text or not scene.colour or narrow:
            return text
        return [*text, (f"lag {numbers.compact_duration(USUAL_FLOOR_NS)} ", Ink.TAB), *ramp]

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the lag of the selected rank in the selected window."""
        row, window = self.chosen(scene), self.time(scene).window
        if row is None:
            return [], []
        below: Line = [(" lag: later than the first rank, median of the window", Ink.DIM)]
        if window < 0:
            text = f" r{row.label}: a and d move along the hours, w and s zoom"
            return [(text, Ink.TEXT)], below
        window = min(window, row.matrix.lag_us.shape[1] - 1)
        begin = row.matrix.first_us + window * row.matrix.window_us
        when = datetime.datetime.fromtimestamp(begin // 10**6, datetime.UTC)
        lag = float(row.matrix.lag_us[row.place, window])
        known = "no matched collective" if math.isnan(lag) else f"lag {numbers.duration(lag * 1e3)}"
        late = ", late" if row.matrix.late[row.place, window] else ""
        return [(f" r{row.label} at {when:%Y-%m-%d %H:%M:%S} UTC: {known}{late}", Ink.TEXT)], below

    def moved(self, scene: Scene, *, cells: int = 0, zoom: int | None = None) -> ViewState:
        """Move the selected window by sixtieths of what is in view, or zoom by steps around it.

        ``zoom`` 0 shows the whole recording. The first move selects the middle.
        """
        from ccltui.draw.alignment_chart import span_of

        own, matrix = self.time(scene), self.matrix(scene)
        if matrix is None:
            return scene.state
        windows = matrix.lag_us.shape[1]
        at = own.window if own.window >= 0 else self._begin(scene, matrix)
        after = own.zoom if zoom is None else 0 if not zoom else own.zoom + zoom
        after = max(min(after, _MOST_ZOOM), 0)
        if after > own.zoom and span_of(windows, after) == span_of(windows, own.zoom):
            after = own.zoom
        step = max(span_of(windows, own.zoom) // _SIXTIETH, 1)
        window = max(min(at + cells * step, windows - 1), 0)
        return self.own.put(scene.state, replace(own, window=window, zoom=after))

    def _begin(self, scene: Scene, matrix: RankMinutes) -> int:
        """Return where the selected rank begins to be late, else the middle."""
        import numpy as np

        row = self.chosen(scene)
        windows: int = matrix.lag_us.shape[1]
        return int(np.argmax(matrix.late[row.place])) if row and row.num_late else windows // 2

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield each rank and window with a lag."""
        import numpy as np

        for row in self.rows(scene):
            lag = row.matrix.lag_us[row.place]
            for window in np.flatnonzero(~np.isnan(lag)).tolist():
                yield {
                    "kind": row.matrix.kind,
                    "rank": row.label,
                    "host": row.host,
                    "begin_us": row.matrix.first_us + window * row.matrix.window_us,
                    "lag_us": float(lag[window]),
                    "late": int(row.matrix.late[row.place, window]),
                }


HOURS: Final = HoursPane()


def move(cells: int) -> Callable[[Scene], ViewState]:
    """Return a move of the selected time by some sixtieths of what is in view."""
    return lambda scene: HOURS.moved(scene, cells=cells)


def zoom(step: int) -> Callable[[Scene], ViewState]:
    """Return a zoom at the selected time: 1 into it, -1 out of it, 0 to the whole recording."""
    return lambda scene: HOURS.moved(scene, zoom=step)


def why_not(scene: Scene) -> str | None:
    """Return the reason why there is no time to move along."""
    return pane_in_view(scene).why_no_rows(scene) if HOURS.matrix(scene) is None else None
