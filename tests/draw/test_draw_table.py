"""Aligned rows."""

from __future__ import annotations

from ccltui.draw.table import Column, table

COLUMNS = (Column("rank"), Column("wait", "right"), Column("what", widest=8))
ROWS = (("r0", "20.29ms", "gemm_bf16_long"), ("r16", "0", "\x1b[2J"))


def test_columns_are_as_wide_as_their_content() -> None:
    assert table(COLUMNS, ROWS, 40) == [
        "rank     wait  what",
        "r0    20.29ms  gemm_bf…",
        "r16         0  ␛[2J",
    ]


def test_columns_drop_from_the_right_when_narrow() -> None:
    assert table(COLUMNS, ROWS, 16) == ["rank     wait", "r0    20.29ms", "r16         0"]
    assert table(COLUMNS, ROWS, 3) == ["ran", "r0", "r16"]
