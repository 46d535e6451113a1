"""The window grammar of nsys, and the lists of ranks and steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.parsers.errors import GrammarError
from ccltui.parsers.window import (
    COLUMN_UNITS_NS,
    INT64_MAX,
    INT64_MIN,
    SIZE_UNITS_BYTES,
    Window,
    format_duration,
    format_ranks,
    format_steps,
    format_window,
    parse_duration,
    parse_ranks,
    parse_steps,
    parse_window,
)

int64 = st.integers(INT64_MIN, INT64_MAX)


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("4s420ms", 4_420_000_000),
        ("2ns5us2", 5_004),
        ("1s500", 1_000_000_500),
        ("1s-200ms", 800_000_000),
        ("1.5e1s", 15_000_000_000),
        ("1e3us", 1_000_000),
        ("15E-1us", 1_500),
        ("-5ms", -5_000_000),
        ("+5ms", 5_000_000),
        ("0x10", 16),
        ("0xfFus", 255_000),
        ("-0x10us", -16_000),
        ("7", 7),
        ("0", 0),
        ("-0", 0),
        ("007ms", 7_000_000),
        ("500+1s", 1_000_000_500),
        ("1s1s", 2_000_000_000),
        ("200ms4s", 4_200_000_000),
        ("1nsec", 1),
        ("1usec", 1_000),
        ("1msec", 1_000_000),
        ("1sec", 1_000_000_000),
        ("1m", 60_000_000_000),
        ("1min", 60_000_000_000),
        ("1h", 3_600_000_000_000),
        ("1hour", 3_600_000_000_000),
        ("1h1m1s1ms1us1ns", 3_661_001_001_001),
        ("1.9", 1),
        ("-1.9", -1),
        ("0.6ns0.6ns", 0),
        ("1.0000000019s", 1_000_000_001),
        ("0.123456789012345678901234567890123456789s", 123_456_789),
        ("1e-99999999999999999999999s", 0),
        ("9223372036854775807", INT64_MAX),
        ("-9223372036854775808", INT64_MIN),
    ],
)
def test_a_duration_is_the_exact_sum_of_its_terms(text: str, time_ns: int) -> None:
    assert parse_duration(text) == time_ns


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the time is empty"),
        ("1d", "unknown unit 'd'; known are ns, nsec, us"),
        ("1seconds", "unknown unit 'seconds'"),
        ("1MS", "units are lower case: ms, not MS"),
        ("1S", "units are lower case: s, not S"),
        (".5s", "a decimal point needs digits on both sides, as in 0.5s"),
        ("5.s", "a decimal point needs digits on both sides, as in 0.5s"),
        ("1,5s", "the decimal sign is a point, not a comma"),
        ("1 s", "blanks are not allowed"),
        (" 1s", "blanks are not allowed"),
        ("1s ", "blanks are not allowed"),
        ("nan", "'nan' is not a number with an optional unit"),
        ("inf", "'inf' is not a number with an optional unit"),
        ("s", "'s' is not a number with an optional unit"),
        ("1s--5", "'--5' is not a number with an optional unit"),
        ("0x", "unknown unit 'x'"),
        ("1e", "unknown unit 'e'"),
        ("1sms", "unknown unit 'sms'"),
        ("١s", "'١s' is not a number"),
        ("9223372036854775808", "does not fit in 64 bits of nanoseconds"),
        ("-9223372036854775809", "does not fit in 64 bits of nanoseconds"),
        ("300000000000s", "does not fit in 64 bits of nanoseconds"),
        ("1e999999999s", "does not fit in 64 bits of nanoseconds"),
        ("1e99999999999999999999999s", "does not fit in 64 bits of nanoseconds"),
        ("0x" + "f" * 17, "does not fit in 64 bits of nanoseconds"),
        ("1\x1b[31m", r"'\x1b[31m' is not a number"),
    ],
)
def test_a_malformed_duration_says_why(text: str, why: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_duration(text)
    assert why in caught.value.message


@given(int64)
def test_every_time_survives_its_own_text(time_ns: int) -> None:
    assert parse_duration(format_duration(time_ns)) == time_ns


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "0s"),
        (4_420_000_000, "4s420ms"),
        (-3_580_000_000, "-3s-580ms"),
        (61_000_000_007, "61s7ns"),
        (1_500, "1us500ns"),
    ],
)
def test_the_text_of_a_time_is_short(time_ns: int, text: str) -> None:
    assert format_duration(time_ns) == text


@given(st.text(alphabet="0123456789.eExaf+-nsumhourci ,/", max_size=20))
def test_any_text_is_a_time_or_a_grammar_error(text: str) -> None:
    try:
        time_ns = parse_duration(text)
    except GrammarError:
        return
    assert INT64_MIN <= time_ns <= INT64_MAX


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("4s420ms/35s390ms", Window(4_420_000_000, 35_390_000_000)),
        ("-5ms/10s", Window(-5_000_000, 10_000_000_000)),
        ("2s/", Window(2_000_000_000, None)),
        ("/1m", Window(None, 60_000_000_000)),
        ("5/5", Window(5, 5)),
        ("0x10/0x20", Window(16, 32)),
    ],
)
def test_a_window_has_one_or_two_sides(text: str, window: Window) -> None:
    assert parse_window(text) == window


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1s", "Illegal window '1s': no slash between start and end; write for example"),
        ("", "Illegal window '': no slash"),
        ("/", "Illegal window '/': start and end are both empty"),
        ("1s/2s/3s", "Illegal window '1s/2s/3s': more than one slash"),
        ("//", "Illegal window '//': more than one slash"),
        ("2s/1s", "Illegal window '2s/1s': the start is after the end"),
        ("1S/2S", "Illegal window '1S/2S': units are lower case: s, not S"),
        ("1s / 2s", "Illegal window '1s / 2s': blanks are not allowed"),
        ("nan/1s", "Illegal window 'nan/1s': 'nan' is not a number"),
        ("1d/2d", "Illegal window '1d/2d': unknown unit 'd'"),
        ("0/9223372036854775808", "does not fit in 64 bits"),
        ("x" * 100 + "/", "Illegal window '" + "x" * 57 + "...': 'x"),
    ],
)
def test_a_malformed_window_says_why_and_shows_an_example(text: str, why: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_window(text)
    assert why in str(caught.value)
    assert str(caught.value).endswith("write for example 4s420ms/35s390ms, 2s/ or /1m")


@given(st.none() | int64, st.none() | int64)
def test_every_window_survives_its_own_text(start_ns: int | None, end_ns: int | None) -> None:
    if start_ns is not None and end_ns is not None:
        start_ns, end_ns = sorted((start_ns, end_ns))
    window = Window(start_ns, end_ns)

    if window == Window(None, None):
        with pytest.raises(ValueError, match="open on both sides"):
            format_window(window)
    else:
        assert parse_window(format_window(window)) == window


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("0-7,16", {0, 1, 2, 3, 4, 5, 6, 7, 16}),
        ("3", {3}),
        ("3-3", {3}),
        ("1, 2", {1, 2}),
        ("2,1,2", {1, 2}),
    ],
)
def test_a_rank_list_is_a_set(text: str, ranks: set[int]) -> None:
    assert parse_ranks(text) == ranks


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "an entry is empty"),
        ("1,,2", "an entry is empty"),
        ("7-0", "7-0 counts down; write for example 0-7"),
        ("-1", "'-1' is neither a rank nor a range"),
        ("a", "'a' is neither a rank nor a range"),
        ("1-2-3", "'1-2-3' is neither a rank nor a range"),
        ("0-99999999999", "ranks end at 1048575"),
        ("9" * 5000, "ranks end at 1048575"),
    ],
)
def test_a_malformed_rank_list_says_why(text: str, why: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_ranks(text)
    assert str(caught.value).startswith("Illegal rank list ")
    assert why in str(caught.value)


@given(st.frozensets(st.integers(0, 300), min_size=1))
def test_every_rank_list_survives_its_own_text(ranks: frozenset[int]) -> None:
    assert parse_ranks(format_ranks(ranks)) == ranks


@pytest.mark.parametrize(("text", "steps"), [("12-98", (12, 98)), ("5", (5, 5)), ("5-5", (5, 5))])
def test_steps_include_both_ends(text: str, steps: tuple[int, int]) -> None:
    assert parse_steps(text) == steps
    assert parse_steps(format_steps(steps)) == steps


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Illegal steps '': it is not I-J or I"),
        ("5-", "it is not I-J or I"),
        ("1,2", "it is not I-J or I"),
        ("-5", "it is not I-J or I"),
        ("9-3", "the first is after the last; write for example 3-9"),
        ("9" * 5000, "the number is too large"),
    ],
)
def test_malformed_steps_say_why(text: str, why: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_steps(text)
    assert why in str(caught.value)


def test_report_headers_know_the_spellings_of_nsys() -> None:
    assert COLUMN_UNITS_NS["seconds"] == COLUMN_UNITS_NS["sec"] == 1_000_000_000
    assert SIZE_UNITS_BYTES["MB"] == 1_000_000
    assert SIZE_UNITS_BYTES["MiB"] == 1_048_576
