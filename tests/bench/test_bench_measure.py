"""Processes are measured whole, in alternation, and one that fails is told, not hidden."""

from __future__ import annotations

import sys

import pytest

from bench.compare import row_of
from bench.measure import OURS, Command, Run, RunError, Spread, alternate, run


def program(text: str) -> Command:
    return Command((sys.executable, "-c", text), OURS)


def test_a_run_tells_memory_and_what_was_said() -> None:
    done = run(program("x = bytearray(200 << 20); print('noise'); print('{\"events\": 3}')"))

    assert done.output == {"events": 3}
    assert done.peak_mib > 200
    assert done.cpu_s > 0
    assert done.wall_s > 0


def test_children_of_a_run_count() -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', {!r}]); print('{{}}')"

    done = run(program(child.format("x = bytearray(200 << 20)")))

    assert done.peak_mib > 200


def test_the_measuring_process_stays_small() -> None:
    """The kernel counts its memory to every process that it starts."""
    text = "import bench.__main__, json, sys; print(json.dumps({'big': 'numpy' in sys.modules}))"

    assert run(program(text)).output == {"big": False}


def test_a_failure_is_told_in_its_last_line() -> None:
    with pytest.raises(RunError, match="ValueError: broken"):
        run(program("raise ValueError('broken')"))


def test_silence_is_a_failure() -> None:
    with pytest.raises(RunError, match="printed no result"):
        run(program("print('no object')"))


def test_each_round_begins_with_another_method() -> None:
    output: list[str] = []
    commands = {name: program(f"print('{{\"n\": {index}}}')") for index, name in enumerate("abc")}

    runs, failures = alternate(commands, 2, log=output.append)

    assert [line.split(":")[0].split()[-1] for line in output] == ["a", "b", "c", "b", "c", "a"]
    assert {name: [done.output["n"] for done in group] for name, group in runs.items()} == {
        "a": [0, 0],
        "b": [1, 1],
        "c": [2, 2],
    }
    assert failures == {}


def test_a_method_that_fails_is_not_tried_again() -> None:
    output: list[str] = []
    commands = {"good": program("print('{}')"), "bad": program("raise SystemExit('no such file')")}

    runs, failures = alternate(commands, 3, log=output.append)

    assert failures == {"bad": "no such file"}
    assert list(runs) == ["good"]
    assert len(runs["good"]) == 3


def test_ratios_are_taken_round_by_round() -> None:
    ours = [Run(1.0, 9.0, 50.0, {}), Run(2.0, 9.0, 50.0, {}), Run(1.0, 9.0, 50.0, {})]
    theirs = [Run(4.0, 1.0, 100.0, {}), Run(20.0, 2.0, 100.0, {}), Run(5.0, 3.0, 150.0, {})]

    row = row_of("theirs", theirs, ours)

    assert row.cpu_s == Spread(5.0, 4.0, 20.0)
    assert row.wall_s == Spread(2.0, 1.0, 3.0)
    assert row.cpu_ratio == Spread(5.0, 4.0, 10.0)
    assert row.peak_ratio == Spread(2.0, 2.0, 3.0)
