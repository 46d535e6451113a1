"""The Compare pane: the tables of ``ccltui diff`` between the open job and another path.

It is registered only where the explorer was started with two paths.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import Ink
from ccltui.parsers.window import format_ranks, format_steps, format_window
from ccltui.tui.panes.side_pane import SidePane, paint_lines
from ccltui.tui.state.answers import FileQuery
from ccltui.tui.state.scene import Scene
from ccltui.tui.styled_text import Line

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.parsers.job import Job
    from ccltui.tui.options import ExplorerOptions

NAME: Final = "compare"
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """A line of the comparison; ``is_heading`` where it is a verdict or the head of a table."""

    text: str
    is_heading: bool = False


@dataclass(frozen=True, slots=True)
class CompareQuery(FileQuery["Sequence[ComparedLine]"]):
    """Comparison by ``ccltui diff`` with these arguments."""

    words: tuple[str, ...]

    def answer(self, job: Job, cancelled: Callable[[], bool]) -> Sequence[ComparedLine]:
        """Return the lines that the command prints; its messages where it prints nothing.

        The command is a process of its own: it loads the other job, which needs worker processes,
        and ends when the answer is no longer wanted.
        """
        command = [sys.executable, "-P", "-m", "ccltui", "diff", *self.words]
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            while True:
                try:
                    printed, messages = process.communicate(timeout=_POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    if cancelled():
                        process.kill()
                        return ()
        return compared_lines((printed or messages).decode("utf-8", "replace"))


def compared_lines(printed: str) -> tuple[ComparedLine, ...]:
    """Return the lines of a printed comparison; the first of each block is a heading."""
    lines = printed.splitlines()
    before = ["", *lines]
    return tuple(
        ComparedLine(text, is_heading=bool(text) and not last)
        for text, last in zip(lines, before, strict=False)
    )


class ComparePane(SidePane[ComparedLine]):
    """Differences between the open job (A) and another path (B)."""

    name = NAME
    key = "&"
    title = "Compare"
    short_title = "Cmp"
    about = (
        "The second path (B) against the open one (A): whether both did the same work, the step "
        "time with its 95 % interval, its parts as a waterfall, dimensions, stragglers, "
        "collectives, kernels and operators by size of the difference. Steps, ranks and window of "
        "the view apply to both. ccltui diff prints the same."
    )
    kind = CompareQuery
    definition = "B - A: the second path less the open one; ±: half of the 95 % interval"

    def __init__(self, other: str, options: ExplorerOptions) -> None:
        super().__init__()
        self._other = other
        self._options = options

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return None: two paths are given."""
        return None

    def query(self, scene: Scene) -> CompareQuery:
        """Return the query for the comparison under the filters of the view."""
        words = self._words(scene)
        if self._options.cache_dir is not None:
            words += ["--cache-dir", str(self._options.cache_dir)]
        return CompareQuery(tuple(words))

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw a page of lines."""
        from ccltui.draw.planes import Planes

        planes = Planes.blank(height, width, Ink.TEXT)
        lines = self.rows(scene)
        if not lines:
            name = Path(self._other).name
            planes.put(1, 1, f"Comparing with {name} …", Ink.DIM)
            return planes
        shown = [(line.text, Ink.STRONG if line.is_heading else Ink.TEXT) for line in lines]
        paint_lines(planes, shown, self.row(scene))
        return planes

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the name of the other path."""
        return [("" if narrow else f"B: {Path(self._other).name} ", Ink.TAB)]

    def command(self, scene: Scene) -> list[str] | None:
        """Return the command that prints these tables."""
        return ["ccltui", "diff", *self._words(scene)]

    def _words(self, scene: Scene) -> list[str]:
        """Arguments of ``ccltui diff`` under the filters of the view."""
        chosen, options = scene.session.filter, self._options
        words = [scene.session.path, self._other]
        if chosen.window is not None:
            words.append(f"--window={format_window(chosen.window)}")
        if chosen.steps is not None:
            words += ["--steps", format_steps(chosen.steps)]
        if chosen.ranks is not None:
            words += ["--ranks", format_ranks(chosen.ranks)]
        if options.capture is not None:
            words += ["--a", f"capture={options.capture}"]
        if options.iteration is not None:
            words += ["--a", f"iteration={options.iteration}"]
        if chosen.span != "steps":
            words += ["--span", chosen.span]
        if chosen.profile_mode != "auto":
            words += ["--profile-mode", chosen.profile_mode]
        for name, value in chosen.overrides.items():
            words += ["--set", f"{name}={value}"]
        return [*words, "--raw-clocks"] if chosen.raw_clocks else words
