"""What the first frame is compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.first_frame import main


def test_both_are_measured_until_their_frame_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(tmp_path), "--rounds", "1"])

    lines = capsys.readouterr().out.splitlines()
    names = [line[:14].strip() for line in lines[:3]]
    splash, frame, bare = (float(line[14:].split()[0]) for line in lines[:3])
    assert names == ["splash", "first frame", "bare Textual"]
    assert 0 < splash <= frame  # equal where a busy machine reads both at once
    assert bare > 0
    assert lines[3].startswith("first frame / bare: ")
