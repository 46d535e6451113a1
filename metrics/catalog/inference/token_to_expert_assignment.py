"""Distribution of tokens over experts, or over the ranks that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.statistics import KEYS, balance
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import call_answer, require_traces, side_answer
from ccltui.metrics.workload.expert_exchange import Exchange, exchange_of, matrix
from ccltui.parsers.array_types import F64
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.side import EXPERT_STATS

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.side.result_files import ExpertLoad


EXPERTS_OVERRIDE: Final = "num_experts"


@metric(
    unit="ratio",
    definition=(
        "Load of the busiest expert divided by the mean load, from side files that count tokens "
        "per expert; without them, the same for the ranks that hold experts, from the splits of "
        "all-to-alls."
    ),
    needs=("expert-load side files, or all-to-alls with splits between known ranks",),
    facts=("named_calls",),
    keys=(
        *KEYS,
        "per_expert",
        "per_device",
        "total_tokens",
        "num_experts",
        "per_layer",
        "per_step",
        "matrix",
        "granularity",
    ),
    headline="load_factor",
    label="expert load",
    higher_is_better=False,
    category="experts",
    needs_traces=False,
    parameters={
        EXPERTS_OVERRIDE: "experts of a layer: needed to know whether ranks count all of them"
    },
)
def token_to_expert_assignment(view: View) -> Result:
    """Load by expert from side files, otherwise load by rank from all-to-alls."""
    if view.card.value("moe") in (False, "false", "False"):
        raise refuse(
            "not_applicable", "according to the card the model is not a mixture of experts"
        )
    loads, names, reasons = _read(view)
    if loads:
        return _from_files(view, loads, names, reasons)
    if view.job.ranks:
        require_traces(view)
        exchange = exchange_of(view)
        if exchange.sent:
            return _from_exchange(view, exchange, reasons)
        unread = exchange.unread
    else:
        unread = 0
        if not view.job.discovery.files:
            require_traces(view)
    raise _nothing(unread, reasons)


def _nothing(unread: int, reasons: Sequence[Reason]) -> Exception:
    text = (
        "no side file contains loads of experts, and no all-to-all between ranks records its splits"
    )
    if unread:
        text += f" ({unread} all-to-alls have equal or cut splits)"
    for reason in reasons:
        text += f"; {reason.message}"
    return refuse("no_side_file", text)


def _read(view: View) -> tuple[list[ExpertLoad], list[str], list[Reason]]:
    """Loads of the most detailed shape, the files they come from, and the unreadable files."""
    from ccltui.parsers.side.result_files import SHAPES, read_expert_load  # noqa: PLC0415 - few have any

    found: list[tuple[str, ExpertLoad]] = []
    reasons = []
    for file in view.job.discovery.files_of(EXPERT_STATS):
        try:
            with contained(file.path):
                parts = read_expert_load(Path(file.real_path), shown=file.path, rank=file.rank)
        except TraceError as error:
            reasons.append(Reason("no_side_file", str(error), file=file.path))
            continue
        found += [(file.path, part) for part in parts]
    best = next((shape for shape in SHAPES if any(p.shape == shape for _, p in found)), None)
    chosen = [(path, part) for path, part in found if part.shape == best]
    return [part for _, part in chosen], list(dict.fromkeys(path for path, _ in chosen)), reasons


def _from_files(
    view: View, loads: list[ExpertLoad], names: list[str], reasons: list[Reason]
) -> Result:
    merged, how, warnings = _merged(view, loads)
    whole = bool((merged == np.rint(merged)).all())
    details: dict[str, Any] = {
        **balance(merged),
        "per_expert": _plain(merged),
        "per_device": _per_device(loads),
        "total_tokens": int(merged.sum()) if whole and merged.sum() > 1 else None,
        "num_experts": len(merged),
        "per_layer": _per_layer(loads, how),
        "per_step": _per_step(loads, how),
        "matrix": None,
        "granularity": "expert",
    }
    if details["load_factor"] is None:
        raise refuse("not_applicable", f"no expert got any token: {', '.join(names)}")
    basis = {"window": "side file", "shape": loads[0].shape, "files": how}
    return side_answer(
        token_to_expert_assignment,
        view,
        details,
        files=names,
        basis=basis,
        reasons=reasons,
        warnings=warnings,
    )


def _merged(view: View, loads: list[ExpertLoad]) -> tuple[F64, str, list[str]]:
    """The loads of all experts from all files, and how the files were put together."""
    totals = [load.total for load in sorted(loads, key=lambda load: (load.rank is None, load.rank))]
    if len(totals) == 1:
        return totals[0], "one file", []
    lengths = {len(total) for total in totals}
    experts = view.card.count(EXPERTS_OVERRIDE)
    parts = sum(len(total) for total in totals)
    if len(lengths) > 1 or (experts is not None and lengths != {experts} and parts == experts):
        return np.concatenate(totals), "one after the other: every rank counts its own experts", []
    if all(np.array_equal(total, totals[0]) for total in totals):
        text = f"{len(totals)} files tell the same loads, as ranks do that see the same tokens"
        return totals[0], "equal: counted once", [f"{text}: they are counted once"]
    return np.sum(totals, axis=0), "added up: every rank counts its own tokens", []


def _plain(loads: F64) -> list[float | int]:
    return [int(load) if load == int(load) else load for load in loads.tolist()]


def _per_device(loads: Sequence[ExpertLoad]) -> dict[str, float | int] | None:
    """Tokens by rank, where every file belongs to another rank."""
    ranks = [load.rank for load in loads]
    if None in ranks or len(set(ranks)) != len(ranks) or len(ranks) < 2:
        return None
    sums = {str(load.rank): _plain(np.array([load.total.sum()]))[0] for load in loads}
    return dict(sorted(sums.items(), key=lambda item: int(item[0])))


def _per_layer(loads: Sequence[ExpertLoad], how: str) -> dict[str, Any] | None:
    names = list(dict.fromkeys(name for load in loads for name in load.layers))
    if not names or how.startswith("one after"):
        return None
    parts = loads[:1] if how.startswith("equal") else loads
    return {
        name: balance(np.sum([p.layers[name] for p in parts if name in p.layers], axis=0))
        for name in names
    }


def _per_step(loads: Sequence[ExpertLoad], how: str) -> list[dict[str, Any]] | None:
    tables = [load.steps for load in loads if load.steps is not None]
    if not tables or len({table.shape for table in tables}) > 1:
        return None
    table = tables[0] if how.startswith("equal") else np.sum(tables, axis=0)
    return [{"step": step, **balance(row)} for step, row in enumerate(table)]


def _from_exchange(view: View, exchange: Exchange, reasons: list[Reason]) -> Result:
    """Loads of the ranks that hold experts, in tokens where the width of a row is known."""
    received = exchange.received()
    rows, unit = _in_tokens(view, exchange)
    loads = {str(rank): load / rows for rank, load in received.items()}
    details: dict[str, Any] = {
        **balance(list(loads.values())),
        "per_expert": None,
        "per_device": {rank: int(n) if n == int(n) else n for rank, n in loads.items()},
        "total_tokens": round(sum(loads.values())) if unit == "tokens" else None,
        "num_experts": None,
        "per_layer": None,
        "per_step": None,
        "matrix": matrix(exchange),
        "granularity": "ep_rank",
    }
    unread = f"{exchange.unread} all-to-alls have equal or cut splits and are left out"
    return call_answer(
        token_to_expert_assignment,
        view,
        details,
        basis={
            "unit": unit,
            "calls": "every second one, which sends tokens to experts"
            if exchange.alternates
            else "all: it is not known which of them send and which return",
            "num_calls": str(exchange.calls),
        },
        reasons=reasons,
        warnings=[unread] if exchange.unread else [],
    )


def _in_tokens(view: View, exchange: Exchange) -> tuple[float, str]:
    """Divisor that converts splits to tokens, and the resulting unit."""
    if exchange.width is not None and exchange.width > 1:
        return 1.0, "tokens"  # the splits count rows of that many elements
    hidden = _hidden_size(view)
    if exchange.width == 1 and hidden is not None:
        return float(hidden), "tokens"
    return 1.0, "elements"


def _hidden_size(view: View) -> int | None:
    card = view.card
    stated = card.count("hidden_size")
    if stated is None and card.card is not None:
        stated = card.card.count("hidden_size")
    heads, width = card.count("num_heads"), card.count("head_dim")
    if stated is None and heads is not None and width is not None:
        return heads * width
    return stated


metric_cal = token_to_expert_assignment.document_of
