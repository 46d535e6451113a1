"""Every row of golden.json against ours: none is left out.

A row is compared by the first rule that knows it (``golden_rules``). A row without a rule fails,
and so does a rule without a row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from golden_rows import Number, Value, numbers_of
from golden_rules import REFERENCE, Rule
from golden_rules_of_tools import HTA, TRACELENS
from msgspec import structs

pytestmark = pytest.mark.shared

RULES = (*REFERENCE, *TRACELENS, *HTA)

WHOLE_MICROSECONDS = ("trace_filter", "trace_diff_control", "df_index_resolver", "alexnet")
"""Traces of the time before nanoseconds: every tool must agree to the last digit."""

DOUBLES_US = 0.08
"""Elsewhere the other tools add doubles near 4 * 10^12 µs, each good to 0.0005 µs: thousands of
them leave up to this much. `test_exact_decimals` holds ours to the last nanosecond."""


def rule_of(number: Number) -> Rule | None:
    return next((rule for rule in RULES if rule.knows(number)), None)


def tolerance(number: Number) -> float:
    if number.tool.startswith("HTA"):
        return 1e-9
    if number.unit in ("us", "count") and number.trace.startswith(WHOLE_MICROSECONDS):
        return 1e-6 if isinstance(number.value, int) else 1e-3
    return 1e-5 if number.unit in ("ratio", "%", "GiB/s") else DOUBLES_US


def is_equal(got: Value | None, number: Number) -> bool:
    value, within = number.value, tolerance(number)
    if isinstance(value, list) and isinstance(got, list):
        pairs: list[tuple[object, float]] = list(zip(got, value, strict=True))
    elif isinstance(value, Mapping) and isinstance(got, Mapping):
        pairs = [(got.get(key, math.nan), value[key]) for key in {*got, *value}]
    else:
        assert isinstance(value, int | float), number.name
        pairs = [(got, value)]
    return all(
        isinstance(ours, int | float) and math.isclose(ours, theirs, rel_tol=0, abs_tol=within)
        for ours, theirs in pairs
    )


@pytest.fixture(scope="module")
def numbers(shared: Path) -> list[Number]:
    return numbers_of(shared)


def test_every_row_has_a_rule_and_every_rule_a_row(numbers: list[Number]) -> None:
    rules = [rule_of(number) for number in numbers]

    assert len(numbers) == 822
    assert [n.name for n, rule in zip(numbers, rules, strict=True) if rule is None] == []
    assert [rule.metric for rule in RULES if rule not in rules] == []


@pytest.mark.parametrize("tool", ["reference", "TraceLens", "HTA"])
def test_every_row_is_ours_or_follows_from_ours(numbers: list[Number], tool: str) -> None:
    wrong = []
    for number in numbers:
        rule = rule_of(number)
        if rule is None or rule.tool.split()[0] != tool:
            continue
        got = rule.read(number)
        if not is_equal(got, number):
            wrong.append(f"{number.name}: {number.value} expected, {got} computed")
    assert wrong == []


def test_a_number_that_is_off_is_found(numbers: list[Number]) -> None:
    for number in numbers:
        off = structs.replace(number, value=_moved(number.value))
        assert not is_equal(number.value, off), number.name


def _moved(value: Value) -> Value:
    if isinstance(value, list):
        return [*value[:-1], value[-1] + 0.1]
    if isinstance(value, Mapping):
        return {**value, "0": value.get("0", 0) + 1}
    return value + 0.1
