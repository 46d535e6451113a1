"""One name for one thing: labels are unique, plain, and the same on the screen and in the docs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from ccltui.metrics.registry import metrics

ROOT = Path(__file__).parents[2]
PRIVATE = re.compile(
    r"\bon path\b|handed on|costliest|\bcourse\b|\bharm\b|\bguilty\b|\bwaste\b", re.IGNORECASE
)
"""Words that the field has no use for: it says critical path, wait caused, top kernel, step."""


def test_no_two_metrics_have_one_label() -> None:
    labels = Counter(metric.title.lower() for metric in metrics().values())

    assert [label for label, count in labels.items() if count > 1] == []


@pytest.mark.parametrize("name", metrics())
def test_a_label_is_short_and_of_the_field(name: str) -> None:
    metric = metrics()[name]

    assert 0 < len(metric.title) <= 30
    assert "_" not in metric.title
    assert metric.category
    assert PRIVATE.search(f"{metric.title} {metric.definition}") is None
    assert metric.display["label"] == metric.title


@pytest.mark.parametrize("name", metrics())
def test_the_page_of_metrics_has_the_label(name: str) -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]

    assert f"- **Label**: {metrics()[name].title}\n" in section


def test_texts_of_the_explorer_use_the_same_words() -> None:
    from ccltui.tui.action_list import all_actions
    from ccltui.tui.state.pane import all_panes

    texts = [action.help for action in all_actions()] + [pane.about for pane in all_panes()]
    texts.append((ROOT / "docs/explorer.md").read_text())

    assert [text for text in texts if PRIVATE.search(text)] == []
