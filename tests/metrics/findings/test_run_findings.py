"""What a training log shows beyond the time of a step: timers, waits for data, slow steps."""

from __future__ import annotations

from pathlib import Path

from runs_by_hand import view_of

from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.findings.finding import Finding

DEEPSPEED = (
    "[2026-01-02 00:00:01,000] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | "
    "forward: 80.00 | backward: 320.00 | backward_inner: 200.00 | backward_allreduce: 120.00 | "
    "step: 400.00\n"
)
MEGATRON = """\
 iteration       10/     100 | elapsed time per iteration (ms): 1000.0 | lm loss: 6.1E+00 |
(min, max) time across ranks (ms):
    forward-backward ...............................: (800.00, 900.00)
    forward-compute ................................: (200.00, {most})
    backward-recv ..................................: (10.00, 500.00)
    optimizer ......................................: (99.00, 100.00)
"""


def first(folder: Path, text: str) -> Finding:
    (folder / "train.log").write_text(text, encoding="utf-8")
    return answer_of(view_of(folder)).findings[0]


def test_the_largest_part_of_a_step_by_timers(tmp_path: Path) -> None:
    found = first(tmp_path, DEEPSPEED * 2)

    assert found.text == "The optimizer takes 50 % of a step of 800 ms (DeepSpeed's timers)."
    assert found.more == (
        "Medians of 2 steps: the backward passes 25 %, reducing gradients 15 %, the forward passes "
        "10 %."
    )


def test_timers_of_micro_steps_alone(tmp_path: Path) -> None:
    line = "time (ms) | forward_microstep: 10.0 | backward_microstep: 30.0 | step_microstep: 0.00\n"

    assert first(tmp_path, line).text == (
        "The backward passes take 75 % of a micro-step of 40 ms (DeepSpeed's timers)."
    )


def test_the_part_in_which_ranks_differ(tmp_path: Path) -> None:
    found = first(tmp_path, MEGATRON.format(most="500.00"))

    assert found.text == (
        "Ranks take 200 ms to 500 ms for forward-compute: they differ by 30 % of a step "
        "(Megatron's timers)."
    )
    assert found.where.ranks == ()


def test_even_ranks_are_no_finding(tmp_path: Path) -> None:
    assert first(tmp_path, MEGATRON.format(most="210.00")).text.startswith("A step of the run")


def test_waits_for_data(tmp_path: Path) -> None:
    lines = [f"iter: {at}  loss: 2.5  time: 0.4000  data_time: 0.1000\n" for at in range(1, 6)]

    found = first(tmp_path, "".join(lines))

    assert (found.kind, found.share) == ("data_loading", 0.25)
    assert found.text == "A step waits 100 ms of 400 ms for data, 25 %."


def test_waits_for_data_that_are_no_part_of_the_time_of_a_step(tmp_path: Path) -> None:
    lines = [f"iter: {at}  loss: 2.5  time: 0.4000  data_time: 9.0000\n" for at in range(1, 6)]

    found = first(tmp_path, "".join(lines))

    assert (found.kind, found.share) == ("data_loading", None)
    assert found.text == (
        "A step waits 9 s for data, longer than the 400 ms that the log states for a step."
    )


def test_steps_that_took_several_times_as_long(tmp_path: Path) -> None:
    times = [100, 100, 102, 98, 1000, 100, 101]
    text = "".join(f"iter {at}: loss 4.0, time {ms}.00ms\n" for at, ms in enumerate(times))

    found = first(tmp_path, text)

    assert (found.kind, found.where.steps) == ("slow_steps", (4,))
    assert found.text == "Step 4 takes 1 s, 10 times as long as the others."
    assert found.more == "60 % of the time of the log is lost in them."
