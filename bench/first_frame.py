"""Measure CPU time to the first complete frame of the explorer and of a minimal Textual app.

``python -m bench.first_frame DIR`` runs both alternately, each in a terminal of 120×40;
``python -m bench --only starts`` also ``--version``, and one metric of 8 small ranks in the store.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.keys import PAINTED, SPLASH, Screen
from bench.measure import Command, Spread, alternate, compile_modules

_BARE = """\
from textual.app import App
from textual.widgets import Static

class Bare(App):
    ENABLE_COMMAND_PALETTE = False

    def compose(self):
        yield Static("help")

Bare().run()
"""
_SIZE = (120, 40)


def splash_and_paint_ms(directory: Path) -> tuple[float, float]:
    """Return the explorer's CPU milliseconds until its first line and until its first frame."""
    screen = Screen([sys.executable, "-P", "-m", "ccltui", str(directory)], *_SIZE)
    try:
        return screen.cpu_until(SPLASH), screen.cpu_until(PAINTED)
    finally:
        screen.close()


def bare_ms() -> float:
    """Return the CPU milliseconds of an app with one line of text until its first frame."""
    screen = Screen([sys.executable, "-P", "-c", _BARE], *_SIZE)
    try:
        return screen.cpu_until(PAINTED)
    finally:
        screen.close()


FIRST_FRAME, BARE, VERSION, ONE_METRIC = "first frame", "bare Textual", "--version", "one metric"
_METRIC = "iter_time"


def starts_s(
    directory: Path, store: Path, rounds: int, *, log: Callable[[str], None]
) -> Mapping[str, Spread]:
    """Return CPU seconds of starts by name, with ranks of ``directory`` that are in ``store``."""
    seen: dict[str, list[float]] = {"splash": [], FIRST_FRAME: [], BARE: []}
    for number in range(rounds):
        splash, frame = splash_and_paint_ms(directory)
        for name, found in zip(seen, (splash, frame, bare_ms()), strict=True):
            seen[name].append(found / 1e3)
        log(f"  round {number + 1}  first frame: {frame / 1e3:.3f} CPU-s")
    commands = {
        VERSION: Command.child("version"),
        ONE_METRIC: Command.child("metric", directory, _METRIC, store),
    }
    runs, _ = alternate(commands, rounds, log=log)
    seen |= {name: [one.cpu_s for one in done] for name, done in runs.items()}
    return {name: Spread.of(values) for name, values in seen.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print minimum and median of several rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    compile_modules()
    rounds = [(*splash_and_paint_ms(options.directory), bare_ms()) for _ in range(options.rounds)]
    for name, values in zip(
        ("splash", "first frame", "bare Textual"), zip(*rounds, strict=True), strict=True
    ):
        least, median = min(values), statistics.median(values)
        print(f"{name:14}{least:7.0f} CPU-ms at least, {median:.0f} median")
    print(f"first frame / bare: {statistics.median(one[1] / one[2] for one in rounds):.2f}")


if __name__ == "__main__":
    main()
