"""What the soak test judges: growth from the second third of its samples to the last."""

from __future__ import annotations

import pytest
from msgspec import structs

from bench.soak import Sample, verdict

FLAT = [Sample(1000 * n, 100_000 + n, 3, 12 + n % 2, 26, 0) for n in range(12)]


def test_flat_samples_are_no_problem() -> None:
    assert verdict(FLAT) == []


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("memory_kib", 106_000, "memory grew by 6.0%"),
        ("threads", 14, "threads grew from 13 to 14"),
        ("handles", 27, "handles grew from 26 to 27"),
        ("processes", 4, "processes grew from 3 to 4"),
        ("temporary", 1, "temporary grew from 0 to 1"),
    ],
)
def test_what_grew_is_named(name: str, value: int, problem: str) -> None:
    later = [structs.replace(one, **{name: value}) for one in FLAT[8:]]

    assert verdict([*FLAT[:8], *later]) == [problem]


def test_too_few_samples_are_no_answer() -> None:
    assert verdict(FLAT[:5]) == ["too few keys to judge: fewer than six samples"]
