"""Times as they stand in sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.parsers.units import in_ms


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (58.2912, 4, "58.29 ms"),
        (0.0, 4, "0 ms"),
        (13_336.4, 4, "13,336 ms"),
        (9_999.7, 4, "10,000 ms"),
        (1_234.5, 3, "1,234 ms"),
        (117.2, 3, "117 ms"),
        (0.000012, 4, "0.000012 ms"),
        (-20_500.0, 4, "-20,500 ms"),
    ],
)
def test_times_have_their_digits_and_a_unit(value: float, digits: int, text: str) -> None:
    assert in_ms(value, digits) == text


@given(st.floats(1e-6, 1e12), st.integers(3, 5))
def test_no_time_has_an_exponent_and_all_are_near(value: float, digits: int) -> None:
    number = in_ms(value, digits).removesuffix(" ms").replace(",", "")

    assert "e" not in number
    assert float(number) == pytest.approx(value, rel=10.0 ** (1 - digits))
