"""Aligned text stays aligned with any name from a trace."""

from __future__ import annotations

import pytest

from ccltui.report.text_layout import (
    bytes_text,
    count_text,
    duration_text,
    table,
    text_bytes,
    text_width,
)


def test_lines_of_any_text_are_safe() -> None:
    assert text_bytes(["größe", "a\nb\x1b"]) == "größe\na\\x0ab\\x1b\n".encode()


def test_width_counts_columns_not_characters() -> None:
    assert text_width("abc") == 3
    assert text_width("日本") == 4
    assert text_width("e\u0301") == 1


def test_a_table_is_aligned_and_shows_empty_cells() -> None:
    lines = table(
        ("name", "n", "note"),
        [("a", "1", "x"), ("日本", "100", ""), ("\x1b", "", "end")],
        align=("left", "right"),
    )
    assert lines == [
        "name    n  note",
        "a       1  x",
        "日本  100  -",
        r"\x1b    -  end",
    ]


def test_a_cell_beyond_the_widest_moves_its_own_row_only() -> None:
    rows = [("a", "1", "x"), ("b", "a sentence", "y"), ("c", "100", "z")]
    lines = table(("k", "n", "unit"), rows, align=("left", "right"), widest={1: 4})
    assert lines == [
        "k    n  unit",
        "a    1  x",
        "b  a sentence  y",
        "c  100  z",
    ]


def test_a_table_without_rows_is_its_header() -> None:
    assert table(("a", "b"), []) == ["a  b"]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1_500_000, "1.5 MB"),
        (999_600, "1 MB"),
        (41_234_567_890, "41.2 GB"),
        (5e15, "5000 TB"),
    ],
)
def test_bytes_are_decimal(count: float, text: str) -> None:
    assert bytes_text(count) == text


def test_counts_agree_with_their_noun() -> None:
    assert count_text(1, "rank") == "1 rank"
    assert count_text(1024, "rank") == "1,024 ranks"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0042, "4.2 ms"),
        (0.603, "603 ms"),
        (12.4, "12 s"),
        (99, "99 s"),
        (150, "2 min"),
        (7200, "2 h"),
        (56_430_794, "653 days"),
    ],
)
def test_spans_have_the_unit_that_fits(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
