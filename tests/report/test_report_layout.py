"""Aligned text stays aligned with any name from a trace."""

from __future__ import annotations

from ccltui.report.text_layout import table, text_bytes, text_width


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
