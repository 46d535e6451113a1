"""Sections about the whole job: verdict, parts of a step, dimensions, kernels, distributions."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.result import Result
from ccltui.report.explanation import Explanation
from ccltui.report.overview_text import part_name
from ccltui.report.page.page_parts import (
    Block,
    Cell,
    Column,
    Line,
    Lines,
    Number,
    Picture,
    Section,
    Source,
    Style,
    Swatch,
    Table,
    listed_lines,
    pointer,
    why_absent,
)
from ccltui.report.page.pictures import Share, ecdf_picture, step_bar

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


_GROUPS: Final = {
    "step": "The step",
    "ranks": "The ranks",
    "evidence": "Evidence",
    "trust": "How far to trust it",
}


def verdict_section(explanation: Explanation) -> Section:
    """Return the text of ``ccltui explain``, each statement with its metric and key."""
    blocks: list[Block] = [Line(explanation.headline, is_lead=True)]
    if explanation.findings:
        blocks.append(Lines([*starmap(_finding_line, enumerate(explanation.findings))], "Findings"))
    for about, title in _GROUPS.items():
        lines = [
            Line(claim.text, Number(claim.value, claim.metric, pointer(*_keys(claim.key))))
            for claim in explanation.claims
            if claim.about == about
        ]
        if lines:
            blocks.append(Lines(lines, title))
    for title, texts in (
        ("What to do", explanation.actions),
        ("Not known, and how to find out", explanation.unknown),
        ("Ruled out", explanation.ruled_out),
        ("Missing, or known in part", explanation.missing),
    ):
        if texts:
            blocks.append(Lines(listed_lines(texts), title))
    purpose = "What costs time, who causes it, and how sure that is."
    return Section("verdict", "Verdict", purpose, blocks)


def _finding_line(place: int, finding: Mapping[str, Any]) -> Line:
    """Return a finding as a line with its share, or without one with its first evidence."""
    text = " ".join(filter(None, (finding["text"], finding["more"])))
    if finding["share"] is not None:
        key = pointer("findings", place, "share")
        return Line(text, Number(finding["share"], "findings", key, style="share"))
    for row in finding["evidence"][:1]:
        return Line(text, Number(row["value"], row["metric"], pointer(*_keys(row["key"]))))
    return Line(text)


def _keys(key: str) -> list[str]:
    return key.split(".") if key else []


def step_section(results: Mapping[str, Result]) -> Section:
    """Return where the time of a step goes: parts that sum to all of it."""
    purpose = "Where the time of the devices goes, mean over ranks. The parts add up to all of it."
    if reason := why_absent(results, "step_composition"):
        return Section("step", "Step", purpose, absent=reason)
    source = Source.of(results, "step_composition")
    parts: list[Mapping[str, Any]] = source.get("parts") or []
    if not parts:
        return Section("step", "Step", purpose, absent="no time was measured")
    shares = [Share(part_name(part), _kind(part), part["share"]) for part in parts]
    rows = [
        (
            Swatch(share.name, share.kind),
            source.number("parts", index, "ms"),
            source.number("parts", index, "step_ms"),
            source.number("parts", index, "share", style="share"),
        )
        for index, share in enumerate(shares)
    ]
    table = Table(
        "Parts of a step",
        (
            Column("part", is_numeric=False),
            Column("measured time", "ms"),
            Column("in a step", "ms"),
            Column("share"),
        ),
        rows,
    )
    total = Table(
        "Time that was measured",
        (Column("quantity", is_numeric=False), Column("value"), Column("unit", is_numeric=False)),
        [
            ("step on the devices", source.number("step_ms"), "ms"),
            ("steps", source.number("num_steps"), "steps"),
            ("measured time of a rank", source.number("window_ms"), "ms"),
        ],
        note=_basis(results, "step_composition", "order", "waiting", "aggregate"),
    )
    picture = Picture(step_bar(shares, "Time of the devices by part"))
    return Section("step", "Step", purpose, (picture, table, total))


def _kind(part: Mapping[str, Any]) -> str:
    """Return the classes of the colour: dimensions and causes of idle time have their own."""
    kind = str(part["kind"])
    if kind == "communication":
        return f"communication dim-{part['part']}"
    return f"idle cause-{part['part']}" if kind == "idle" else kind


def _basis(results: Mapping[str, Result], name: str, *keys: str) -> str:
    """Return how a metric defines some of its numbers, as one note."""
    basis = results[name].basis
    found = [f"{key}: {basis[key]}" for key in keys if key in basis]
    text = "; ".join(found)
    return f"{text[:1].upper()}{text[1:]}." if found else ""


MOST_KERNELS: Final = 15
_DIMENSION_COLUMNS: Final[tuple[tuple[Column, str, Style], ...]] = (
    (Column("ranks"), "ranks", "number"),
    (Column("calls"), "calls", "number"),
    (Column("bytes"), "message_bytes", "bytes"),
    (Column("time", "ms"), "comm_ms", "number"),
    (Column("exposed", "ms"), "exposed_ms", "number"),
    (Column("hidden"), "hidden_ratio", "share"),
    (Column("bus bandwidth", "GB/s"), "busbw_GBps", "number"),
    (Column("waiting"), "wait_ratio", "share"),
    (Column("mean lag", "us"), "mean_lag_us", "number"),
    (Column("p95 lag", "us"), "p95_lag_us", "number"),
)
_KERNEL_COLUMNS: Final[tuple[tuple[Column, str, Style], ...]] = (
    (Column("calls"), "calls", "number"),
    (Column("total", "ms"), "total_ms", "number"),
    (Column("share"), "share", "share"),
    (Column("mean", "us"), "mean_us", "number"),
    (Column("p95", "us"), "p95_us", "number"),
    (Column("exposed", "ms"), "exposed_ms", "number"),
    (Column("imbalance"), "imbalance_ratio", "number"),
)


def dimension_section(results: Mapping[str, Result]) -> Section:
    """Return communication by parallel dimension."""
    title, purpose = "Dimensions", "Communication by parallel dimension of its group."
    if reason := why_absent(results, "parallelism"):
        return Section("dimensions", title, purpose, absent=reason)
    source = Source.of(results, "parallelism")
    rows: list[tuple[Cell, ...]] = []
    whys: list[Line] = []
    for index, found in enumerate(source.get("dimensions") or ()):
        cells = [
            source.number("dimensions", index, key, style=style)
            for _, key, style in _DIMENSION_COLUMNS
        ]
        worst = source.number("dimensions", index, "worst_rank")
        rows.append((str(found["dim"]), *cells, worst))
        whys += [
            Line(f"{found['dim']}: {key}: {why}.") for key, why in (found.get("why") or {}).items()
        ]
    if not rows:
        return Section("dimensions", title, purpose, absent="no collective is in the selection")
    absent: Mapping[str, Any] = source.get("absent") or {}
    columns = (
        Column("dimension", is_numeric=False),
        *(column for column, _, _ in _DIMENSION_COLUMNS),
        Column("worst rank", is_numeric=False),
    )
    blocks: list[Block] = [Table("Communication by dimension", columns, rows)]
    lines = [*whys, *(Line(f"{dim}: {why}.") for dim, why in absent.items())]
    if lines:
        blocks.append(Lines(lines, "Not known or absent"))
    return Section("dimensions", title, purpose, blocks)


def kernel_section(results: Mapping[str, Result]) -> Section:
    """Return the kernels with the largest total time."""
    title, purpose = "Kernels", "The device work with the largest total time over all ranks."
    if reason := why_absent(results, "kernels"):
        return Section("kernels", title, purpose, absent=reason)
    source = Source.of(results, "kernels")
    found = source.get("kernels") or []
    if not found:
        return Section("kernels", title, purpose, absent="no kernel is in the selection")
    rows: list[tuple[Cell, ...]] = [
        (
            str(row["name"]),
            str(row["category"]),
            *(source.number("kernels", i, key, style=style) for _, key, style in _KERNEL_COLUMNS),
        )
        for i, row in enumerate(found[:MOST_KERNELS])
    ]
    columns = (
        Column("kernel", is_numeric=False),
        Column("category", is_numeric=False),
        *(column for column, _, _ in _KERNEL_COLUMNS),
    )
    total = source.number("num_names").text
    note = (
        f"{len(rows)} of {total} names. Share: of the summed durations of all kernels and copies. "
        "Imbalance: largest total of a rank over the mean of the ranks."
    )
    return Section("kernels", title, purpose, [Table("Kernels", columns, rows, note)])


def distribution_section(view: View, results: Mapping[str, Result]) -> Section:
    """Return how lag, wait and duration of collectives are distributed."""
    from ccltui.metrics.findings.waits.rank_lateness import distributions  # noqa: PLC0415

    title = "Distributions"
    purpose = (
        "The share of collectives whose lag, and of ranks in them whose wait and duration, is at "
        "most the time on the axis."
    )
    if reason := why_absent(results, "straggler_lag"):
        return Section("distributions", title, purpose, absent=reason)
    curves = distributions(view)
    rows: list[tuple[Cell, ...]] = []
    for one in curves:
        numbers = one.to_dict()
        cells = [
            Number(numbers[key], f"distributions/{one.name}", pointer(key))
            for key in ("n", "p50", "p95", "max")
        ]
        rows.append((one.name, *cells))
    columns = (
        Column("time", is_numeric=False),
        Column("n"),
        Column("median", "us"),
        Column("p95", "us"),
        Column("largest", "us"),
    )
    note = (
        "Lag: longest wait of any rank at a collective. Wait: duration of a rank beyond the "
        "shortest of the collective. Lags of up to the floor are ties. The axis is logarithmic; "
        "shorter times are drawn at its left end."
    )
    table = Table("Lag, wait and duration", columns, rows, note)
    return Section("distributions", title, purpose, [Picture(ecdf_picture(curves)), table])
