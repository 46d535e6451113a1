"""After every key and every resize the slim stream shows what the whole one does.

One program sends both streams, so that they are of the same frames: the slim one to its terminal,
the whole one to a file.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from ptys import ESCAPE, HERE, Program, Understood, running
from screens import Terminal, differences

pytestmark = pytest.mark.long

KEYS = [
    *("12345623232323", "hjklhjklhjkl", "HJKLG", "adwsadws", "ADf0+-", "][][}{<>", ".,iI"),
    *("bopzvT|x", "nN#/gtrcCFmu'", "RVO!", "?\t\x1b\x1b\r\x7f\x14\x12\x17\x13\x0c"),
]
ARROWS = [
    "\x1b[A",
    "\x1b[B",
    "\x1b[C",
    "\x1b[D",
    "\x1b[Z",
    "\x1b[5~",
    "\x1b[6~",
    "\x1b[H",
    "\x1b[F",
]
SIZES = [(80, 24), (70, 18), (100, 30), (60, 15), (120, 40), (165, 45), (20, 5), (81, 25)]
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
_BURST = 40
_LONGEST_S = 60.0


class Whole:
    """The stream that the plain driver would have sent, on a terminal of its own."""

    def __init__(self, path: Path, width: int, height: int) -> None:
        self._path = path
        self._read = 0
        self._text = Understood()
        self.terminal = Terminal(width, height)

    def follow(self) -> None:
        """Show what has come since."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        self.terminal.feed(self._text(data))


def agree(program: Program, whole: Whole, what: str) -> None:
    """Read both until they look the same."""
    deadline = time.monotonic() + _LONGEST_S
    while True:
        program.drain(0.05)
        whole.follow()
        wrong = differences(program.terminal, whole.terminal)
        if not wrong:
            return
        assert time.monotonic() < deadline, f"after {what}: {len(wrong)} differ: {wrong[:3]}"


def burst(chance: random.Random, keys: int) -> str:
    """So many random keys."""
    pool = "".join(KEYS)
    return "".join(
        chance.choice(ARROWS) if chance.random() < 0.1 else chance.choice(pool) for _ in range(keys)
    )


@pytest.mark.parametrize(("width", "height"), [(80, 24), (140, 40)])
def test_they_look_the_same_after_every_key(width: int, height: int, tmp_path: Path) -> None:
    whole = Whole(tmp_path / "whole", width, height)
    with running([str(HERE / "fake_app.py"), str(tmp_path / "whole")], width, height) as one:
        one.wait_for("What costs time")
        agree(one, whole, "start")
        for key in SCRIPT:
            os.write(one.descriptor, key.encode())
            agree(one, whole, repr(key))
        assert not one.has_ended()


def test_random_keys_look_the_same_in_both_streams(tmp_path: Path) -> None:
    chance = random.Random(1)
    width, height = SIZES[0]
    whole = Whole(tmp_path / "whole", width, height)
    with running([str(HERE / "fake_app.py"), str(tmp_path / "whole"), "12"], width, height) as one:
        one.wait_for("What costs time")
        agree(one, whole, "start")
        for _ in range(30):
            keys = burst(chance, _BURST)
            os.write(one.descriptor, keys.encode())
            agree(one, whole, repr(keys))
        assert not one.has_ended()


def test_a_storm_of_resizes_between_keys(tmp_path: Path) -> None:
    chance = random.Random(3)
    whole = Whole(tmp_path / "whole", *SIZES[0])
    with running([str(HERE / "fake_app.py"), str(tmp_path / "whole")], *SIZES[0]) as one:
        one.wait_for("What costs time")
        for _ in range(12):
            for _ in range(chance.randrange(1, 6)):
                one.resize(*chance.choice(SIZES))
                os.write(one.descriptor, burst(chance, 4).encode())
                time.sleep(chance.random() * 0.02)
            size = chance.choice(SIZES)
            one.drain(0.15)
            one.resize(*size)
            whole.follow()
            whole.terminal.screen.resize(size[1], size[0])
            one.drain(0.3)
            os.write(one.descriptor, b"\x0c")  # every cell, now that the size stays
            agree(one, whole, f"{size}")
        assert not one.has_ended()
