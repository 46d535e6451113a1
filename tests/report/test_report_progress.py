"""The progress line of a terminal."""

from __future__ import annotations

import io

from ccltui.report.progress import ProgressLine

GB = 1_000_000_000


class Clock:
    """A clock that stands until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_line_shows_ranks_bytes_speed_and_time_left() -> None:
    clock = Clock()
    line = ProgressLine(io.StringIO(), {"a": 2 * GB, "b": 2 * GB}, clock=clock)
    assert line.text == "loading 0/2 ranks  0 B/4 GB  ctrl+c stops and keeps these"

    clock.now += 1
    line.finish("a")
    line.update("b", GB // 2)

    assert line.text == (
        "loading 1/2 ranks  2.5 GB/4 GB  2.5 GB/s  1 s left  ctrl+c stops and keeps these"
    )


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
