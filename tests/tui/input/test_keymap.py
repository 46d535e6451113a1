"""Keys chosen by the user instead of those of the registry."""

from __future__ import annotations

from pathlib import Path

import pytest
from explorers import Settle, Start
from fakes import scene

from ccltui.config import Config, default_path, parse_config, read_config
from ccltui.draw.palette import Ink
from ccltui.parsers.errors import GrammarError
from ccltui.tui import chrome_lines as lines
from ccltui.tui import panes
from ccltui.tui.action import Bindings, first_key
from ccltui.tui.action_list import by_id
from ccltui.tui.help_page import help_lines
from ccltui.tui.input.keymap import Keymap, bind, checked, conflicts, key_lines, works_in
from ccltui.tui.state.pane import pane_named
from ccltui.tui.state.pane_states import ALIGNMENT, EVENTS, TIMELINE


def test_settings_are_read_from_toml() -> None:
    text = """
    [keys]
    "stragglers.next" = ["x", "g n"]
    "view.merge" = []
    "out.copy" = "Y"
    [screen]
    theme = "light"
    mouse = false
    """

    config = parse_config(text, "here.toml")

    assert config.keys == {"stragglers.next": ("x", "g n"), "view.merge": (), "out.copy": ("Y",)}
    assert (config.theme, config.mouse, config.color, config.path) == (
        *("light", False, None),
        "here.toml",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[key]\n", "no table is called 'key'; did you mean 'keys'?"),
        ("[screen]\nthem = 1\n", "no setting of [screen] is called 'them'; did you mean 'theme'?"),
        ("[screen]\ntheme = 'pink'\n", "[screen] theme: one of auto, dark, light, ansi"),
        ("[screen]\nmouse = 1\n", "[screen] mouse: true or false"),
        ("keys = 3\n", "keys must be a table: [keys]"),
        ("[keys]\na = 3\n", "[keys] a: a key, or a list of keys"),
        ("[keys]\na = ['b', 3]\n", "[keys] a: a key, or a list of keys"),
        ("[keys\n", "Expected ']' at the end of a table declaration (at line 1, column 6)"),
    ],
)
def test_invalid_settings_are_reported_in_one_line_with_the_file(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)

    with pytest.raises(GrammarError) as error:
        read_config(str(path))

    assert str(error.value) == f"{path}: {problem}"


def test_hostile_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(GrammarError, match="invalid start byte"):
        read_config(str(path))
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(GrammarError, match="larger than 1 MiB"):
        read_config(str(path))
    with pytest.raises(FileNotFoundError):
        read_config(str(tmp_path / "none.toml"))


def test_the_file_is_in_the_xdg_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_path() == tmp_path / "ccltui" / "config.toml"
    assert read_config() == Config()

    default_path().parent.mkdir()
    default_path().write_text("[screen]\nascii = true\n")
    assert read_config().ascii is True

    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert str(default_path()) == "~/.config/ccltui/config.toml"
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pathlib.Path.expanduser", _no_home)
    assert read_config() == Config()


def _no_home(_: Path) -> Path:
    raise RuntimeError("Could not determine home directory.")


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        (
            {"stragglers.nex": ("x",)},
            "no action is called 'stragglers.nex'; did you mean 'stragglers.next'?",
        ),
        ({"out.copy": ("xy",)}, r"out.copy: 'xy' is not a key such as 'x', 'ctrl\+x' or 'g x'"),
        ({"out.copy": ("",)}, "out.copy: '' is not a key"),
        ({"out.copy": ("x g",)}, "out.copy: 'x g' is not a key"),
        ({"out.copy": ("ctrl+",)}, r"out.copy: 'ctrl\+' is not a key"),
        ({"out.copy": ("x",), "app.quit": ("x",)}, "'x' is both out.copy and app.quit"),
    ],
)
def test_invalid_keys_are_refused(chosen: Bindings, problem: str) -> None:
    with pytest.raises(GrammarError, match=problem):
        bind(chosen)


def test_a_chosen_key_is_taken_from_its_default() -> None:
    chosen = {"stragglers.next": ("n", "ctrl+x"), "view.merge": ()}

    bindings = bind(chosen)
    keymap = Keymap(bindings)

    assert keymap.press(TIMELINE, "", "n").action is by_id("stragglers.next")
    assert keymap.press(TIMELINE, "", "ctrl+x").action is by_id("stragglers.next")
    assert keymap.press(TIMELINE, "", "]").action is None
    assert keymap.press(TIMELINE, "", "b").action is None
    assert keymap.press(TIMELINE, "", "q").action is by_id("app.quit")
    assert bindings["find.next"] == ()
    assert list(conflicts(chosen)) == ["n is stragglers.next now, no longer find.next"]
    assert first_key(by_id("find.next"), bindings) == ":"


def test_a_key_may_have_different_actions_in_two_panes() -> None:
    bindings = bind({"events.sort": ("x",), "view.merge": ("x",)})

    assert Keymap(bindings).press(EVENTS, "", "x").action is by_id("events.sort")
    assert Keymap(bindings).press(TIMELINE, "", "x").action is by_id("view.merge")


def test_help_and_the_key_line_show_the_keys_of_the_user() -> None:
    bindings = bind({"stragglers.next": ("n",), "app.help": ("f1",)})
    found = scene()
    text = "".join(text for line in help_lines(ALIGNMENT, 80, bindings) for text, _ in line)

    assert "n [       next, previous worst" in text
    assert "f1        this help" in text
    shown = lines.keys(type(found)(found.session, found.state, bindings=bindings), 80)
    assert ("n/[", Ink.KEY) in shown


def test_the_table_of_keys_lists_taken_keys() -> None:
    config = Config("mine.toml", {"stragglers.next": ("n",)})

    text = list(key_lines(config))

    assert any(row.startswith("stragglers.next") and " n " in row for row in text)
    assert any(row.startswith("find.next") and "no key: run it with :" in row for row in text)
    assert text[-2:] == [
        "1 action has keys of mine.toml",
        "n is stragglers.next now, no longer find.next",
    ]
    with pytest.raises(GrammarError, match=r"^mine\.toml: \[keys\] no action"):
        checked(Config("mine.toml", {"nothing": ("n",)}))


async def test_counts_repeat_and_stop_at_the_end(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await pilot.press("2", "alt+1", "0", "l")
        await pilot.pause()
        assert app.scene.state.pane == ALIGNMENT
        assert app.scene.state.selection.k == 50  # ten from the place of the first finding

        await pilot.press("alt+2")
        assert app.scene.said == "count 2: times what?"
        await pilot.press("escape", "]")
        before = app.scene.state.worst
        assert before is not None
        await pilot.press("alt+2", "[")
        assert app.scene.state.worst == before - 2

        await pilot.press("G", "alt+9", "9", "{")
        assert app.scene.notice.endswith(" of 99: no earlier lag over the floor: < lowers it")
        await pilot.press("alt+3", "1")  # the digit continues the count
        assert app.scene.said == "count 31: times what?"


async def test_keys_of_the_user_work_in_the_explorer(start: Start, settle: Settle) -> None:
    app = start(keys=bind({"stragglers.next": ("n",)}))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await pilot.press("2", "n")

        assert app.scene.state.worst == 0


def test_where_a_key_works_is_a_list_in_words() -> None:
    assert works_in([pane_named(TIMELINE)]) == "works in 3 Timeline"
    assert (
        works_in([pane_named(ALIGNMENT), pane_named(TIMELINE)])
        == "works in 2 Alignment and 3 Timeline"
    )
    assert works_in([pane_named(ALIGNMENT), pane_named(TIMELINE), pane_named(EVENTS)]) == (
        "works in 2 Alignment, 3 Timeline and 4 Events"
    )


@pytest.mark.parametrize("pane", [pane.name for pane in panes.PANES])
@pytest.mark.parametrize("width", [80, 120, 200])
def test_help_explains_every_key_fully_in_aligned_columns(pane: str, width: int) -> None:
    keys = [line for line in help_lines(pane, width, {}) if any(ink == Ink.KEY for _, ink in line)]

    pieces = [piece for line in keys for piece in line]
    assert {len(text) for text, ink in pieces if ink == Ink.KEY} == {12}
    assert not [text for text, _ in pieces if text.rstrip().endswith("…")]


def test_long_keys_of_two_actions_are_explained_one_by_one() -> None:
    lines = ["".join(text for text, _ in line) for line in help_lines(ALIGNMENT, 40, {})]

    assert "  tab       next pane; drawer           " in lines
    assert "  shift+tab previous pane               " in lines
    assert "  h l       cell or collective          " in lines


@pytest.mark.parametrize("value", ["7" * 5000, "[" * 5000 + "]" * 5000], ids=["digits", "brackets"])
def test_settings_that_the_toml_parser_fails_on_are_one_line(tmp_path: Path, value: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"a = {value}\n")

    with pytest.raises(GrammarError, match=r"config.toml: not valid TOML$"):
        read_config(str(path))
