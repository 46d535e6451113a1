"""The Compare pane: the tables of ``ccltui diff`` between the open job and another path.

It is registered only where the explorer was started with two paths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.draw import text
from ccltui.draw.palette import Ink
from ccltui.tui.options import OtherPath
from ccltui.tui.panes.text_page import TextPage
from ccltui.tui.state.answers import FileQuery
from ccltui.tui.state.compared import run_diff
from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from ccltui.parsers.job import Job
    from ccltui.tui.options import ExplorerOptions

NAME: Final = "compare"
_NARROWEST: Final = 78  # columns of a line at 80 by 24
_MOST: Final = 8  # lines of a sentence


class ComparedLine(Struct, frozen=True):
    """A line of the comparison; ``is_heading`` where it is a verdict or the head of a table."""

    text: str
    is_heading: bool = False


class CompareQuery(FileQuery["Sequence[ComparedLine]"], frozen=True):
    """Comparison by ``ccltui diff`` with these arguments."""

    words: tuple[str, ...]

    def answer(self, job: Job, cancelled: Callable[[], bool]) -> Sequence[ComparedLine]:
        """Return the lines that the command prints; its messages where it prints nothing."""
        done = run_diff(self.words, cancelled)
        if done is None:
            return ()
        printed, messages = done
        return compared_lines((printed or messages).decode("utf-8", "replace"))


def compared_lines(printed: str) -> tuple[ComparedLine, ...]:
    """Return the lines of a printed comparison; the first of each block is a heading.

    Sentences are wrapped to the narrowest screen, tables are not.
    """
    lines = [part for line in printed.splitlines() for part in _wrapped(line)]
    before = ["", *lines]
    return tuple(
        ComparedLine(line, is_heading=bool(line) and not last)
        for line, last in zip(lines, before, strict=False)
    )


def _wrapped(line: str) -> list[str]:
    """Return a line in parts that fit ``_NARROWEST``; cells of tables are two spaces apart."""
    is_table = "  " in line.strip()
    if is_table or len(line) <= _NARROWEST:
        return [line]
    return text.wrap(line, _NARROWEST, most=_MOST, indent="  ")


class ComparePane(TextPage[ComparedLine]):
    """Differences between the open job (A) and another path (B)."""

    name = NAME
    key = "&"
    title = "Compare"
    short_title = "Cmp"
    about = (
        "The second path (B) against the open one (A): whether both did the same work, the step "
        "time with its 95 % interval, its parts as a waterfall, dimensions, stragglers, "
        "collectives, kernels and operators by size of the difference. Steps, ranks and window of "
        "the view apply to both. Two single runs are not distinguishable from noise between runs, "
        "unless --runs-vary PCT states it. ccltui diff prints the same."
    )
    asks = CompareQuery
    noun = "line"
    definition = "B - A: the second path less the open one; ±: half of the 95 % interval"

    def __init__(self, other: str, options: ExplorerOptions) -> None:
        super().__init__()
        self._other = OtherPath.of(other, options)
        self.waiting = self.nothing = f"comparing with {self._other.name} …"

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return None: two paths are given."""
        return None

    def query(self, scene: Scene) -> CompareQuery | None:
        """Return the query for the comparison under the filters of the view."""
        if scene.session.job is None:
            return None
        return CompareQuery(
            (*self._other.words(scene.session.path, scene.session.filter), *self._other.cache)
        )

    def is_heading(self, row: ComparedLine) -> bool:
        """Return whether the line is a verdict or the titles of a table."""
        return row.is_heading

    def ink(self, row: ComparedLine) -> Ink:
        """Return the style of a heading, or of another line."""
        return Ink.STRONG if row.is_heading else Ink.TEXT

    def remark(self, scene: Scene, *, narrow: bool) -> str:
        """Return the name of the other path."""
        return "" if narrow else f"B: {self._other.name}"

    def command(self, scene: Scene) -> list[str] | None:
        """Return the command that prints these tables."""
        return ["ccltui", "diff", *self._other.words(scene.session.path, scene.session.filter)]
