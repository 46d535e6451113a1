"""The slim stream must leave the same screen as the full one, in fewer bytes."""

from __future__ import annotations

from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from screens import Terminal, differences

from ccltui.tui.terminal.screen_model import (
    SYNC_END,
    SYNC_START,
    ScreenModel,
    Shift,
    change,
    look_of,
)

WIDTH, HEIGHT = 64, 6

LOOKS = st.sampled_from(
    [
        "38;5;32;48;5;208",
        "48;5;208",
        "1;38;2;1;2;3;48;2;4;5;6",
        "38;5;208",
        "7",
        "4",
        "1",
        "1;7;31;42",
    ]
)
TEXTS = st.one_of(
    st.text("ab  ▁▂█▀", min_size=1, max_size=8), st.sampled_from([" " * 13, "a" + " " * 14 + "b"])
)
PIECES = st.tuples(
    st.integers(0, HEIGHT - 1),
    st.integers(0, WIDTH - 48),
    st.lists(st.tuples(LOOKS, TEXTS), max_size=3),
)
ODD = st.sampled_from(["\x1b[2J", "\x1b[3;4Hx\x1b[K", "\x1b[?25l", "\x1b[1;1H数ab", "\x07", "\r"])
SHIFTS = st.builds(
    Shift,
    st.integers(0, 2),
    st.integers(3, HEIGHT),
    st.integers(0, 8),
    st.integers(-WIDTH - 5, WIDTH + 5).filter(bool),
)


def frame(pieces: list[tuple[int, int, list[tuple[str, str]]]]) -> str:
    """A frame as Textual writes it: moves, and text between a look and a reset."""
    out = []
    for y, x, runs in pieces:
        shown = "".join(f"\x1b[{look}m{text}\x1b[0m" for look, text in runs)
        out.append(f"\x1b[{y + 1};{x + 1}H{shown}")
    return "".join(out) + "\x1b[1;1H"


FRAMES = st.lists(
    st.one_of(
        st.lists(PIECES, max_size=6).map(frame).map(lambda text: (text, None)),
        ODD.map(lambda text: (text, None)),
        st.tuples(st.lists(PIECES, max_size=8).map(frame), SHIFTS),
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(FRAMES, st.sampled_from([0, 600]), st.booleans())
def test_the_screen_is_the_same(
    frames: list[tuple[str, Shift | None]], small: int, erases: bool
) -> None:
    with mock.patch(
        "ccltui.tui.terminal.screen_model._SMALL", small
    ):  # of 0: always try the other order
        check_same(frames, erases=erases)


def check_same(frames: list[tuple[str, Shift | None]], *, erases: bool) -> None:
    """Feed a whole and a slim stream to two terminals."""
    model = ScreenModel(WIDTH, HEIGHT)
    model.erases = erases
    full, slim = Terminal(WIDTH, HEIGHT), Terminal(WIDTH, HEIGHT)
    for text, hint in frames:
        if hint is not None:
            model.expect(hint)

        full.feed(text)
        slim.feed(model.feed(text))

        assert differences(full, slim) == []


def test_unchanged_cells_are_not_sent_again() -> None:
    model = ScreenModel(WIDTH, HEIGHT)
    first = model.feed("\x1b[2;3H\x1b[38;5;1mhello\x1b[0m world")

    assert first == "\x1b[2;3H\x1b[0;38;5;1mhello \x1b[mworld"
    assert model.feed("\x1b[2;3H\x1b[38;5;1mhello\x1b[0m world") == ""
    assert model.feed("\x1b[2;3H\x1b[38;5;1mhellO\x1b[0m world") == "\x1b[2;7H\x1b[38;5;1mO"


def test_a_synchronised_update_without_changes_sends_nothing() -> None:
    model = ScreenModel(WIDTH, HEIGHT)
    model.feed("\x1b[1;1Hx")

    assert model.feed(SYNC_START) + model.feed("\x1b[1;1Hx") + model.feed(SYNC_END) == ""
    parts = [model.feed(text) for text in (SYNC_START, "\x1b[1;1Hy", SYNC_END)]
    assert "".join(parts) == f"{SYNC_START}\x1b[1;1Hy{SYNC_END}"


def test_unknown_sequences_make_the_screen_unknown_harmless_ones_do_not() -> None:
    model = ScreenModel(WIDTH, HEIGHT)
    model.feed("\x1b[1;1Hx")

    assert model.feed("\x1b[?25l\x1b]0;title\x07\x1b[1;1Hx") == "\x1b[?25l\x1b]0;title\x07"
    assert model.feed("\x1b[?1049h\x1b[1;1Hx") == "\x1b[?1049h\x1b[1;1H\x1b[mx"


def test_the_cursor_is_not_moved_before_the_first_absolute_move() -> None:
    model = ScreenModel(WIDTH, HEIGHT)

    assert model.feed("\x1b[?1049h") == "\x1b[m\x1b[?1049h"
    assert model.feed("no place yet\n") == "\x1b[mno\x1b[m \x1b[mplace\x1b[m \x1b[myet\x1b[m\n"
    assert model.feed("\x1b[2;2Hx") == "\x1b[2;2H\x1b[mx"


def test_of_a_shifted_row_only_new_cells_are_sent() -> None:
    row = "".join(chr(0x2581 + (x * 7) % 8) for x in range(WIDTH + 4))
    model, terminal = ScreenModel(WIDTH, HEIGHT), Terminal(WIDTH, HEIGHT)
    terminal.feed(model.feed(f"\x1b[3;1H{row[:WIDTH]}"))

    model.expect(Shift(0, HEIGHT, 0, -4))
    sent = model.feed(f"\x1b[3;1H{row[4:]}")
    terminal.feed(sent)

    assert terminal.text()[2] == row[4:]
    assert sent == f"\x1b[3;1H\x1b[4P\x1b[{WIDTH - 4}C{row[-4:]}"


def lanes(*rows: tuple[str, str]) -> str:
    """Rows of two halves, each in a colour of its own, twice over."""
    parts = []
    for y, (one, other) in enumerate(rows, 1):
        half = f"\x1b[38;5;63m{one}\x1b[0m\x1b[38;5;208m{other}\x1b[0m"
        parts.append(f"\x1b[{y};1H{half}{half}")
    return "".join(parts)


def test_looks_are_written_one_after_another_where_that_is_shorter() -> None:
    model, terminal = ScreenModel(60, 20), Terminal(60, 20)
    terminal.feed(model.feed(lanes(*[("aaaa", "bbbb")] * 20)))

    sent = model.feed(lanes(*[("aAAa", "bBBb")] * 20))
    terminal.feed(sent)

    assert terminal.text() == ["aAAabBBbaAAabBBb".ljust(60)] * 20
    assert (sent.count("38;5;208"), sent.count("38;5;63")) == (0, 1)  # the last one stays set
    assert len(sent) < 20 * 40  # in order: two changes of colour a row, 20 bytes


def test_cells_are_written_again_where_a_move_would_be_longer() -> None:
    model = ScreenModel(WIDTH, HEIGHT)
    model.feed("\x1b[1;1Ha  b▁c▁▁d")

    assert model.feed("\x1b[1;1HA  B▁c▁▁d") == "\x1b[1;1HA  B"
    assert model.feed("\x1b[1;1HA  B▁C▁▁D") == "\x1b[CC\x1b[2CD"


def test_long_blanks_are_erased_where_the_terminal_fills_them_with_the_background() -> None:
    model = ScreenModel(WIDTH, HEIGHT)
    model.erases = True

    line = "\x1b[1;1H\x1b[48;5;4ma" + " " * 20 + "b\x1b[0m"

    assert model.feed(line) == "\x1b[1;1H\x1b[0;48;5;4ma\x1b[20X\x1b[20Cb"
    reverse = model.feed("\x1b[2;1H\x1b[7m" + " " * 20 + "\x1b[0m")
    assert reverse == "\x1b[2;1H\x1b[0;7m" + " " * 20  # an erased cell would not be reversed


def test_a_blank_between_letters_is_written_in_their_colour() -> None:
    model = ScreenModel(WIDTH, HEIGHT)
    model.feed("\x1b[1;1H\x1b[38;5;63mab  cd\x1b[0m")

    sent = model.feed("\x1b[1;1H\x1b[38;5;63maB  Cd\x1b[0m")

    assert sent == "\x1b[1;2HB  C"


def test_looks() -> None:
    assert look_of("1;38;5;208;48;2;1;2;3") == ("1", "38;5;208", "48;2;1;2;3")
    assert look_of("0") == look_of("") == look_of("39;49") == ("", "", "")
    assert look_of("97;101") == ("", "97", "101")
    assert change(("", "31", "42"), ("", "31", "44")) == "\x1b[44m"
    assert change(("1", "31", ""), ("", "31", "")) == "\x1b[22m"
    assert change(("", "31", "42"), ("1;7", "31", "42")) == "\x1b[1;7m"
    assert change(("1;2", "31", "42"), ("2", "31", "42")) == "\x1b[22;2m"
    assert change(("58;5;1", "31", ""), ("", "31", "")) == "\x1b[0;31m"  # nothing ends it alone
    assert change(("", "31", "48;5;208"), ("", "", "48;5;208")) == "\x1b[39m"
    assert change(("", "31", ""), ("", "", "")) == "\x1b[m"
