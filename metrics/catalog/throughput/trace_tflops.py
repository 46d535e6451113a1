"""FLOPS of the matrix products that a job computed, from the shapes in the traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Struct, field

from ccltui.metrics.arrays.reductions import distinct_values, unique_counts
from ccltui.metrics.arrays.statistics import ratio
from ccltui.metrics.device.product_rates import shapes_in
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import COMP, any_name
from ccltui.metrics.model.flops import CONVOLUTIONS, flops_of, is_product
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.overrides import positive_number
from ccltui.metrics.view.provenance import answer
from ccltui.metrics.workload.hardware import PEAK_OVERRIDE, peak_of
from ccltui.parsers.errors import TraceError, contained

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import I64, Bool
    from ccltui.parsers.format import Companion
    from ccltui.parsers.kineto.execution_trace import ExecutionTrace

_LISTED: Final = 20
Made = Counter[tuple[str, str]]
"""Calls by operator and JSON text of the shapes of its inputs."""


class Products(Struct):
    """Matrix products in the measured time of one rank."""

    flops: int = 0
    by_operator: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    uncounted: int = 0
    convolutions: int = 0
    window_ns: int = 0

    @property
    def num_counted(self) -> int:
        """Calls whose FLOPs are known."""
        return sum(self.calls.values())

    def add(self, made: Made) -> None:
        """Count calls; those with shapes that give no FLOPs add only to the number of calls."""
        for (name, shapes), calls in made.items():
            flops = flops_of(name, shapes_in(shapes))
            if flops is None:
                self.uncounted += calls
                continue
            self.flops += flops * calls
            self.by_operator[name] += flops * calls
            self.calls[name] += calls


@metric(
    unit="TFLOPS",
    definition=(
        "FLOPs of the matrix products that operators issued, from the shapes of their inputs, "
        "divided by the measured time of the ranks: what one device computed, including "
        "recomputation."
    ),
    needs=("operators with shapes (record_shapes=True), or an execution trace",),
    facts=("sums",),
    keys=(
        "trace_tflops",
        "total_flops",
        "of_peak_pct",
        "peak_tflops_per_gpu",
        "by_operator",
        "num_products",
        "num_without_flops",
        "num_convolutions",
        "per_rank",
    ),
    label="FLOPS of matrix products",
    higher_is_better=True,
    parameters={PEAK_OVERRIDE: "dense peak of one device in the model's precision, TFLOPS"},
)
def trace_tflops(view: View) -> Result:
    """FLOPs of all products over the measured time of all ranks."""
    products = {rank.label: _products_of(view, rank) for rank in view.ranks}
    measured = {label: one for label, one in products.items() if one is not None and one.window_ns}
    if not measured:
        raise refuse(
            "not_applicable",
            "no matrix product with shapes in the measured time: neither record_shapes=True nor "
            "an execution trace shows what was computed",
        )
    idle = [
        _only_issued(rank, measured[rank.label]) for rank in view.ranks if rank.label in measured
    ]
    captured = {reason.rank: reason for reason in idle if reason is not None}
    known = {label: one for label, one in measured.items() if label not in captured}
    if not known:
        raise Refusal(*captured.values())
    total = sum(one.flops for one in known.values())
    window = sum(one.window_ns for one in known.values())
    tflops = ratio(total, window * 1000)
    calls = sum((one.calls for one in known.values()), Counter[str]())
    uncounted = sum(one.uncounted for one in known.values())
    convolutions = sum(one.convolutions for one in known.values())
    peak = _peak(view)
    details: dict[str, Any] = {
        "trace_tflops": tflops,
        "total_flops": total,
        "of_peak_pct": None if peak is None or tflops is None else 100 * tflops / peak,
        "peak_tflops_per_gpu": peak,
        "by_operator": _rows(known, calls, total),
        "num_products": sum(calls.values()),
        "num_without_flops": uncounted,
        "num_convolutions": convolutions,
        "per_rank": {label: ratio(one.flops, one.window_ns * 1000) for label, one in known.items()},
    }
    return answer(
        trace_tflops,
        view,
        details,
        source="cpu_op",
        basis={
            "flops": "of matrix products and attention that operators issued, recomputation "
            "included; two for each pair of numbers, no half for a causal mask; convolutions and "
            "products of generated or replayed kernels are not counted",
            "time": "the measured time of the ranks that tell shapes",
        },
        reasons=[
            *(
                Reason("not_applicable", f"rank {label} records no shapes", rank=label)
                for label in products
                if label not in measured
            ),
            *captured.values(),
            *_lower_bound(convolutions),
            *_above_peak(tflops, peak),
        ],
    )


def _only_issued(rank: RankView, products: Products) -> Reason | None:
    """Reason why the products of a rank were not computed: each takes at least one kernel.

    A trace may lack some of its kernels, as down-sampled ones do, but not most of them.
    """
    if not rank.facts.has_kernels:
        return None
    kernels = rank.device_sums().started[COMP]
    if products.num_counted <= 2 * kernels:
        return None
    text = (
        f"rank {rank.label}: {products.num_counted} products were issued, and computing kernels "
        f"ran {kernels} times: operators that a graph captures compute nothing"
    )
    return Reason("not_applicable", text, rank=rank.label)


def _lower_bound(convolutions: int) -> list[Reason]:
    if not convolutions:
        return []
    text = f"{convolutions} convolutions are not counted: this is a lower bound"
    return [Reason("not_applicable", text)]


def _above_peak(tflops: float | None, peak: float | None) -> list[Reason]:
    if tflops is None or peak is None or tflops <= peak:
        return []
    text = f"{tflops:.4g} TFLOPS are more than the peak of {peak:g}: not all of it can have run"
    return [Reason("not_applicable", text)]


def _products_of(view: View, rank: RankView) -> Products | None:
    """Products of a rank: Kineto's operators, else those of its execution trace."""
    made = _recorded(rank)
    if made is None:
        execution = _execution_trace(view, rank)
        made = None if execution is None else _executed(rank, execution)
    if made is None:
        return None
    found = Products(window_ns=rank.window_ns, convolutions=_convolutions(rank))
    found.add(made)
    return found


def _recorded(rank: RankView) -> Made | None:
    """Products among the operators of the selection; None where no shapes were recorded."""
    events = rank.trace.group("cpu_ops")
    if not len(events.shapes):
        return None
    named = distinct_values(events.name[events.shapes >= 0])
    products = [code for code in named.tolist() if is_product(rank.trace.text(code))]
    if not products:
        return None
    rows = np.flatnonzero((events.shapes >= 0) & np.isin(events.name, products))
    rows = rows[rank.contains(events.start_ns[rows])]
    if rank.by_steps:
        rows = rows[_in_steps(rank, rows)]
    code = events.name[rows].astype(np.int64) * len(rank.trace.strings) + events.shapes[rows]
    pairs, counts = unique_counts(code)
    return Counter(
        {
            (rank.trace.text(pair // len(rank.trace.strings)), _text(rank, pair)): count
            for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True)
        }
    )


def _convolutions(rank: RankView) -> int:
    """Convolutions that operators of the selection issued."""
    events, strings = rank.trace.group("cpu_ops"), rank.trace.strings
    names = [found for name in CONVOLUTIONS if (found := strings.find(name)) >= 0]
    if not names:
        return 0
    rows = np.flatnonzero(any_name(strings, events.name, names))
    rows = rows[rank.contains(events.start_ns[rows])]
    return int(_in_steps(rank, rows).sum()) if rank.by_steps else len(rows)


def _text(rank: RankView, pair: int) -> str:
    return rank.trace.text(pair % len(rank.trace.strings))


def _in_steps(rank: RankView, rows: I64) -> Bool:
    """Mask of the operators of the selection that ran inside a marker; others are not measured.

    Any marker counts: a window may begin in the middle of a step, which is measured from there on.
    """
    starts = rank.trace.group("cpu_ops").start_ns[rows]
    inside = np.zeros(len(rows), np.bool_)
    for step in rank.facts.marked_steps[0]:
        inside |= (starts >= step.start_ns) & (starts < step.end_ns)
    return inside


def _companions(view: View) -> Mapping[str, Companion]:
    """Execution trace of each file that has one, by path; the first of two with one path."""
    files = [file for file in view.job.capture.files if file.companion is not None]
    return {file.path: file.companion for file in reversed(files) if file.companion is not None}


def _execution_trace(view: View, rank: RankView) -> ExecutionTrace | None:
    companion = view.remember(_companions, lambda: _companions(view)).get(rank.trace.source.path)
    if companion is None:
        return None
    from ccltui.parsers.kineto.execution_trace import read_execution_trace  # noqa: PLC0415 - few have any

    try:
        with contained(companion.path):
            return read_execution_trace(Path(companion.real_path), shown=companion.path)
    except TraceError:
        return None


def _executed(rank: RankView, execution: ExecutionTrace) -> Made | None:
    """Products of the selected steps by number; of all where nothing is selected or marked."""
    if not execution.products or not rank.selection.is_whole:
        return None
    if not rank.by_steps or not execution.steps:
        return None if rank.by_steps or execution.steps else _made(execution, None)
    return _made(execution, {step.id for step in rank.steps})


def _made(execution: ExecutionTrace, steps: set[int] | None) -> Made:
    """Products by step: operators are numbered by start, so those of a step follow its marker."""
    begins = np.array([step.record_id for step in execution.steps], np.int64)
    found: Made = Counter()
    for one in execution.products:
        at = int(np.searchsorted(begins, one.record_id)) - 1
        inside = at >= 0 and steps is not None and execution.steps[at].number in steps
        if steps is None or inside:
            found[one.name, msgspec.json.encode(one.shapes).decode()] += 1
    return found


def _peak(view: View) -> float | None:
    """Peak of a device, None where unknown; an invalid override is refused."""
    given = positive_number(view, PEAK_OVERRIDE)
    try:
        return peak_of(view).tflops if given is None else given
    except Refusal:
        return None


def _rows(known: dict[str, Products], calls: Counter[str], total: int) -> list[dict[str, Any]]:
    flops = sum((one.by_operator for one in known.values()), Counter[str]())
    return [
        {"name": name, "calls": calls[name], "flops": number, "share": ratio(number, total)}
        for name, number in sorted(flops.items(), key=lambda item: (-item[1], item[0]))[:_LISTED]
    ]


metric_cal = trace_tflops.document_of
