"""The sequence that sets the clipboard, also through tmux and GNU screen."""

from __future__ import annotations

import base64
import os
import re

import pytest
from ptys import HERE, running

from ccltui.tui.terminal.compat import osc52

TEXT = "ccltui 'a b' --metric straggler_lag ±"
PLAIN = f"\x1b]52;c;{base64.b64encode(TEXT.encode()).decode()}\x07"


def test_a_terminal_gets_the_sequence_itself() -> None:
    assert osc52(TEXT, {"TERM": "xterm-256color"}) == PLAIN


def test_tmux_gets_the_sequence_plain_and_wrapped() -> None:
    sent = osc52(TEXT, {"TERM": "screen-256color", "TMUX": "/tmp/x"})

    assert sent.startswith(PLAIN)
    wrapped = sent.removeprefix(PLAIN)
    assert wrapped.startswith("\x1bPtmux;")
    assert wrapped.endswith("\x1b\\")
    inner = wrapped.removeprefix("\x1bPtmux;").removesuffix("\x1b\\")
    assert inner.replace("\x1b\x1b", "\x1b") == PLAIN


@pytest.mark.parametrize("length", [0, 10, 700, 5000])
def test_gnu_screen_gets_pieces_it_forwards(length: int) -> None:
    sent = osc52("x" * length, {"TERM": "screen"})

    pieces = re.findall("\x1bP(.*?)\x1b\\\\", sent, re.DOTALL)
    assert max(map(len, pieces)) <= 700
    assert "".join(pieces) == osc52("x" * length, {})


@pytest.mark.parametrize("driver", ["slim", "plain"])
def test_copying_does_not_change_the_screen(driver: str) -> None:
    with running([str(HERE / "fake_app.py"), driver], 80, 24) as program:
        program.wait_for("What costs time")
        program.press("2")
        before = program.terminal.text()[:21]
        os.write(program.descriptor, b"y")
        program.wait_for("copied: ccltui")

        assert program.terminal.text()[:21] == before
