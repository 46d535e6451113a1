"""Test properties: numbers of every locale are parsed, and any text gives a result or an error."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ccltui.parsers.errors import TraceError
from ccltui.parsers.nsys.text_reports.stats_text import parse_stats_text
from ccltui.parsers.nsys.text_reports.typed_columns import parse_numbers
from ccltui.parsers.nsys.text_reports.typed_table import StatsText

LOCALES = {
    "C": ("", ".", 3),
    "en_US": (",", ".", 3),
    "en_IN": (",", ".", 2),
    "de_DE": (".", ",", 3),
    "fr_FR": ("\u202f", ",", 3),
    "de_CH": ("\u2019", ".", 3),
}
BEGINNINGS = (
    "Processing [x.sqlite] with [/o/2024.1.1/reports/cuda_gpu_sum.py](start=1:end=2)... ",
    " ** CUDA GPU Summary (Kernels/MemOps) (cuda_gpu_sum):",
    "Time (%),Total Time (ns),Instances,Category,Operation",
    " Time (%)  Total Time (us)  Instances   Operation ",
    " --------  ---------------  ---------  -----------",
    "     14.7      4.918.341,9       2312  k1         ",
    '50.0,"1,234",2,CUDA_KERNEL,"a, b"',
    "| Time (%) | Total Time (ns) | Instances |",
    "+----------+-----------------+-----------+",
    "[",
    '  {"Time (%)": 5.0, "Total Time (ns)": 1, "Name": "k"}',
    "]",
    "SKIPPED: x.sqlite does not contain CUDA trace data.",
    "Start (us)   Duration (us)  CorrId    Device     Name",
    " 3761321.62…       4528.869  7691…  A100 (1)  nccl",
    "",
)


def written(value: int, decimals: int, locale: str) -> str:
    """Return a number as nsys prints it under a locale."""
    group, mark, inner = LOCALES[locale]
    digits = f"{abs(value):0{decimals + 1}d}"
    integer, fraction = (digits[:-decimals], digits[-decimals:]) if decimals else (digits, "")
    parts = [integer[-3:]]
    rest = integer[:-3]
    while rest:
        parts.append(rest[-inner:])
        rest = rest[:-inner]
    sign = "-" if value < 0 else ""
    return sign + group.join(reversed(parts)) + (mark + fraction if decimals else "")


@given(
    st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=6),
    st.sampled_from([0, 1, 3, 4]),
    st.sampled_from(sorted(LOCALES)),
)
def test_numbers_of_a_known_column_are_parsed(
    values: list[int], decimals: int, locale: str
) -> None:
    cells = [written(value, decimals, locale) for value in values]

    found = parse_numbers(cells, decimals=(decimals,), place=lambda row: (row, 1), header="x")

    assert found is not None
    assert found.decimals == decimals
    assert found.mantissa.tolist() == values
    assert not found.state.any()


@given(
    st.lists(st.integers(0, 10**12), min_size=1, max_size=6),
    st.sampled_from([0, 1, 3]),
    st.sampled_from(sorted(LOCALES)),
)
def test_numbers_of_an_unknown_column_are_parsed_or_rejected(
    values: list[int], decimals: int, locale: str
) -> None:
    cells = [written(value, decimals, locale) for value in values]

    try:
        found = parse_numbers(cells, place=lambda row: (row, 1), header="x")
    except TraceError:
        return

    assert found is not None
    scale = 10 ** (decimals - found.decimals) if found.decimals <= decimals else 0
    assert (found.mantissa * scale == np.array(values)).all()


def read(text: str) -> StatsText | TraceError:
    try:
        return parse_stats_text(text)
    except TraceError as error:
        return error


@given(st.lists(st.one_of(st.sampled_from(BEGINNINGS), st.text(max_size=30)), max_size=12))
def test_any_order_of_lines_is_read_or_rejected(lines: list[str]) -> None:
    found = read("\n".join(lines))

    if isinstance(found, StatsText):
        for section in found.sections:
            assert bool(section.columns) != bool(section.absent)
            assert all(len(column) == len(section) for column in section.columns)


@given(st.data())
def test_damaged_line_is_read_or_rejected(data: st.DataObject) -> None:
    text = "\n".join(BEGINNINGS)
    place = data.draw(st.integers(0, len(text) - 1))
    size = data.draw(st.integers(0, 5))

    read(text[:place] + data.draw(st.text(max_size=4)) + text[place + size :])
