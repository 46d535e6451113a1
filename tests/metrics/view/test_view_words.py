"""Short names of findings say who is meant, whatever stands in place of a group."""

from __future__ import annotations

from typing import Any

import pytest

from ccltui.metrics.findings.sentences import who_text
from ccltui.metrics.view.words import BETWEEN_HOSTS, STAGES, label_of

NOBODY: dict[str, Any] = {
    "ranks": [],
    "host": None,
    "group": None,
    "stage": None,
    "steps": [],
    "kernel": None,
}


@pytest.mark.parametrize(
    ("group", "who"),
    [
        ("dp", "group dp"),
        (f"{STAGES}1 and 2", "stages 1 and 2"),
        (BETWEEN_HOSTS, "all hosts"),
    ],
)
def test_a_slow_link_is_named_alike_in_label_and_sentence(group: str, who: str) -> None:
    where = {**NOBODY, "group": group}

    assert label_of("slow_link", where) == f"slow link of {who}"
    assert who_text(where) == who
