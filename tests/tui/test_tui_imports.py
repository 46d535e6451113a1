"""What is imported when: the screen paints before anything heavy is there."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from ccltui.tui.engine import background, server


def said_by(code: str) -> str:
    """What a fresh Python prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        (
            "ccltui.cli",
            ["numpy", "tomllib", "tempfile", "ccltui.report.gates", "ccltui.metrics.result"],
        ),
        ("ccltui.tui", ["textual", "rich", "numpy", "asyncio"]),
        ("ccltui.tui.app", ["numpy", "orjson", "yaml"]),
        (
            "ccltui.tui.app",
            [
                f"ccltui.tui.{name}"
                for name in (
                    *("action_list", "input.control", "moves.view_moves"),
                    *("state.wanted_queries", "input.recording"),
                )
            ],
        ),
    ],
)
def test_modules_that_are_not_imported(module: str, absent: list[str]) -> None:
    code = f"import sys, {module}; print([m for m in {absent} if m in sys.modules])"

    assert [name for name in absent if find_spec(name) is None] == []
    assert said_by(code) == "[]"


def test_the_process_that_computes_imports_nothing_of_the_screen() -> None:
    code = """\
import sys
import importlib
import ccltui.tui.engine.server, ccltui.tui.engine.analysis
from ccltui.tui.state.query_kinds import of_traces
for name in ccltui.tui.engine.server.IMPORTED_WHEN_IDLE:
    importlib.import_module(name)
present = [name for name in ("textual", "rich", "asyncio") if name in sys.modules]
print(len(of_traces()) > 20, present)
"""

    assert said_by(code) == "True []"


def test_what_is_imported_when_idle_exists() -> None:
    names = (*background.IMPORTED_WHEN_IDLE, *server.IMPORTED_WHEN_IDLE)

    assert [name for name in names if find_spec(name) is None] == []


def test_the_command_palette_and_tls_are_left_out_until_they_are_asked_for() -> None:
    code = """\
import sys
from ccltui.tui.start import import_textual
import_textual()
import asyncio
print("textual.app" in sys.modules, "textual.widgets._input" in sys.modules, "ssl" in sys.modules)
import ssl
from textual.command import CommandPalette
from textual.screen import Screen
print(issubclass(CommandPalette, Screen), ssl.SSLContext.__module__)
"""

    assert said_by(code).splitlines() == ["True False False", "True ssl"]


def test_toasts_containers_and_folders_are_left_out_until_they_are_asked_for() -> None:
    code = """\
import sys
import ccltui.tui
from ccltui.tui.start import import_textual
import_textual()
import ccltui.tui.app, textual.app
left_out = ("platformdirs", "textual.containers", "textual.widgets._toast")
print([name for name in left_out if name in sys.modules])
import platformdirs
print(textual.app.user_downloads_path() == platformdirs.user_downloads_path())
from textual.widgets._toast import Toast
print(Toast.__module__)
"""

    assert said_by(code).splitlines() == ["[]", "True", "textual.widgets._toast"]


def test_what_is_there_already_stays() -> None:
    code = """\
import ssl, textual.app
from textual.command import Provider
from ccltui.tui.start import import_textual
import_textual()
import sys
print(sys.modules["ssl"] is ssl, textual.app.Provider is Provider)
"""

    assert said_by(code) == "True True"


def test_a_textual_that_asks_for_more_of_the_palette_is_imported_whole() -> None:
    code = """\
from ccltui.tui import start as lean
lean._PALETTE = lean._PALETTE[:-1]
lean.import_textual()
import textual.app
print(textual.app.CommandPalette.__module__)
"""

    assert said_by(code) == "textual.command"


def test_before_a_trace_is_known_the_key_line_names_what_needs_none() -> None:
    code = """\
import sys
import ccltui.tui.app
from ccltui.tui import chrome_lines as lines
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session
text = "".join(text for text, _ in lines.keys(Scene(Session("run")), 80))
print(text.split(), "ccltui.tui.action_list" in sys.modules)
"""

    said = said_by(code)

    assert said == "[':', 'command', 'q', 'quit', '?', 'help'] False"
