"""Bytes that collectives move, each collective counted once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.arrays.statistics import ratio
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.dimensions import DIMS
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.instances import Instances, instances_of, operations, require_sized_calls
from ccltui.metrics.view.provenance import call_answer

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import I8, Bool


@metric(
    unit="bytes",
    definition=(
        "Message bytes of all collectives as nccl-tests counts them; each collective counts "
        "once, no matter how many ranks recorded it."
    ),
    needs=("collectives with sizes",),
    facts=("pairs", "matches"),
    keys=(
        "total_message_bytes",
        "total_wire_bytes",
        "num_collectives",
        "message_bytes_per_step",
        "by_type",
        "by_dim",
        "by_group",
        "bytes_coverage",
        "num_unmatched",
    ),
    label="collective volume",
)
def collective_volume(view: View) -> Result:
    """Sum message and wire bytes by type, dimension and group."""
    require_sized_calls(view)
    every = instances_of(view)
    moving = every.take(every.counts_bytes)
    sized = int((moving.message_bytes >= 0).sum())
    if not sized:
        raise refuse("no_message_size", f"none of {len(moving)} collectives states its size")
    whole = _row(moving, np.ones(len(moving), np.bool_))
    steps = distinct_values(moving.step[moving.step >= 0])
    in_steps = _row(moving, moving.step >= 0)["message_bytes"]
    details: dict[str, Any] = {
        "total_message_bytes": whole["message_bytes"],
        "total_wire_bytes": whole["wire_bytes"],
        "num_collectives": len(every),
        "message_bytes_per_step": ratio(in_steps or 0, len(steps)),
        "by_type": _by(moving, moving.kind, TYPES),
        "by_dim": _by(moving, moving.dim, DIMS),
        "by_group": _by_group(view, moving),
        "bytes_coverage": ratio(sized, len(moving)),
        "num_unmatched": int(((moving.members == 1) & (moving.group_size > 1)).sum()),
    }
    return call_answer(
        collective_volume,
        view,
        details,
        basis={
            "message_bytes": "once a collective, the largest that a rank states",
            "wire_bytes": "what all ranks present send, by the cost of a ring",
            "selection": "a collective counts in the step and the window of its call on the "
            "lowest rank",
        },
        reasons=_unsized(sized, len(moving)),
    )


def _row(part: Instances, rows: Bool) -> dict[str, int | None]:
    """Calls and bytes of some rows; wire bytes are null where a sized call lacks them."""
    sized = rows & (part.message_bytes >= 0)
    wired = sized & (part.wire_bytes >= 0)
    return {
        "num_collectives": int(rows.sum()),
        "message_bytes": int(part.message_bytes[sized].sum()) if sized.any() else None,
        "wire_bytes": int(part.wire_bytes[wired].sum())
        if sized.any() and (wired == sized).all()
        else None,
    }


def _by(part: Instances, index: I8, names: Sequence[str]) -> dict[str, Any]:
    return {names[i]: _row(part, index == i) for i in distinct_values(index)}


def _by_group(view: View, moving: Instances) -> list[dict[str, Any]]:
    return [
        {
            "group": view.group_label(group),
            "type": TYPES[kind],
            **_row(moving.take(rows), np.ones(len(rows), np.bool_)),
        }
        for group, kind, rows in operations(moving)
    ]


def _unsized(sized: int, total: int) -> list[Reason]:
    if sized == total:
        return []
    text = f"{total - sized} of {total} collectives do not state their size"
    return [Reason("no_message_size", text)]


metric_cal = collective_volume.document_of
