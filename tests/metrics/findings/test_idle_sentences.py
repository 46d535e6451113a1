"""Every cause of idle time that the partition names has a sentence."""

from __future__ import annotations

import pytest

from ccltui.metrics.findings.idle_causes import CAUSES
from ccltui.metrics.findings.sentences import idle_text


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_of_idle_time_has_a_sentence(cause: str) -> None:
    assert "30 % of the time" in idle_text(cause, 0.3, 4)
