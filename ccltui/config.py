"""Read the user's settings from ``config.toml``.

``$XDG_CONFIG_HOME/ccltui/config.toml``, or ``~/.config/ccltui/config.toml``::

    [keys]
    "stragglers.next" = ["]", "x"]   # the keys of an action, by its id
    "move.page_down" = []            # no key: the command palette still lists it

    [screen]
    theme = "light"
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ccltui.parsers.errors import GrammarError

THEMES: Final = ("auto", "dark", "light", "ansi")
COLORS: Final = ("auto", "truecolor", "256", "16", "never")
DRIVERS: Final = ("slim", "plain")
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "theme": THEMES,
    "color": COLORS,
    "driver": DRIVERS,
}
_SWITCHES: Final = ("mouse", "ascii")
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Config:
    """Keys by action id, and settings of the screen; None means the default.

    ``path`` is the file that the settings were read from, "" where there is none.
    """

    path: str = ""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    theme: str | None = None
    color: str | None = None
    driver: str | None = None
    mouse: bool | None = None
    ascii: bool | None = None


def default_path() -> Path:
    """Default path of the settings; a relative XDG_CONFIG_HOME is ignored, as XDG requires."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if Path(base).is_absolute() else Path("~/.config")
    return folder / "ccltui" / "config.toml"


def read_config(given: str | None = None) -> Config:
    """Read the settings of a file, by default the user's.

    Args:
        given: Path on the command line; None: the default path, whose file may be absent.

    Raises:
        GrammarError: The file is invalid; the message names the file and the error.
        OSError: ``given`` cannot be read.
    """
    path = default_path() if given is None else Path(given)
    try:
        path = path.expanduser()
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError, RuntimeError):
        if given is not None:
            raise
        return Config()
    if len(data) > _MOST_BYTES:
        raise GrammarError(f"{path}: larger than 1 MiB, so it holds no settings")
    try:
        return parse_config(data.decode("utf-8"), str(path))
    except (UnicodeDecodeError, GrammarError) as error:
        raise GrammarError(f"{path}: {error}") from error


def parse_config(text: str, path: str = "") -> Config:
    """Parse the text of a settings file. Raises GrammarError."""
    import tomllib  # noqa: PLC0415  (most users have no such file)

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GrammarError(str(error)) from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, deep nesting
        raise GrammarError("not valid TOML") from error
    _known(document, ("keys", "screen"), "table")
    keys = {name: _keys(name, value) for name, value in _table(document, "keys").items()}
    screen = _table(document, "screen")
    _known(screen, (*_CHOICES, *_SWITCHES), "setting of [screen]")
    for name, choices in _CHOICES.items():
        if name in screen and screen[name] not in choices:
            raise GrammarError(f"[screen] {name}: one of {', '.join(choices)}")
    for name in _SWITCHES:
        if name in screen and not isinstance(screen[name], bool):
            raise GrammarError(f"[screen] {name}: true or false")
    return Config(path, keys, **screen)


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = document.get(name, {})
    if not isinstance(table, Mapping):
        raise GrammarError(f"{name} must be a table: [{name}]")
    return table


def _known(table: Mapping[str, Any], names: Iterable[str], what: str) -> None:
    known = tuple(names)
    for name in table:
        if name not in known:
            raise GrammarError(f"no {what} is called {name!r}{nearest(name, known)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Hint at the known name that is most similar to ``name``, "" where none is."""
    import difflib  # noqa: PLC0415  (only errors need it)

    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _keys(name: str, value: object) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(key, str) for key in values):
        raise GrammarError(f"[keys] {name}: a key, or a list of keys")
    return tuple(values)
