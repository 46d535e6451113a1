"""How late each rank is in each window of time, by kind of collective: a matrix to be drawn."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.parsers.array_types import F32, Bool
from ccltui.parsers.names import natural_key

if TYPE_CHECKING:
    from ccltui.metrics.inspector.rolled_job import Group, RolledJob

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
