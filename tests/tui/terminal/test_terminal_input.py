"""What a terminal sends becomes messages, and no byte ends the reading of it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from textual import events
from textual.message import Message

from ccltui.tui.terminal.driver import TerminalInput

SEQUENCES = (
    *(b"\x1b[%d;1u" % code for code in (0, 27, 97, 0x10FFFF, 0x110000, 2**31, 2**63, 10**20)),
    *(b"\x1b[97;1;%du" % code for code in (55296, 57343, 0x110000, 99999999999)),
    *(b"\x1b[<0;%d;%dM" % (x, y) for x, y in ((1, 1), (0, 0), (10**9, 5), (-4, 3), (65535, 1))),
    *(b"\x1b[48;%d;%d;%d;%dt" % one for one in ((24, 80, 0, 0), (0, 0, 0, 0), (24, 80, 480, 800))),
    b"\x1b[48;99999999;99999999;1;1t",
    b"\x1b[M !!",
    b"\x1b[M\xff\xfe\xfd",
    b"\x1b[200~caf\xe9\x1b[201~",
    b"\x1b[?2026;2$y",
    b"\x1b[99999999999999999999R",
    b"\x1b[I\x1b[O\x1bOA\x1b[",
    "é→\U0001f600".encode(),
)


def received(source: TerminalInput, *pieces: bytes) -> list[Message]:
    """Return every message of some pieces, one after the other."""
    return [message for piece in pieces for message in source.messages(piece)]


def typed(messages: Sequence[Message]) -> str:
    """Return the characters of the keys."""
    return "".join(m.character or "" for m in messages if isinstance(m, events.Key))


@pytest.mark.parametrize(
    "odd",
    [
        b"\x1b[99999999999;1u",
        b"\x1b[1114112;1u",
        b"\x1b[97;1;1114112u",
        b"\x1b[55296;1u",
        b"\x1b[97;1;57343u",
        b"\x1b[<0;99999999999;5M",
        b"\x1b[48;99999999;99999999;1;1t",
        b"\x1b[48;0;0;0;0t",
        b"\x1b[M !!",
        b"\x1b[M\xff\xfe\xfd",
        b"\x1b[M\xc3\xa9\x80",
    ],
)
def test_what_is_no_key_and_no_place_is_ignored(odd: bytes) -> None:
    found = received(TerminalInput(), b"j" + odd + b"k")

    assert [type(one) for one in found] == [events.Key, events.Key]
    assert typed(found) == "jk"


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    assert typed(received(TerminalInput(), b"j\xffk")) == "j\ufffdk"
    (paste,) = received(TerminalInput(), b"\x1b[200~caf\xe9 au lait\x1b[201~")
    assert isinstance(paste, events.Paste)
    assert paste.text == "caf\ufffd au lait"


def test_a_character_comes_in_pieces() -> None:
    assert typed(received(TerminalInput(), b"a\xc3", b"\xa9b")) == "a\xe9b"


def test_places_on_the_screen_are_kept_where_the_size_of_a_cell_is_unknown() -> None:
    found = received(TerminalInput(), b"\x1b[48;24;80;0;0t", b"\x1b[<0;11;6M")

    assert isinstance(found[0], events.Resize)
    assert isinstance(found[1], events.MouseDown)
    assert (found[1].x, found[1].y) == (10, 5)


def test_an_error_of_the_parser_costs_one_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    source = TerminalInput()

    def broken(text: str) -> list[Message]:
        raise RuntimeError(text)

    monkeypatch.setattr(source._parser, "feed", broken)
    assert received(source, b"j") == []
    assert typed(received(source, b"k")) == "k"


@pytest.mark.parametrize("seed", range(40))
def test_random_bytes_between_keys(seed: int) -> None:
    chance = random.Random(seed)
    source = TerminalInput()
    for _ in range(200):
        parts = [chance.choice(SEQUENCES), chance.randbytes(chance.randrange(1, 9))]
        odd = bytearray(b"".join(chance.sample(parts, chance.randrange(1, 3))))
        if chance.random() < 0.5:
            odd[chance.randrange(len(odd))] = chance.randrange(256)
        cut = chance.randrange(len(odd) + 1)
        for message in received(source, bytes(odd[:cut]), bytes(odd[cut:])):
            if isinstance(message, events.Key):
                (message.key + (message.character or "")).encode()
            if isinstance(message, events.MouseEvent):
                assert 0 <= message.x <= 65_535
                assert 0 <= message.y <= 65_535
    # An open paste or sequence may take what follows; after its end keys are keys.
    assert typed(received(source, b"\x1b[201~" + b"\x1b[I" * 20 + b"jk")).endswith("jk")
