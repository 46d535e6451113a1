"""Csv without formulas, JSON with unchanged names, Markdown without markup from names."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.report.printable_json import printable_json
from ccltui.report.result_rows import Cell, csv_text
from ccltui.report.text_layout import code, escaped, table_row


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("gemm", "gemm"),
        ("", ""),
        (None, ""),
        (-3, "-3"),
        (-1.5e-7, "-1.5e-07"),
        ("-12.5", "-12.5"),
        ("+4", "+4"),
        ("-1.5e-07", "-1.5e-07"),
        ("-inf", "-inf"),
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-2+3", "'-2+3"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("＝1", "'＝1"),
        ("\t=1", r"\x09=1"),
        ("\r=1", r"\x0d=1"),
        ("a-b", "a-b"),
        ("a\u200bb", r"a\u200bb"),
    ],
)
def test_cells_that_a_spreadsheet_would_compute_are_texts(cell: Cell, written: str) -> None:
    assert next(csv.reader(io.StringIO(csv_text([("x", cell)])))) == ["x", written]


def test_rows_by_tabs_for_the_clipboard() -> None:
    assert csv_text([("a", "b"), ("x\ty", 1)], delimiter="\t") == "a\tb\nx\\x09y\t1\n"


def test_json_escapes_what_acts_on_a_terminal_and_nothing_else() -> None:
    text = json.dumps(
        {"größe 日本": "\x7f\x9b2J\u202e\u200b\u2028\U000e0041 ü"}, ensure_ascii=False
    )

    assert printable_json(text) == (
        '{"größe 日本": "\\u007f\\u009b2J\\u202e\\u200b\\u2028\\udb40\\udc41 ü"}'
    )
    assert json.loads(printable_json(text)) == json.loads(text)


@given(st.text())
def test_json_parses_to_what_it_was(text: str) -> None:
    written = printable_json(json.dumps([text], ensure_ascii=False))

    assert json.loads(written) == [text]
    written.encode()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("runs/a_b-1.0", "runs/a_b-1.0"),
        ("a|b", r"a\|b"),
        ("a\\|b", r"a\\\|b"),
        ("C:\\x", "C:\\x"),
        ("<b>&lt;", "&lt;b&gt;&amp;lt;"),
        ("Pinned -> Device", "Pinned -> Device"),
        ("![x](http://y)", r"!\[x\](http://y)"),
        ("a`b", r"a\`b"),
        ("a\nb\u200b", r"a\x0ab\u200b"),
    ],
)
def test_markdown_shows_a_name_as_it_is(name: str, written: str) -> None:
    assert escaped(name) == written
    assert table_row(["x", name]) == f"| x | {written} |"


def test_a_code_span_holds_what_cannot_end_it() -> None:
    assert code("runs/a|b") == "`runs/a|b`"
    assert code("a`<b>") == r"a\`&lt;b&gt;"
    assert code("a\x1b") == r"a\x1b"
