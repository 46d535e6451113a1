"""Panes of other packages: shown like built-in ones, and contained where they fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from explorers import Settle, Start, appears, pane, pane_text, press
from plugged import EXAMPLE, distribution

from ccltui.tui.plugged_panes import register_plugged_panes
from ccltui.tui.state.notes import plugged_problems
from ccltui.tui.state.pane import all_panes, unregister

Install = Callable[..., None]

DECLARED = """
from ccltui.draw.palette import Ink
from ccltui.tui.state.pane import Pane

class Small(Pane):
    title = short_title = "Small"
    about = "A small pane."

    def __init__(self, name, key):
        self.name, self.key = name, key

    def paint(self, scene, height, width):
        from ccltui.draw.planes import Planes
        return Planes.blank(height, width, Ink.TEXT)

class NoPicture(Small):
    def paint(self, scene, height, width):
        return None

class Failing(Small):
    def paint(self, scene, height, width):
        raise ValueError("nothing\\nto draw")

    def legend(self, scene, *, narrow):
        raise KeyError("legend")

    def queries(self, scene):
        yield from ()
        raise OSError("gone")

    def count(self, scene):
        return 1 // 0
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """A way to install panes that lines of code define; they are removed afterwards."""
    before = all_panes()

    def make(module: str, lines: Sequence[str]) -> None:
        names = [line.partition(" ")[0] for line in lines]
        entries = {"ccltui.panes": {name: f"{module}:{name}" for name in names}}
        text = DECLARED + "\n".join(lines) + "\n"
        site = distribution(tmp_path / "site", module, entries, {module: text})
        monkeypatch.syspath_prepend(str(site))
        register_plugged_panes()

    yield make
    for one in all_panes():
        if one not in before:
            unregister(one)
    monkeypatch.undo()
    register_plugged_panes()


async def test_the_pane_of_the_example_is_shown(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    install: Install,
    start: Start,
    settle: Settle,
) -> None:
    entries = {"ccltui.panes": {"hosts": "ccltui_example.hosts_pane:HOSTS"}}
    monkeypatch.syspath_prepend(str(distribution(tmp_path / "site", "example-hosts", entries)))
    monkeypatch.syspath_prepend(str(EXAMPLE))
    register_plugged_panes()
    register_plugged_panes()  # a second time changes nothing
    app = start()
    async with app.run_test(size=(150, 40)) as pilot:
        await settle(pilot)
        assert await appears(pilot, " & Hosts ")
        await press(pilot, "&")
        await settle(pilot)

        assert pane(app) == "hosts"
        assert await appears(pilot, "hosts: 1")
        assert pane_text(app).splitlines()[0].strip() == "host 0: ranks 0, 1, 2, 3, 4, 5, 6, 7"
        await press(pilot, "?")
        assert await appears(pilot, "The ranks of each host, in the order of the hosts.")
    assert plugged_problems() == ()


async def test_a_pane_that_fails_names_its_distribution_and_the_others_go_on(
    install: Install, start: Start, settle: Settle
) -> None:
    install("weak_panes", ["a = Failing('weak', '&')", "b = NoPicture('none', '~')"])
    app = start()
    async with app.run_test(size=(150, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "&")
        text = pane_text(app)
        assert (
            "pane plug-in a of weak_panes 1.0 is skipped: paint failed: "
            "ValueError: nothing to draw" in text
        )
        await press(pilot, "j")
        await press(pilot, "~")
        assert "it returned no Planes of" in pane_text(app)
        await press(pilot, "3")
        assert pane(app) == "timeline"
        assert "weak_panes" not in pane_text(app)
    assert app.broken_by is None
    assert any("pane plug-in a of weak_panes 1.0" in line for line in plugged_problems())


def test_what_cannot_be_registered_is_a_line_with_its_distribution(install: Install) -> None:
    install(
        "poor_panes",
        [
            "a = Small",
            "b = Small('timeline', '&')",
            "c = Small('Large Name', '&')",
            "d = Small('status', '&')",
            "e = Small('keyed', 'j')",
            "f = Small('long', 'ctrl+b')",
            "g = Small(None, '&')",
            "h = Small('good', '&')",
            "i = Small('late', '&')",
        ],
    )

    start = "pane plug-in {0} of poor_panes 1.0 is skipped: poor_panes:{0} "
    taken = "which is already taken"
    assert list(plugged_problems()) == [
        start.format(name) + text
        for name, text in (
            ("a", "is a ABCMeta, not an object of Pane"),
            ("b", f"has the name 'timeline', {taken}"),
            ("c", "has the name 'Large Name': letters a-z, digits and _ are allowed"),
            ("d", f"has the name 'status', {taken}"),
            ("e", "has the key 'j', which 'one row down' has"),
            ("f", "has the key 'ctrl+b': one character is a key"),
            ("g", "has no name"),
            ("i", "has the key '&', which 'Small' has"),
        )
    ]
    assert "good" in {one.name for one in all_panes()}
