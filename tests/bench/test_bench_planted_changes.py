"""A planted change of the step time is found, given the right sign, and its kernel named."""

from __future__ import annotations

import pytest

from bench.verdicts.planted_changes import main, outcome

SEEDS = range(40)


def test_a_change_of_3_percent_under_noise_of_2_is_found_in_20_steps() -> None:
    found = [outcome(seed, 20) for seed in SEEDS]

    assert sum(one.found for one in found) >= 0.95 * len(found)
    assert sum(one.named_first for one in found) >= 0.95 * len(found)
    assert not any(one.wrong_sign for one in found)


def test_three_steps_have_no_verdict() -> None:
    found = [outcome(seed, 3) for seed in SEEDS]

    assert {one.verdict for one in found} == {"not distinguishable"}


def test_equal_jobs_are_rarely_called_different() -> None:
    found = [outcome(seed, 12, change=0.0) for seed in SEEDS]

    # The intervals are of 95 %: more than 6 of 40 are called different in 1 of 300 such samples.
    assert sum(one.verdict != "not distinguishable" for one in found) <= 6


def test_the_script_prints_a_line_for_each_number_of_steps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--seeds", "2", "--steps", "3"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["steps", "3", "3"]
