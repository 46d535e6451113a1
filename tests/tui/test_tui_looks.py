"""Every pane at three sizes, and light, without colour and in ASCII: what each cell shows.

One session shows all panes, and a golden text holds their characters, and below each row its styles
as runs of letters. Written anew by
``CCLTUI_UPDATE_GOLDEN=1 pytest tests/tui/test_tui_looks.py``.
"""

from __future__ import annotations

import os
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pytest
from explorers import Settle, Start, typed
from rich.style import Style

from ccltui.tui.app import Explorer
from ccltui.tui.options import ExplorerOptions

pytestmark = pytest.mark.long

GOLDEN = Path(__file__).parent / "golden"
SIZES = [(80, 24), (120, 40), (200, 50)]
AT_SIZES = {"dark": SIZES, "ascii": SIZES[::2], "light": SIZES[1:2], "colourless": SIZES[1:2]}
"""Signs of one cell have their place at any size, and themes change colours alone."""
KEYS = {
    "overview": ("1", "j", "j"),
    "alignment": ("2", "]"),
    "timeline": ("2", "]", "3", "w", "w"),
    "events": ("4", "]"),
    "area": ("3", "v", *"llllllllllll", "v"),
    "search": ("3", "/", *"nccl", "enter", "n", "n"),
    "detail": ("2", "]", "enter", "tab", "j"),
    "files": ("5", "j"),
    "steps": ("6", "j"),
    "kernels": ("*", "j"),
    "parallelism": ("%", "j"),
    "streams": ("3", "u", *"wwww"),
    "lanes": ("3", "u", "U", *"www"),
    "chain": ("2", "]", "Z", "j"),
    "block": ("2", "]", "3", "R"),
    "inspector": ("2", "]", "3", "E"),
    "versus": ("2", "]", "3", "V", *"r4", "enter"),
    "unavailable": ("1", "u", "G"),
    "metrics": ("M", "j"),
    "metric": ("M", "enter"),
}

LOOKS = {
    "dark": ExplorerOptions(color="256"),
    "light": ExplorerOptions(color="256", theme="light"),
    "colourless": ExplorerOptions(color="never"),
    "ascii": ExplorerOptions(color="256", ascii=True),
}


class Letters:
    """Short names of styles in order of their first use."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, style: Style | None) -> str:
        return self._known.setdefault(str(style), _name(len(self._known)))

    def legend(self) -> list[str]:
        return [f"{name} = {style}" for style, name in self._known.items()]


def _name(number: int) -> str:
    return chr(97 + number) if number < 26 else _name(number // 26 - 1) + chr(97 + number % 26)


def rows_of(app: Explorer, letters: Letters) -> list[str]:
    """Characters of every row, and its styles below."""
    lines = []
    for strip in app.screen._compositor.render_strips():
        parts = [(letters.of(part.style), len(part.text)) for part in strip if part.text]
        runs = [(name, list(run)) for name, run in groupby(parts, itemgetter(0))]
        lines.append(strip.text.rstrip())
        lines.append("\\ " + " ".join(f"{name}{sum(n for _, n in run)}" for name, run in runs))
    return lines


def reset(app: Explorer, base: object) -> None:
    """As it was opened."""
    app.scene = base  # type: ignore[assignment]
    app._asked.clear()


@pytest.mark.parametrize(
    ("look", "size"),
    [
        pytest.param(look, size, id=f"{look}-{size[0]}x{size[1]}")
        for look, sizes in AT_SIZES.items()
        for size in sizes
    ],
)
async def test_every_pane(
    start: Start, settle: Settle, look: str, size: tuple[int, int], tmp_path: Path
) -> None:
    options = LOOKS[look]
    app = start(color=options.color, theme=options.theme, ascii=options.ascii)
    letters = Letters()
    pages: list[str] = []
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        base = app.scene
        for pane, keys in KEYS.items():
            reset(app, base)
            await typed(pilot, *keys)
            await settle(pilot)
            pages += [f"== {pane}: {' '.join(keys)}", *rows_of(app, letters)]

    text = "\n".join([*pages, "== styles", *letters.legend()]) + "\n"
    if look == "ascii":
        assert text.replace("== ", "").isascii()
    if look == "colourless":
        assert not any(sign in line for line in letters.legend() for sign in ("#", "color("))
    golden = GOLDEN / f"{look}-{size[0]}x{size[1]}.txt"
    if os.environ.get("CCLTUI_UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    (tmp_path / golden.name).write_text(text)
    assert text.splitlines() == golden.read_text().splitlines(), f"see {tmp_path / golden.name}"
