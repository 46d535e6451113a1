"""Write an explanation as Markdown or JSON within a budget, and a finding for notebooks as HTML."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import asdict, replace

from ccltui.metrics.confidence import Sure, sure_text
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.numbers import counted, percent, time_text
from ccltui.parsers.safe_text import safe_text
from ccltui.parsers.window import format_ranks, format_steps, format_window
from ccltui.report.explanation import BUDGET, Claim, Explanation
from ccltui.report.printable_json import printable_json
from ccltui.report.text_layout import escaped

# Colours of the text come from the notebook, so that a light and a dark one are both readable.
_BAR: Final = (
    '<div style="width:16em;height:.7em;border:1px solid #8888">'
    '<div style="width:{share:.1f}%;height:100%;background:#5f5fff"></div></div>'
)


def finding_html(finding: Mapping[str, Any]) -> str:
    """Return one row of the metric ``findings`` as HTML; every text of it is escaped."""
    share, cost_ms = finding["share"], finding["cost_ms"]
    rows = {
        "share": "" if share is None else f"{percent(share)} {_BAR.format(share=_width(share))}",
        "cost": "" if cost_ms is None else time_text(cost_ms),
        "sure": _escaped(sure_text(finding["sure"])),
        "what to do": _escaped(finding["do"] or ""),
    }
    cells = "".join(
        f'<tr><th style="text-align:left">{name}</th><td style="text-align:left">{text}</td></tr>'
        for name, text in rows.items()
        if text
    )
    more = _escaped(finding["more"] or "")
    return f"<p><b>{_escaped(finding['text'])}</b> {more}</p><table>{cells}</table>"


def _width(share: float) -> float:
    """Return the width of the bar in percent: never beyond its frame."""
    return min(max(100 * share, 0.0), 100.0)


def _escaped(text: str) -> str:
    return html.escape(safe_text(text))


def command_options(
    selection: ViewOptions,
    capture: str | None = None,
    loading: Mapping[str, object] | None = None,
) -> tuple[str, ...]:
    """Return the options with which a command computes the same numbers.

    Args:
        selection: the part of the job.
        capture: the capture that was asked for, None for the default one.
        loading: further options of opening by name; those without a value are left out.
    """
    default = ViewOptions()
    given: dict[str, object] = {"--capture": capture, **(loading or {})}
    window = selection.window
    if window is not None and (window.start_ns is not None or window.end_ns is not None):
        given["--window"] = format_window(window)
    if selection.steps is not None:
        given["--steps"] = format_steps(selection.steps)
    if selection.ranks is not None:
        given["--ranks"] = format_ranks(selection.ranks)
    given["--group"] = selection.group
    given["--span"] = None if selection.span == default.span else selection.span
    given["--profile-mode"] = (
        None if selection.profile_mode == default.profile_mode else selection.profile_mode
    )
    # One word each: a value may begin with a minus.
    options = [f"{name}={value}" for name, value in given.items() if value is not None]
    options += ["--raw-clocks"] if selection.raw_clocks else []
    return (*options, *(f"--set={name}={value}" for name, value in selection.overrides.items()))


SCHEMA: Final = "ccltui.explanation/2"
_LEFT_OUT_FIRST: Final = ("missing", "ruled_out", "claims", "findings")
"""Lists in the order in which they are cut where the document would exceed its budget."""
_TEXTS: Final = ("path", "headline", "culprit", "actions", "unknown", "findings")
_LONGEST: Final = 400
"""Characters of one text where the document would exceed its budget; names may have thousands."""


def as_markdown(explanation: Explanation, safe: Callable[[str], str] = escaped) -> bytes:
    """Return the explanation as Markdown text, UTF-8.

    Args:
        explanation: what is written.
        safe: makes a text of the recording safe to write: ``safe_text`` where a person reads the
            page in a terminal, which shows the backslashes of Markdown.
    """
    lines = [f"# {safe(explanation.path)}", "", f"**{safe(explanation.headline)}**", ""]
    alone = len(explanation.findings) == 1
    for number, finding in enumerate(explanation.findings, 1):
        text = _finding_text(finding)
        # The only finding is the headline: what follows its sentence is left to say.
        rest = text.removeprefix(explanation.headline).strip() if alone else f"{number}. {text}"
        lines += [safe(rest)] if rest else []
        lines += [f"   - {safe(_recording_text(row))}" for row in finding.get("recordings", ())]
    for title, texts in (
        ("The recording", [f"{safe(one.text)} (`{_source(one)}`)" for one in explanation.claims]),
        ("What to do", [safe(text) for text in explanation.actions]),
        ("Not known, and how to find out", [safe(text) for text in explanation.unknown]),
        ("Ruled out", [safe(text) for text in explanation.ruled_out]),
        ("Missing, or known in part", [safe(text) for text in explanation.missing]),
    ):
        if texts:
            lines += ["", f"{title}:", "", *(f"- {text}" for text in texts)]
    if explanation.findings:
        lines += ["", f"    {explanation.all_commands()}"]
    lines.append("")
    return "\n".join(lines).encode()


def _source(claim: Claim) -> str:
    return f"{claim.metric}.{claim.key}" if claim.key else claim.metric


_PLAIN: Final = frozenset({"compute_bound", "cpu_bound", "transfer_spread", "counts"})
"""Findings that state what was measured and name no cause: there is nothing to be sure of."""


def _finding_text(finding: Mapping[str, Any]) -> str:
    """Return the sentences of a finding, and how sure each part of it is."""
    text = " ".join(filter(None, (finding["text"], finding["more"])))
    is_plain = finding["class"] in _PLAIN and finding["sure"] == Sure().to_dict()
    return text if is_plain else f"{text} (Confidence: {sure_text(finding['sure'])}.)"


def _recording_text(row: Mapping[str, Any]) -> str:
    ranks = counted(row["ranks"], "rank")
    steps = "" if row["steps"] is None else f", {counted(row['steps'], 'step')}"
    return f"{row['name']} ({ranks}{steps}): {row['finding']}"


def as_json(explanation: Explanation, budget: int = BUDGET) -> bytes:
    """Return the explanation as a JSON document of at most ``budget`` bytes.

    What does not fit is left out: long texts are cut, then what is missing, what is ruled out,
    statements, and findings but the first. ``left_out`` is the number of these entries.
    """
    parts: dict[str, list[Any]] = {
        "findings": list(explanation.findings[1:]),
        "claims": [
            {**asdict(one), "command": explanation.command(one)} for one in explanation.claims
        ],
        "missing": list(explanation.missing),
        "ruled_out": list(explanation.ruled_out),
    }
    total = sum(map(len, parts.values()))
    data = _encoded(explanation, parts, 0)
    if len(data) > budget:
        parts = {name: _cut(entries) for name, entries in parts.items()}
        texts = {name: getattr(explanation, name) for name in _TEXTS}
        explanation = replace(explanation, **_cut(texts))
        data = _encoded(explanation, parts, 0)
    while len(data) > budget and any(parts.values()):
        next(parts[name] for name in _LEFT_OUT_FIRST if parts[name]).pop()
        data = _encoded(explanation, parts, total - sum(map(len, parts.values())))
    return data


def _encoded(explanation: Explanation, parts: Mapping[str, list[Any]], left_out: int) -> bytes:
    document = {
        "schema": SCHEMA,
        "path": explanation.path,
        "ranks": explanation.ranks,
        "world_size": explanation.world_size,
        "headline": explanation.headline,
        "recording": explanation.recording,
        "findings": [*explanation.findings[:1], *parts["findings"]],
        "unknown": list(explanation.unknown),
        "verdict": explanation.verdict,
        "confidence": explanation.confidence,
        "culprit": explanation.culprit,
        "cost": {"metric": "verdict", **explanation.cost},
        "actions": list(explanation.actions),
        "claims": parts["claims"],
        "ruled_out": parts["ruled_out"],
        "missing": parts["missing"],
        "left_out": left_out,
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, default=str)
    return f"{printable_json(text)}\n".encode("utf-8", "backslashreplace")


def _cut(value: Any) -> Any:
    """Return a value whose texts have at most `_LONGEST` characters."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
    if isinstance(value, Mapping):
        return {key: _cut(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_cut(item) for item in value)
    return value


WRITERS: Final[Mapping[str, Callable[[Explanation, int], bytes]]] = {
    "md": lambda explanation, _: as_markdown(explanation),
    "json": as_json,
}
"""Writers by format; the number is the budget in bytes."""
