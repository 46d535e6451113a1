"""Test that a text that decompresses to gigabytes is refused with one line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ccltui.parsers.errors import TraceError
from ccltui.parsers.nsys.text_reports.stats_text import read_stats_text


def test_a_text_beyond_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "stats.txt"
    path.write_bytes(gzip.compress(b"x" * 99 + b"\n" + b"\n" * 3_000_000))
    monkeypatch.setenv("CCLTUI_TEXT_LIMIT_MB", "2")

    with pytest.raises(TraceError, match="longer than 2 MB; CCLTUI_TEXT_LIMIT_MB sets the limit"):
        read_stats_text(path)

    monkeypatch.setenv("CCLTUI_TEXT_LIMIT_MB", "4")
    assert not read_stats_text(path).sections
