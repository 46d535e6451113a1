"""Names from files cannot move the cursor or change a colour."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.draw.text import clean, fit, fit_middle, wrap


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("ncclDevKernel_AllReduce", "ncclDevKernel_AllReduce"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        ("a\x1b[31mred\x1b[0m", "a␛[31mred␛[0m"),
        ("two\nlines\ttab", "two␊lines␉tab"),
        ("\x9b31m", "?31m"),
        ("\x7f", "␡"),
        ("rtl\u202eabc", "rtl?abc"),
        ("cafe\u0301", "cafe?"),
        ("数", "?"),
        ("\ud800", "?"),
        ("a\u00a0b", "a b"),
        ("µs × 2", "µs × 2"),
    ],
)
def test_clean(raw: str, shown: str) -> None:
    assert clean(raw) == shown


@given(st.text())
def test_clean_keeps_the_number_of_characters_and_leaves_no_control(raw: str) -> None:
    shown = clean(raw)

    assert len(shown) == len(raw)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)


@given(st.text(), st.integers(0, 30))
def test_fit_is_exactly_as_wide_as_asked(raw: str, width: int) -> None:
    assert len(fit(raw, width)) == width


def test_fit_cuts_at_the_end_and_fit_middle_keeps_both_ends() -> None:
    assert fit("ncclDevKernel", 6) == "ncclD…"
    assert fit("3", 4, align="right") == "   3"
    assert fit_middle("/scratch/u/run-0421/traces", 16) == "/scra…421/traces"
    assert fit_middle("short", 16) == "short"


def test_wrap_breaks_between_words_and_says_when_it_leaves_something_out() -> None:
    assert wrap("no rank is late by more", 12) == ["no rank is", "late by more"]
    assert wrap("no rank is late by more", 12, most=1) == ["no rank is…"]
    assert wrap("a \x1b b", 12, indent="  ") == ["a ␛ b"]
    assert wrap("one two three", 7, indent="  ") == ["one two", "  three"]
    assert wrap("", 12) == []


def test_wrap_shows_the_beginning_of_a_long_name() -> None:
    assert wrap("12 of cutlass::Kernel<float>", 16, most=1) == ["12 of cutlass::…"]
    assert wrap("it was late by more than others", 16, most=1) == ["it was late by…"]
