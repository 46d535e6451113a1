"""Words that a text is searched for before a pattern is compiled: every match has one of them."""

from __future__ import annotations

import re

import pytest

from ccltui.parsers import nsys as sniff

UNESCAPED = re.sub(r"\\(.)", r"\1", sniff._NSYS_BANNER)
BANNERS = UNESCAPED.split("\n      | ")
HEAD = r'(?m)^[ \t|"]*(?:'
PLAIN = sniff._NSYS_HEADER.replace(sniff._GAP, " ").replace(sniff._UNIT, "")
HEADERS = re.sub(r"\(\?:[^()]*\)\??", "", PLAIN.removeprefix(HEAD).removesuffix(")")).split("|")


def test_all_alternatives_are_looked_at() -> None:
    assert len(BANNERS) == 10
    assert len(HEADERS) == 12


@pytest.mark.parametrize("banner", BANNERS)
def test_a_banner_has_one_of_its_words(banner: str) -> None:
    assert [word for word in sniff._BANNER_WORDS if word in banner]


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_has_one_of_its_words(header: str) -> None:
    assert [word for word in sniff._HEADER_WORDS if word in header]


def test_a_trace_has_all_of_its_words() -> None:
    assert all(word in sniff._TRACE_HEADER for word in sniff._TRACE_WORDS)
    assert "|" not in re.sub(r"\(\?:[^()]*\)", "", sniff._TRACE_HEADER.replace(sniff._GAP, ""))[20:]
