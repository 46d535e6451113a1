"""Which steps nsys records."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from recorded_steps import StepRecorder, Steps, parse_steps


def device(said: list[str]) -> SimpleNamespace:
    """What torch.cuda is asked to do, in its order."""
    return SimpleNamespace(
        synchronize=lambda: said.append("wait"),
        profiler=SimpleNamespace(
            start=lambda: said.append("start"), stop=lambda: said.append("stop")
        ),
        nvtx=SimpleNamespace(range_push=said.append, range_pop=lambda: said.append("end")),
    )


def test_whole_steps_are_recorded_and_named() -> None:
    said: list[str] = []
    recorder = StepRecorder(Steps(2, 3), device(said))
    optimizer = object()

    recorder.begin()
    for _ in range(4):
        recorder.after_step(optimizer, (), {})

    assert said == [
        *("step 1", "end", "wait", "start", "step 2", "end", "step 3", "end", "wait", "stop"),
        *("step 4", "end", "step 5"),
    ]


def test_a_second_optimizer_makes_no_step_of_its_own() -> None:
    said: list[str] = []
    recorder = StepRecorder(Steps(5, 6), device(said))
    first, second = object(), object()

    for _ in range(3):
        recorder.after_step(first)
        recorder.after_step(second)

    assert recorder.done == 3


@pytest.mark.parametrize("text", ["", "5", "5-", "0-3", "6-5", "a-b", "1-2-3"])
def test_what_names_no_steps_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NSYS_STEPS is"):
        parse_steps(text)
