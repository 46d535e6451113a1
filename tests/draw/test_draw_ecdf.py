"""Cumulative distributions of durations, in cells and as SVG."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np

from ccltui.draw.ecdf import ecdf_lines, ecdf_svg, share_up_to


def test_shares_include_their_own_value() -> None:
    values = np.array([10, 20, 20, 40], np.int64)

    assert share_up_to(values, np.array([9.0, 10.0, 20.0, 40.0])).tolist() == [0, 0.25, 0.75, 1.0]


def test_cells_rise_from_left_to_right_and_end_full() -> None:
    values = np.array([1_000, 10_000, 100_000, 1_000_000], np.int64)

    assert ecdf_lines(values, width=30, height=4) == [
        "100 %                        █",
        "                      ████████",
        " 50 %         ████████████████",
        "  0 % ████████████████████████",
        "      1 us    31.6 us     1 ms",
    ]


def test_one_value_and_none() -> None:
    assert ecdf_lines(np.empty(0, np.int64)) == []
    lines = ecdf_lines(np.array([500], np.int64), width=20, height=2)
    assert lines[0].endswith("█")
    assert ecdf_lines(np.zeros(3, np.int64), width=20, height=2)


def test_the_drawing_is_well_formed_and_names_are_escaped() -> None:
    curves = {"<a>&\x1b": np.array([1_000, 2_000], np.int64), "empty": np.empty(0, np.int64)}

    root = ElementTree.fromstring(ecdf_svg(curves, title="delay", marks_ns=[1_500]))

    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    assert "delay" in texts
    assert any(text.startswith("<a>&") for text in texts)
    assert not any("\x1b" in text for text in texts)
    paths = [element for element in root.iter() if element.tag.endswith("path")]
    assert len(paths) == 5 + 1 + 1  # grid, mark, curve
    assert ElementTree.fromstring(ecdf_svg({}, title="nothing")) is not None


def test_long_times_that_differ_by_less_than_logarithms_tell() -> None:
    text = ecdf_svg({"a": np.array([2**53, 2**53 + 1], np.int64)}, title="t")

    assert "nan" not in text
