"""Which characters of a name reach a terminal or a file, and how the others are written."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.parsers.safe_text import safe_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nb\tc\r", r"a\x0ab\x09c\x0d"),
        ("\x7f\x9b2J", r"\x7f\u009b2J"),  # DEL, and CSI in one character
        ("\u202eexe\u2066\u200e\u061c", r"\u202eexe\u2066\u200e\u061c"),
        ("a\u200bb\u200dc\u2060d\ufeff", r"a\u200bb\u200dc\u2060d\ufeff"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\ud800", r"\ud800"),
        ("\udcff", r"\xff"),  # a byte of a file name that is no UTF-8
        ("\U000e0041", r"\U000e0041"),
        ("\ue000\ufffe", r"\ue000\ufffe"),
        (r"C:\x", r"C:\x"),
    ],
)
def test_what_acts_on_a_terminal_becomes_visible(text: str, shown: str) -> None:
    assert safe_text(text) == shown
    assert safe_text(shown) == shown
    safe_text(text).encode()


@pytest.mark.parametrize(
    "text", ["größe █", "日本語", "e\u0301", "❤\ufe0f", "a\u00a0b\u3000c", "😀"]
)
def test_letters_of_every_script_and_emoji_stay(text: str) -> None:
    assert safe_text(text) == text


@given(st.text())
def test_no_control_format_or_separator_character_is_left(text: str) -> None:
    categories = {unicodedata.category(character) for character in safe_text(text)}

    assert not categories & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
