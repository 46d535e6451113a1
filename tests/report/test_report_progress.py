"""The progress line of a terminal."""

from __future__ import annotations

import io

import pytest

from ccltui.report.progress import ComputingLine, ProgressLine

GB = 1_000_000_000


class Clock:
    """A clock that stands until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_line_shows_ranks_bytes_speed_and_time_left() -> None:
    clock = Clock()
    line = ProgressLine(io.StringIO(), {"a": 2 * GB, "b": 2 * GB}, clock=clock)
    assert ", ".join(line.parts) == "loading 0/2 ranks, 0 B/4 GB, ctrl+c stops here"

    clock.now += 1
    line.finish("a")
    line.update("b", GB // 2)

    expected = "loading 1/2 ranks, 2.5 GB/4 GB, 2.5 GB/s, 1 s left, ctrl+c stops here"
    assert ", ".join(line.parts) == expected


def test_it_is_drawn_four_times_a_second_at_most_and_erased() -> None:
    clock, stream = Clock(), io.StringIO()
    line = ProgressLine(stream, {"a": GB}, clock=clock)
    for done in range(100):
        clock.now += 0.01
        line.update("a", done)
    assert stream.getvalue().count("\r") in (3, 4)  # 1 s, whatever the rounding

    line.close()

    assert stream.getvalue().endswith("\r\x1b[K")
    assert "\n" not in stream.getvalue()


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (120, "computing straggler_lag  12/88 metrics"),
        (38, "computing straggler_lag"),  # the last column stays empty
        (12, "computing s"),
    ],
)
def test_what_is_computed_never_wraps(
    columns: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    line = ComputingLine(stream)

    line.show("straggler_lag", 12, 88)
    line.close()

    assert stream.getvalue() == f"\r\x1b[K{expected}\r\x1b[K"


def test_nothing_is_written_where_standard_error_is_no_terminal() -> None:
    stream = io.StringIO()
    line = ComputingLine(stream)

    line.show("straggler_lag", 0, 1)
    line.close()

    assert stream.getvalue() == ""
