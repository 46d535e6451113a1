"""Records of NCCL Inspector of a job, summed up by minute: what days of operation are asked for.

A day of 64 ranks is 50 million records, which take 20 seconds to match; their sums are 20 MB, which
are kept in the store and mapped. Medians and percentiles are exact: they are of the records
themselves, not of a sketch. What cannot be added up from minutes is here too: the median of a
rank over all its late windows, and that of a group over all time.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.parsers.array_types import F32, I64, Bool
from ccltui.parsers.inspector.record_columns import Communicator
from ccltui.parsers.safe_text import natural_key

if TYPE_CHECKING:
    from ccltui.parsers.inspector.record_columns import Columns

EVERY: Final = "all collectives"
_MOST_CELLS: Final = 20_000
"""Windows of a matrix: two weeks of minutes. Longer recordings have several windows in one."""


class RankMinutes(Struct, frozen=True):
    """Lag of ranks over time, of one kind of collective.

    Attributes:
        kind: Type of operation and name of the communicators; `EVERY` for all of them, of which a
            rank has the largest lag of any kind.
        labels: Rank of each row: its rank in the job, else host and process.
        hosts: Host of each row.
        lag_us: Median lag, ranks × windows; NaN where a rank has no matched collective.
        late: Where the rank is late by the rule of `duration_lag`.
        first_us: When the first window begins, µs since the epoch.
        window_us: Length of a window.
    """

    kind: str
    labels: tuple[str, ...]
    hosts: tuple[str, ...]
    lag_us: F32
    late: Bool
    first_us: int
    window_us: int


def rank_minutes(job: RolledJob) -> list[RankMinutes]:
    """Return a matrix for all collectives, and one for each kind where there are several.

    A kind is a type of operation of communicators of one name, as each rank is in one of them;
    communicators without a name are of one kind where they have equally many ranks.
    """
    found: dict[str, list[int]] = defaultdict(list)
    for number, group in enumerate(job.facts.groups):
        if group.lags:
            found[_kind(group)].append(number)
    every = [number for numbers in found.values() for number in numbers]
    if not every:
        return []
    kinds = found if len(found) > 1 else {}
    return [_matrix(job, EVERY, every), *(_matrix(job, *one) for one in kinds.items())]


def _kind(group: Group) -> str:
    name = group.communicator.name or f"{group.communicator.n_ranks} ranks"
    return f"{group.operation} of {name}"


def _matrix(job: RolledJob, kind: str, numbers: list[int]) -> RankMinutes:
    hosts: dict[str, str] = {}
    for number in numbers:
        group = job.facts.groups[number]
        hosts |= dict(zip(group.labels, group.hosts, strict=True))
    labels = sorted(hosts, key=natural_key)
    rows = {label: row for row, label in enumerate(labels)}
    span = (job.facts.last_us - job.facts.first_us) // job.window_us + 1
    joined = -(-span // _MOST_CELLS)
    shape = len(labels), -(-span // joined)
    lag, late = np.full(shape, np.nan, np.float32), np.zeros(shape, np.bool_)
    for number in numbers:
        group = job.facts.groups[number]
        for member, (label, one) in enumerate(zip(group.labels, group.lags, strict=True)):
            chosen = job.rows("lag", number, member)
            window = job.lag("window")[chosen] // joined
            np.fmax.at(lag[rows[label]], window, job.lag("p50_us")[chosen].astype(np.float32))
            late[rows[label], np.array(one.late_windows, np.int64) // joined] = True
    return RankMinutes(
        kind,
        tuple(labels),
        tuple(hosts[label] for label in labels),
        lag,
        late,
        job.facts.first_us,
        job.window_us * joined,
    )


MINUTE_US: Final = 60_000_000
_SHORT_US: Final = 10 * MINUTE_US
_SHORT_WINDOW_US: Final = 10_000_000
"""Recordings below ten minutes are told apart by ten seconds: a minute would hide the onset."""
LEAST_LAG_US: Final = 100
"""Launches of kernels differ by tens of µs between ranks that do the same."""
LEAST_SHARE: Final = 0.2
"""Of the transfer, whose own time varies by a tenth between instances."""
ROOTED: Final = frozenset(("Broadcast", "Reduce", "Gather", "Scatter"))
"""Operations with a root. Who only sends may leave before others arrive: a short execution of such
an operation is no lateness."""
LAG_COLUMNS: Final = (
    "group", "member", "window", "count", "sum_us", "p50_us", "p95_us", "p99_us", "max_us",
)  # fmt: skip
"""A row for each group, member and window: lags of complete instances, in order of these."""
RATE_COLUMNS: Final = ("group", "size_class", "window", "count", "bytes", "busbw_gbs")
"""A row for each group, size class (a power of two) and window."""


class MemberLag(Struct, frozen=True):
    """How late a member of a group arrives.

    Attributes:
        lag_ms: Median lag over the windows where it is late, else over all.
        instances: Number of collectives in these windows.
        late_windows: Numbers of the windows where it is late; empty where it is not late.
        waited_us: Time that the other members together wait in these windows for instances at
            which this one is the last; 0 where it is not late.
    """

    lag_ms: float
    instances: int
    late_windows: tuple[int, ...] = ()
    waited_us: int = 0


class SizeRate(Struct, frozen=True):
    """Median bus bandwidth of a group over all time, of messages of one size class.

    ``transfer_us`` is the sum of the shortest executions of its instances, ``thirds`` are the
    medians of the first, second and last third of them; one median where there are few.
    """

    size_class: int
    instances: int
    busbw_gbs: float
    transfer_us: int
    thirds: tuple[float, ...] = ()


class Group(Struct, frozen=True):
    """One type of operation of one communicator whose members have all left records.

    Attributes:
        communicator: The communicator.
        operation: AllReduce, AllGather, ….
        labels: Rank of each member: its rank in the job, else host and process.
        hosts: Host of each member.
        seen: Number of instances that any member recorded.
        complete: Number of those that all members recorded with one size.
        numbered: Number of instances from the first recorded number to the last.
        waited_us: What all members together wait for the last one, at all complete instances; 0 of
            an operation with a root.
        lags: Of each member; empty without instances, and of an operation with a root.
        rates: By size class.
    """

    communicator: Communicator
    operation: str
    labels: tuple[str, ...]
    hosts: tuple[str, ...]
    seen: int
    complete: int
    numbered: int
    waited_us: int = 0
    lags: tuple[MemberLag, ...] = ()
    rates: tuple[SizeRate, ...] = ()

    @property
    def name(self) -> str:
        """Name of the communicator, its hash where it has none."""
        return self.communicator.name or self.communicator.id


class SeriesCount(Struct, frozen=True):
    """Records of one rank, communicator and type.

    Numbers are sequence numbers; ``median_us`` is the median execution, waiting included.
    """

    label: str
    communicator: str
    n_ranks: int
    operation: str
    records: int
    first_number: int
    last_number: int
    median_us: float


class RolledFacts(Struct, frozen=True):
    """What is known of a job besides the tables.

    Attributes:
        paths: The files that were read.
        groups: Groups, in order of communicator and type.
        series: Collectives by rank, communicator and type.
        dropped: Collectives that writers state as dropped, None where none states it.
        first_us: When the first record was written, µs since the epoch.
        last_us: When the last record was written.
        interval_us: Time from the first dump to the second, 0 where there is one only.
        num_records: Records in all files.
        unread: Files, lines and communicators that are left out, each with the reason.
    """

    paths: tuple[str, ...]
    groups: tuple[Group, ...]
    series: tuple[SeriesCount, ...]
    dropped: int | None
    first_us: int
    last_us: int
    interval_us: int
    num_records: int
    unread: tuple[str, ...]

    @property
    def num_ranks(self) -> int:
        """Number of ranks that recorded a collective."""
        return len({one.label for one in self.series})

    @property
    def recorded_s(self) -> float | None:
        """Seconds that the records are of; None where all were written at one moment.

        The first dump is of the operations before it, for as long as until the second.
        """
        between = self.last_us - self.first_us
        return (between + self.interval_us) / 1e6 if self.interval_us else None


class RolledJob(Struct, frozen=True):
    """Records of a job by minute: facts, and columns ``lag/…`` and ``rate/…``."""

    facts: RolledFacts
    columns: Columns

    @property
    def window_us(self) -> int:
        """Length of the windows over time."""
        return window_length_us(self.facts.first_us, self.facts.last_us)

    def lag(self, name: str) -> npt.NDArray[Any]:
        """Return one of `LAG_COLUMNS`, a value for each group, member and window."""
        return self.columns.array(f"lag/{name}")

    def rate(self, name: str) -> npt.NDArray[Any]:
        """Return one of `RATE_COLUMNS`, a value for each group, size class and window."""
        return self.columns.array(f"rate/{name}")

    def rows(self, table: str, *values: int) -> slice:
        """Return the rows of a table ("lag" or "rate") whose first columns have these values."""
        names = LAG_COLUMNS if table == "lag" else RATE_COLUMNS
        begin, end = 0, len(self.columns.array(f"{table}/{names[0]}"))
        for name, value in zip(names, values, strict=False):
            column = self.columns.array(f"{table}/{name}")[begin:end]
            left, right = np.searchsorted(column, (value, value + 1)).tolist()
            begin, end = begin + left, begin + right
        return slice(begin, end)


def window_length_us(first_us: int, last_us: int) -> int:
    """Return the length of the windows that a recording is summed up by."""
    return _SHORT_WINDOW_US if last_us - first_us < _SHORT_US else MINUTE_US


def tables_of(
    lag: list[tuple[npt.NDArray[Any] | int, ...]], rate: list[tuple[npt.NDArray[Any] | int, ...]]
) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of both tables, of pieces whose first column is of equal length."""
    found: dict[str, npt.NDArray[Any]] = {}
    for table, names, pieces in (("lag", LAG_COLUMNS, lag), ("rate", RATE_COLUMNS, rate)):
        lengths = [len(_array(piece[-1])) for piece in pieces]
        for place, name in enumerate(names):
            columns = [
                np.full(length, piece[place]) if isinstance(piece[place], int) else piece[place]
                for piece, length in zip(pieces, lengths, strict=True)
            ]
            found[f"{table}/{name}"] = _compact(columns)
    return found


def _array(values: npt.NDArray[Any] | int) -> npt.NDArray[Any]:
    return np.atleast_1d(np.asarray(values))


def _compact(columns: list[Any]) -> npt.NDArray[Any]:
    """Join the pieces of a column; whole numbers take four bytes where they fit."""
    joined: npt.NDArray[Any] = np.concatenate(columns) if columns else np.empty(0, np.int64)
    if joined.dtype.kind == "f" or not len(joined):
        return joined
    whole: I64 = joined.astype(np.int64)
    fits = abs(int(whole.min())) < 1 << 31 and int(whole.max()) < 1 << 31
    return whole.astype(np.int32) if fits else whole
