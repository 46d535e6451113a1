"""Sections about the whole job: the verdict and the parts of a step."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import starmap
from typing import Any, Final

from ccltui.metrics.result import Result
from ccltui.report.explanation import Explanation
from ccltui.report.overview_text import part_name
from ccltui.report.page.page_parts import (
    Block,
    Column,
    Line,
    Lines,
    Number,
    Picture,
    Section,
    Source,
    Swatch,
    Table,
    listed_lines,
    pointer,
    why_absent,
)
from ccltui.report.page.share_bar import Share, step_bar

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
        ("Not known", explanation.unknown),
        ("Ruled out", explanation.ruled_out),
        ("Missing", explanation.missing),
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
    """Return the class of the colour: dimensions of communication differ in shade."""
    kind = str(part["kind"])
    if kind == "communication":
        return f"communication dim-{part['part']}"
    return kind


def _basis(results: Mapping[str, Result], name: str, *keys: str) -> str:
    """Return how a metric defines some of its numbers, as one note."""
    basis = results[name].basis
    found = [f"{key}: {basis[key]}" for key in keys if key in basis]
    text = "; ".join(found)
    return f"{text[:1].upper()}{text[1:]}." if found else ""
