"""A finding as HTML for notebooks: what, cost, share, how sure, what to do."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any, Final

from ccltui.metrics.confidence import sure_text
from ccltui.parsers.numbers import percent, time_text
from ccltui.parsers.safe_text import safe_text

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
