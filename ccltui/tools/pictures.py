"""Draw the pictures of the documentation: screens of the explorer on jobs that the demo makes.

``python -m ccltui.tools.pictures`` writes ``docs/pictures``; ``--check`` fails where a picture
differs from what the explorer draws now. A picture is Textual's own screenshot in fewer bytes,
without what differs from one process to the next, and without fonts of another host.
"""

from __future__ import annotations

import os

os.environ["TEXTUAL_COLOR_SYSTEM"] = "256"  # read when textual is imported
os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ.pop("NO_COLOR", None)

import asyncio
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import Final, Literal

from msgspec import Struct

from ccltui import cli
from ccltui.report.output import write_file
from ccltui.tui.app import Explorer
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.state.wanted_queries import is_waiting
from ccltui.tui.terminal.compat import screen_picture

FOLDER: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "pictures"
_LONGEST_S: Final = 120.0  # a screen takes a second; a machine that is busy a few times that


class Picture(Struct, frozen=True):
    """One screen: the job, the keys that lead to it from the start, and the size in cells."""

    name: str
    keys: tuple[str, ...] = ()
    job: str = "demo"
    theme: Literal["dark", "light"] = "dark"
    size: tuple[int, int] = (100, 30)


JOBS: Final = {
    "demo": (),
    "hang": ("--hang", "late", "--seed", "3"),
}
"""Arguments of ``ccltui demo`` for each job."""

# The cursor is at the first finding in whichever order the findings and the ranks arrived.
_FIRST: Final = ("!", "esc", "1")

PICTURES: Final = (
    Picture("overview", _FIRST),
    Picture("overview-light", _FIRST, theme="light"),
    Picture("proof", ("!",)),
    Picture("moment", ("!", "3")),
    Picture("chain", ("!", "3", "Z")),
    Picture("steps", ("!", "3", "6")),
    Picture("kernels", ("!", "3", "6", "*")),
    Picture("metrics", (*_FIRST, "M")),
    Picture("timeline", ("2", "]", "3")),
    Picture("hangs", ("W",), "hang"),
)


async def drawn(picture: Picture, path: str) -> str:
    """Return the screen as SVG, after its keys, each typed when the answer to the last is there."""
    options = ExplorerOptions(color="256", theme=picture.theme, jobs=1)
    app = Explorer(path, options)
    async with app.run_test(size=picture.size) as pilot:
        await _settled(app)
        for key in picture.keys:
            await pilot.press(key)
            await _settled(app)
        await pilot.pause()
        return small(screen_picture(app, title=f"ccltui {path}"))


_ID: Final = re.compile(r"terminal-\d+")
_LINE_CLIP: Final = re.compile(r'<clipPath id="t-line-\d+">.*?</clipPath>\s*', re.DOTALL)
_CLIPPED: Final = re.compile(r' clip-path="url\(#t-line-\d+\)"')
_EMPTY: Final = re.compile(r"<text [^>]*>\n</text>")
_COMMENT: Final = re.compile(r"\s*<!-- Generated .*? -->")


def small(svg: str) -> str:
    """Return a screenshot of Rich in a third of its bytes, which looks the same.

    Each text states its width, so that a clip for every line changes nothing; ids name the process.
    """
    svg = _CLIPPED.sub("", _LINE_CLIP.sub("", _ID.sub("t", svg)))
    svg = _COMMENT.sub("", _EMPTY.sub("", svg)).replace("&#160;", "\N{NO-BREAK SPACE}")
    return "\n".join(line.rstrip(" ") for line in svg.split("\n") if line.strip(" ")) + "\n"


async def _settled(app: Explorer) -> None:
    """Wait until all ranks are read and everything that the screen asks for is answered.

    Raises:
        TimeoutError: the screen is not complete after two minutes.
    """
    quiet, deadline = 0, monotonic() + _LONGEST_S
    while quiet < 3:  # an answer that has come may be what the next question is about
        if monotonic() > deadline:
            raise TimeoutError(f"the screen is not complete: {app.scene.session.phase}")
        await asyncio.sleep(0.02)
        session, findings = app.scene.session, app.scene.findings
        current = findings.generation == session.generation and findings.complete
        current = current or not session.ranks_loaded  # without traces nothing is analysed
        idle = all(worker.is_finished for worker in app.workers)
        whole = current and not session.busy and idle and not is_waiting(app.scene)
        quiet = quiet + 1 if whole else 0


def draw(names: Iterable[str]) -> dict[str, str]:
    """Return the pictures of these names, drawn from new jobs in a temporary folder."""
    chosen = frozenset(names)
    wanted = [picture for picture in PICTURES if picture.name in chosen]
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # the explorer shows the path as it is given: `demo`
        try:
            for job in sorted({picture.job for picture in wanted}):
                cli.run(["demo", job, "--no-open", *JOBS[job]])
            return {picture.name: asyncio.run(drawn(picture, picture.job)) for picture in wanted}
        finally:
            os.chdir(before)


def main(arguments: Sequence[str]) -> int:
    """Write the pictures, or compare them with ``--check``; return the exit status."""
    pictures = draw(picture.name for picture in PICTURES)
    if list(arguments) == ["--check"]:
        differing = [name for name, svg in pictures.items() if _written(name) != svg]
        print("\n".join(f"docs/pictures/{name}.svg differs" for name in differing) or "unchanged")
        return 1 if differing else 0
    for name, svg in pictures.items():
        write_file(svg.encode(), FOLDER / f"{name}.svg")
    return 0


def _written(name: str) -> str:
    path = FOLDER / f"{name}.svg"
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
