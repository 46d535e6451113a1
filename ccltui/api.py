"""Open traces from a program: ``job = ccltui.open(DIR)``; see docs/python.md.

Everything here is public: a name is removed or changed only after a release that warns of it.
Metrics are computed when they are asked for, and give the results that the commands print.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, get_args

import numpy as np

from ccltui.export.tables import TABLES, Column, Text, arrow_table, events_of_rank
from ccltui.metrics import registry
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers import job as loading
from ccltui.parsers.columns import GROUPS, Group
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.parsers.window import Window
from ccltui.report import explanation, explanation_writers
from ccltui.report.explanation_writers import command_options, finding_html
from ccltui.report.json_document import TraceSummary

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ccltui.metrics.view.rank_view import RankView

__all__ = ["Finding", "Frame", "Job", "Rank", "Result", "open"]


def open(
    path: str | os.PathLike[str],
    *,
    profile_mode: Literal["auto", "torch", "nsys"] = "auto",
    capture: str | None = None,
    iteration: SupportsIndex | None = None,
    rank_map: Mapping[str | os.PathLike[str], SupportsIndex] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    jobs: SupportsIndex | None = None,
) -> Job:
    """Open a trace directory or one trace file, with every rank that can be read.

    Args:
        path: the directory or file.
        profile_mode: the traces to use: torch (Kineto), nsys, or auto.
        capture: name of the capture, where there are several.
        iteration: number N of the capture ``iteration_N``.
        rank_map: ranks of files that state none, by path.
        cache_dir: directory of the column cache; None is that of the commands.
        jobs: worker processes; None is one a CPU, at most 8. A script needs no ``__main__`` check.

    Raises:
        ccltui.parsers.errors.TraceError: the path does not exist, or holds recordings that are not
            ranks of one job and none is chosen. A directory without traces is a job of no ranks.
        TypeError, ValueError: an argument is of another type, or no possible value.
    """
    if profile_mode not in get_args(loading.ProfileMode):
        raise ValueError(f"profile_mode {profile_mode!r} is not auto, torch or nsys")
    directory, store = os.fspath(path), None if cache_dir is None else Path(cache_dir)
    processes = None if jobs is None else _whole(jobs, "jobs")
    if processes is not None and processes < 1:
        raise ValueError(f"jobs is {processes}; it has to be 1 or more")
    ranks = None if rank_map is None else _rank_map(rank_map)
    found = loading.start_job(
        directory,
        rank_map=ranks,
        iteration=None if iteration is None else _whole(iteration, "iteration"),
        capture=capture,
        profile_mode=profile_mode,
        store=default_cache_dir() if store is None else store,
    )
    if iteration is None and capture is None:
        loading.require_one_recording(found, directory)
    settings = loading.LoadSettings(store, processes, inline=True, for_other_processes=False)
    loaded = loading.load_job(found, settings)
    return Job(View(loaded, ViewOptions(profile_mode=profile_mode)), capture)


class Frame(Mapping[str, np.ndarray[Any, np.dtype[Any]]]):
    """A table: columns by name, each a numpy array, all of one length.

    Texts are arrays of objects with None where there is none; integers are -1 where nothing is
    recorded. The conversions have nulls in both places.
    """

    def __init__(
        self,
        parts: Iterable[Mapping[str, Column | Text]],
        columns: Mapping[str, tuple[str, str]],
    ) -> None:
        self._parts = tuple(parts)
        self._columns = columns

    def __getitem__(self, name: str) -> np.ndarray[Any, np.dtype[Any]]:
        kind, _ = self._columns[name]
        none = np.empty(0, object if kind == "text" else kind)
        return np.concatenate(
            [none, *(_plain(part[name]) for part in self._parts)], dtype=none.dtype
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Frame({self.num_rows} rows: {', '.join(self._columns)})"

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        first = next(iter(self._columns))
        return sum(len(_ids_or_values(part[first])) for part in self._parts)

    def to_arrow(self) -> pyarrow.Table:
        """Return a pyarrow table. Raises ImportError without pyarrow."""
        return arrow_table(self._columns, self._parts)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame. Raises ImportError without pandas or pyarrow."""
        import pandas as pd  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415

        # Floating point, the default for integers with nulls, would not hold times in ns.
        exact = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype()}
        return self.to_arrow().to_pandas(types_mapper=exact.get)

    def to_polars(self) -> polars.DataFrame:
        """Return a polars data frame. Raises ImportError without polars or pyarrow."""
        import polars as pl  # noqa: PLC0415

        found = pl.from_arrow(self.to_arrow())
        assert isinstance(found, pl.DataFrame)
        return found


def _ids_or_values(column: Column | Text) -> Column:
    return column.ids if isinstance(column, Text) else column


def _plain(column: Column | Text) -> Column:
    if not isinstance(column, Text):
        return column
    texts = np.array([*column.texts, None], object)  # the last serves the id -1
    return texts[np.maximum(column.ids, -1)]


class Rank:
    """One rank of a job: events as tables."""

    def __init__(self, view: View, rank: RankView) -> None:
        self._view = view
        self._rank = rank

    @property
    def label(self) -> str:
        """Label in every table: the number, or the file name where no rank is known."""
        return self._rank.label

    @property
    def rank(self) -> int | None:
        """Number of the rank, None where it is unknown."""
        return self._rank.rank

    @property
    def host(self) -> str:
        """Name of the host, "" where it is not recorded."""
        return self._rank.trace.host

    @property
    def kernels(self) -> Frame:
        """Work on the device: kernels, copies and fills."""
        return self.events("gpu")

    def events(self, group: Group) -> Frame:
        """Return the events of one group, for example "cpu_ops", in the window of the job.

        Raises:
            ValueError: there is no such group.
        """
        if group not in GROUPS:
            raise ValueError(f"no group {group!r}; there are {', '.join(GROUPS)}")
        return Frame(events_of_rank(self._view, self._rank, [group]), TABLES["events"].columns)

    def __repr__(self) -> str:
        return f"Rank({self.label!r})"


class Job:
    """All ranks of a job, or the part of it that `window` and `select` choose."""

    def __init__(self, view: View, capture: str | None = None) -> None:
        self._view = view
        self._capture = capture  # as it was asked for: part of the commands that claims name

    @property
    def path(self) -> str:
        """The path that was opened."""
        return self._view.job.path

    @property
    def world_size(self) -> int | None:
        """Number of ranks of the job, recorded or not; None where nothing states it."""
        return self._view.world_size

    @property
    def failures(self) -> tuple[tuple[str, str], ...]:
        """Path and reason of each file that could not be read."""
        return tuple((failure.path, failure.error) for failure in self._view.job.failures)

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """The ranks that are recorded and selected."""
        return tuple(Rank(self._view, rank) for rank in self._view.ranks)

    @property
    def events(self) -> Frame:
        """Every event of every rank; large."""
        return self._table("events")

    @property
    def collectives(self) -> Frame:
        """Matched collectives, one row a call and rank, with lag, wait and latest rank."""
        return self._table("collectives")

    @property
    def steps(self) -> Frame:
        """Steps of every rank."""
        return self._table("steps")

    def metric(self, name: str) -> Result:
        """Compute one metric. A metric that is unavailable has a result with the reason.

        Raises:
            KeyError: no metric has this name; the message lists similar ones.
        """
        return registry.find(name).run(self._view)

    def metrics(self) -> dict[str, Result]:
        """Compute all metrics, by name."""
        found = registry.metrics().values()
        return {metric.name: metric.run(self._view) for metric in found if metric.in_all}

    def explain(self, *, budget: SupportsIndex = explanation.BUDGET) -> Explanation:
        """Explain what slows the job down, as ``ccltui explain`` does."""
        results = {name: self.metric(name) for name in explanation.METRICS}
        summary = TraceSummary.of(self._view.job)
        options = command_options(self._view.options, self._capture)
        return Explanation(explanation.explain(summary, results, options), _whole(budget, "budget"))

    @property
    def findings(self) -> Findings:
        """What costs time, the largest first: the list of ``ccltui explain``."""
        rows = self.metric("findings").details.get("findings") or ()
        return Findings(Finding(row) for row in rows)

    def window(
        self,
        start_ns: SupportsIndex | float | None = None,
        end_ns: SupportsIndex | float | None = None,
    ) -> Job:
        """Return the job between two times, ns since its origin; None is no limit.

        Raises:
            ValueError: the start is after the end, or a time is no whole number.
        """
        start = None if start_ns is None else _whole(start_ns, "start_ns")
        end = None if end_ns is None else _whole(end_ns, "end_ns")
        if start is not None and end is not None and start > end:
            raise ValueError(f"the window starts at {start}, after its end at {end}")
        return Job(self._view.with_options(window=Window(start, end)), self._capture)

    def select(
        self,
        *,
        ranks: Iterable[SupportsIndex] | SupportsIndex | None = None,
        steps: Iterable[SupportsIndex] | SupportsIndex | None = None,
        group: str | None = None,
        overrides: Mapping[str, object] | None = None,
    ) -> Job:
        """Return the job restricted to ranks, steps (both included) and a process group.

        ``ranks`` is any collection of numbers, or one; ``steps`` the first and the last, or one.
        ``overrides`` replace fields of the workload card and set parameters of metrics, as
        ``--set`` does. What is None stays as it is.

        Raises:
            TypeError, ValueError: an argument is of another type, or no possible value.
        """
        changes: dict[str, object] = {
            "ranks": None if ranks is None else frozenset(_numbers(ranks, "ranks")),
            "steps": None if steps is None else _steps(steps),
            "group": group,
            "overrides": overrides,
        }
        given = {name: value for name, value in changes.items() if value is not None}
        return Job(self._view.with_options(**given), self._capture)

    def _table(self, name: str) -> Frame:
        table = TABLES[name]
        return Frame(table.parts(self._view), table.columns)

    def __repr__(self) -> str:
        return f"Job({self.path!r}, {len(self.ranks)} ranks)"


class Finding:
    """One cause of lost time; a notebook shows it with a bar of its share."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row

    @property
    def headline(self) -> str:
        """The finding as one sentence."""
        return str(self._row["text"])

    @property
    def details(self) -> Mapping[str, Any]:
        """All of it, as in the details of the metric ``findings``."""
        return self._row

    def _repr_html_(self) -> str:
        return finding_html(self._row)

    def __repr__(self) -> str:
        return f"Finding({self.headline!r})"


class Findings(tuple[Finding, ...]):
    """Findings of a job; a notebook, which shows the text of a plain tuple, shows each of them."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return "".join(one._repr_html_() for one in self)


class Explanation:
    """Explanation of a slow job, as Markdown text, as JSON, or as single claims."""

    def __init__(self, found: explanation.Explanation, budget: int) -> None:
        self._found = found
        self._budget = budget

    @property
    def headline(self) -> str:
        """The verdict as one sentence."""
        return self._found.headline

    @property
    def claims(self) -> tuple[explanation.Claim, ...]:
        """The statements, each with the metric and key that it comes from."""
        return self._found.claims

    def to_json(self) -> bytes:
        """Return the JSON document of ``ccltui explain --format json``."""
        return self._write("json")

    def __str__(self) -> str:
        return self._write("md").decode()

    def _write(self, kind: str) -> bytes:
        writer: Callable[[explanation.Explanation, int], bytes] = explanation_writers.WRITERS[kind]
        return writer(self._found, self._budget)


def _whole(value: SupportsIndex | float, name: str) -> int:
    """Return a whole number of Python, of numpy, or a float like 4e9; else raise with its name."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return int(value)
    try:
        return operator.index(value)  # type: ignore[arg-type]  # TypeError for what has no index
    except TypeError:
        error = ValueError if isinstance(value, float | np.floating) else TypeError
        raise error(f"{name}: {value!r} is not a whole number") from None


def _numbers(values: Iterable[SupportsIndex] | SupportsIndex, name: str) -> list[int]:
    """Return the numbers of a collection, or the one that was given. Raises TypeError."""
    if isinstance(values, str | bytes):  # each character of which would be a number
        raise TypeError(f"{name}: {values!r} is text; give numbers, as [0, 1, 2]")
    if isinstance(values, Iterable):
        return [_whole(one, name) for one in values]
    return [_whole(values, name)]


def _steps(values: Iterable[SupportsIndex] | SupportsIndex) -> tuple[int, int]:
    """Return the first and the last step. Raises TypeError and ValueError."""
    if isinstance(values, range) and values.step == 1 and values:
        return values[0], values[-1]
    steps = _numbers(values, "steps")
    if not 1 <= len(steps) <= 2 or steps[0] > steps[-1]:
        raise ValueError(f"steps: {values!r} is not the first and the last step, as (10, 20)")
    return steps[0], steps[-1]


def _rank_map(given: Mapping[str | os.PathLike[str], SupportsIndex]) -> dict[str, int]:
    """Return the ranks of files by path as text. Raises TypeError."""
    return {os.fspath(path): _whole(rank, "rank_map") for path, rank in given.items()}
