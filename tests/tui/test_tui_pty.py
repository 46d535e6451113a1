"""In a real terminal: the explorer writes few bytes, and gives the terminal back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from ptys import ESCAPE, HERE, Program, running

from ccltui.demo import Spec, write_job

pytestmark = pytest.mark.long

APP = str(HERE / "fake_app.py")


@pytest.fixture(scope="module")
def busy() -> Iterator[Program]:
    """64 ranks with 360 collectives each at 120x40: every row full of edges."""
    with running([APP, "slim", "64", "60"], 120, 40) as program:
        program.wait_for("What costs time")
        program.drain(1.0)
        yield program


def test_bytes_of_each_key_stay_within_the_budget(busy: Program) -> None:
    budgets = [
        ("pane switch", "2", 20_000),
        ("next worst", "]", 4_000),
        ("next worst again", "]", 4_000),
        ("cursor step", "l", 500),
        ("rank", "j", 500),
        ("heat zoom", "w", 4_000),
        ("pane switch to the timeline", "3", 20_000),
        ("zoom", "w", 20_000),
        ("zoom deeper", "w", 20_000),
        ("pan", "d", 8_000),
        ("pan back", "a", 8_000),
        ("cursor", "l", 500),
        ("rank on the timeline", "j", 500),
        ("pane switch to the events", "4", 20_000),
        ("event", "j", 500),
        ("drawer", "\r", 8_000),
        ("next worst with the drawer", "]", 8_000),
        ("drawer closed", "\x1b", 8_000),
    ]
    spent = {name: (busy.press(key), budget) for name, key, budget in budgets}

    assert {name: size for name, (size, budget) in spent.items() if size > budget} == {}


def test_bytes_on_a_wide_screen_stay_within_the_budget() -> None:
    budgets = [
        ("pane switch", "2", 45_000),
        ("next worst", "]", 45_000),
        ("cursor step", "l", 1_000),  # two charts with one cursor
        ("zoom", "3ww", 90_000),
        ("zoom deeper", "w", 45_000),
        ("pan", "d", 12_000),
        ("pan back", "a", 12_000),
        ("rank", "j", 1_000),
    ]
    with running([APP, "slim", "64", "60"], 200, 50) as wide:
        wide.wait_for("What costs time")
        wide.drain(1.0)
        spent = {name: (wide.press(key), budget) for name, key, budget in budgets}

    assert {name: size for name, (size, budget) in spent.items() if size > budget} == {}


def test_bytes_of_tables_lanes_and_drawers_stay_within_the_budget() -> None:
    """As above; each key with what its answer shows, which comes when it is computed.

    Lanes that come or go redraw the chart, as a zoom does.
    """
    budgets = [
        ("kernels", "*", "sm90_xmma_gemm_bf16  ", 20_000),
        ("row of kernels", "j", "▶ncclDevKerne", 500),
        ("order of kernels", "o", "▼calls", 4_000),
        ("kernels by category", "C", "2 categories", 4_000),
        ("an instance", "\r", "net ", 20_000),
        ("parallelism", "%", "tp, pp, dp, ep, cp", 20_000),
        ("groups of a dimension", " ", "default_pg 0-63  ", 4_000),
        ("steps", "6", "rank by rank", 20_000),
        ("a step", "j", "── step 3", 4_000),
        ("lanes", "3", "net ", 20_000),
        ("streams", "u", "s20 ", 20_000),
        ("host", "U", "range ", 20_000),
        ("inspector", "E", "kind kernel", 8_000),
        ("row of the inspector", "j", "kind kernel", 500),
        ("inspector closed", ESCAPE, "host", 20_000),
        ("heat", "2", "r62/r63", 20_000),
        ("causal chain", "Z", "arrived last at", 8_000),
        ("link of the chain", "j", "▶kernel", 500),
        ("chain closed", ESCAPE, "r62/r63", 8_000),
    ]
    with running([APP, "slim", "64", "60"], 120, 40) as program:
        program.wait_for("What costs time")
        program.drain(1.0)
        spent = [
            (name, program.press_until(key, text), budget) for name, key, text, budget in budgets
        ]

    assert [one for one in spent if one[1] > one[2]] == []


def test_bytes_of_a_comparison_stay_within_the_budget(tmp_path: Path) -> None:
    for name, gemm_ns in (("a", 300_000), ("b", 360_000)):
        spec = Spec.quiet(pp=1, steps=2, layers=1, micro_batches=2, gemm_ns=gemm_ns)
        write_job(tmp_path / name, spec)
    command = ["-P", "-m", "ccltui", str(tmp_path / "a"), str(tmp_path / "b")]
    with running([*command, "--cache-dir", str(tmp_path / "cache")], 120, 40) as program:
        program.wait_for("What costs time")
        program.drain(1.0)
        opened = program.press_until("&", "transfer of world")
        row = program.press("j")

    assert opened < 20_000
    assert row < 500


def test_a_held_key_costs_few_frames_and_then_there_is_silence(busy: Program) -> None:
    busy.press("30www")
    size = 0
    for _ in range(30):
        os.write(busy.descriptor, b"d")
        size += busy.drain(0.03)
    size += busy.drain(1.0)

    assert 0 < size < 100_000
    assert busy.drain(2.0) == 0


@pytest.mark.parametrize(("number", "code"), [(None, 0), (signal.SIGTERM, 143)])
def test_the_terminal_is_given_back(number: signal.Signals | None, code: int) -> None:
    with running([APP, "slim"], 80, 24) as program:
        program.wait_for("What costs time")
        if number is None:
            os.write(program.descriptor, b"q")
        else:
            os.kill(program.pid, number)
        written = program.read_to_end()

        assert "\x1b[?1049l" in written
        assert "\x1b[?25h" in written
        assert program.exit_code() == code
