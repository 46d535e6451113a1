"""In a real terminal: the slim driver shows what the plain one shows, in few bytes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ptys import HERE, Program, drain_together, running
from screens import differences

from ccltui.demo import Spec, write_job

pytestmark = pytest.mark.long

APP = str(HERE / "fake_app.py")
_LONGEST_S = 15.0
# The unambiguous form of the kitty protocol: a bare escape that a busy program reads together with
# the next key is alt and that key.
ESCAPE = "\x1b[27u"

SCRIPT = (
    *"2]]l",
    *"jwwdDa",
    "\r",
    "\t",
    *"jj",
    "\r",
    ESCAPE,
    *"4jjCoGlF",
    "gemm\r",
    *"Ch]",
    "\r",
    ESCAPE,
    "3",
    "/",
    "nccl\r",
    *"nnN2nn#n",
    "g",
    "k 40",
    "\r",
    "gr3\r",
    "ma",
    *"ww",
    "'a",
    "\x7f\x7f\x12",
    "c\r",
    *"5jjkG1",
    *"3vllv",
    "y",
    "T",
    "\x14",
    ESCAPE,
    *"wwdddaA",
    "G",
    "gg",
    *"jb0b",
    *"1jj",
    "\r",
    ESCAPE,
    *"3?x",
    *".i,",
    "t",
    "10ms/30ms\r",
    *"3ww2<<>",
    "\x14",
    *"o]o1",
    "\x0c",
)


def settle_equal(plain: Program, slim: Program, key: str) -> None:
    """Read both until they look the same; a screen that stays different is an error."""
    deadline = time.monotonic() + _LONGEST_S
    while True:
        drain_together((plain, slim), 0.08)
        wrong = differences(plain.terminal, slim.terminal)
        if not wrong:
            return
        assert time.monotonic() < deadline, f"after {key!r} {len(wrong)} cells differ: {wrong[:3]}"


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50)])
def test_slim_and_plain_look_the_same_after_every_key(width: int, height: int) -> None:
    with (
        running([APP, "plain"], width, height) as plain,
        running([APP, "slim"], width, height) as slim,
    ):
        for program in (plain, slim):
            program.wait_for("What costs time")
        settle_equal(plain, slim, "start")
        for key in SCRIPT:
            os.write(plain.descriptor, key.encode())
            os.write(slim.descriptor, key.encode())
            settle_equal(plain, slim, key)


def test_slim_and_plain_look_the_same_after_resizes() -> None:
    with running([APP, "plain"], 100, 30) as plain, running([APP, "slim"], 100, 30) as slim:
        for program in (plain, slim):
            program.wait_for("What costs time")
        for width, height in ((120, 40), (60, 15), (90, 24), (170, 45), (100, 30)):
            for program in (plain, slim):
                program.resize(width, height)
                program.press("3w")
            settle_equal(plain, slim, f"{width}x{height}")


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
