"""Read the workload card: its keys, its values, and which card describes a capture."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.parsers.format import Format, Match, Priority, Rule

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample

_CARD_KEY = re.compile(r"^(?:\{\s*)?[\"']?(?:workload|metric_source)[\"']?\s*:", re.MULTILINE)
_NAMES = ("workload_card.yaml", "workload_card.yml")


def _is_card(sample: FileSample) -> Match | None:
    if sample.readable is None or not sample.is_named_yaml:
        return None
    text = sample.readable
    has_key = ("workload" in text or "metric_source" in text) and _CARD_KEY.search(text)
    return Match() if has_key or sample.lower_name in _NAMES else None


WORKLOAD_CARD: Final = Format(
    kind="workload_card",
    description="what a job trains, in YAML",
    sniff=(Rule(Priority.YAML, _is_card),),
)
