"""The JSON form of tables of device work: rows by descending time, and the sum of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.statistics import microseconds, milliseconds, ratio
from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import Refusal

if TYPE_CHECKING:
    from ccltui.metrics.device.work_pivot import PivotRow
    from ccltui.metrics.view.rank_view import RankView

MOST_ROWS: Final = 200
"""Rows in a document; the others are summed."""

COLUMNS_BASIS: Final[Mapping[str, str]] = {
    "total_ms": "summed durations inside the measured time, over all ranks",
    "mean_us": "total over calls; median, p95 (nearest rank) and max of the calls that begin in "
    "the measured time",
    "exposed_ms": "the part of the total that work of another kind does not hide: communication "
    "outside computation, computation outside communication, copies outside kernels",
    "imbalance_ratio": "largest total of a rank over the mean of the ranks with a device",
}


def table(
    rows: Sequence[PivotRow],
    ranks: Sequence[RankView],
    described: Callable[[PivotRow], Mapping[str, Any]],
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rows with the most time, and the sum of the others.

    Args:
        rows: all rows, the most time first.
        ranks: the ranks that they are measured on.
        described: returns the first cells of a row, which name it.
    """
    total = total_ns(rows)
    shown = [_cells(row, total, len(ranks), described(row)) for row in rows[:MOST_ROWS]]
    rest = rows[MOST_ROWS:]
    other = {
        "num_rows": len(rest),
        "calls": sum(row.calls for row in rest),
        "total_ms": milliseconds(total_ns(rest)),
        "exposed_ms": milliseconds(sum(row.exposed_ns for row in rest)),
        "share": ratio(total_ns(rest), total),
    }
    return shown, other


def total_ns(rows: Sequence[PivotRow]) -> int:
    """Return the time of all rows."""
    return sum(row.total_ns for row in rows)


def attributed_share(rows: Sequence[PivotRow]) -> float | None:
    """Return the share of the time that belongs to a key that was recorded."""
    return ratio(total_ns([row for row in rows if row.key[0] is not None]), total_ns(rows))


def _cells(
    row: PivotRow, total: int, num_ranks: int, described: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        **described,
        "calls": row.calls,
        "total_ms": milliseconds(row.total_ns),
        "share": ratio(row.total_ns, total),
        "mean_us": _us(row.mean_ns),
        "median_us": _us(row.median_ns),
        "p95_us": _us(row.p95_ns),
        "max_us": _us(row.max_ns),
        "exposed_ms": milliseconds(row.exposed_ns),
        "imbalance_ratio": row.imbalance(num_ranks),
        "num_ranks": len(row.per_rank_ns),
    }


def _us(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else microseconds(nanoseconds)


def with_launches(
    ranks: Sequence[RankView], has: Callable[[RankView], bool], what: str
) -> tuple[list[RankView], list[Reason]]:
    """Return the ranks whose device work can be traced to the host, and why others cannot.

    Args:
        ranks: ranks with kernels.
        has: whether a rank has what work is attributed to.
        what: that, for the reasons: "operator".

    Raises:
        Refusal: there is no such rank.
    """
    reasons = [reason for rank in ranks if (reason := _missing(rank, has, what)) is not None]
    lacking = {reason.rank for reason in reasons}
    known = [rank for rank in ranks if rank.label not in lacking]
    if not known:
        raise Refusal(*reasons)
    return known, reasons


def _missing(rank: RankView, has: Callable[[RankView], bool], what: str) -> Reason | None:
    if not has(rank):
        text = f"rank {rank.label}: no {what} was recorded"
    elif (
        not (rank.facts.launch_row >= 0).any()
        and not (rank.trace.group("gpu").external_id >= 0).any()
    ):
        text = f"rank {rank.label}: no launch record links device work to the host"
    else:
        return None
    return Reason("not_applicable", text, rank=rank.label)
