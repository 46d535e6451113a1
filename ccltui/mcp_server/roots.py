"""Keep an agent within the directories that the user gave: resolve its paths, refuse the rest."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ccltui.parsers.discovery.walk import walk
from ccltui.parsers.errors import NotFoundError, TraceError
from ccltui.parsers.safe_text import listed, printable

DEPTH: Final = 6
"""Levels of folders that are searched for links, as many as discovery searches for traces."""


class Roots:
    """Directories that may be read, links resolved."""

    def __init__(self, folders: Sequence[str]) -> None:
        """Resolve ``folders``. Raises NotFoundError for one that is no directory."""
        for folder in folders:
            if not Path(folder).is_dir():
                raise NotFoundError("no such directory", path=printable(folder))
        self.folders = tuple(os.path.realpath(folder) for folder in folders)

    def contains(self, real_path: str) -> bool:
        """Whether a path without links is one of the directories or below one."""
        return any(Path(real_path).is_relative_to(folder) for folder in self.folders)

    def resolved(self, path: str) -> str:
        """Return an existing path with its links resolved; a relative one is below a directory.

        Raises:
            NotFoundError: nothing of this name exists.
            TraceError: the path, or a link in what it holds, leads out of the directories.
        """
        if "\0" in path:
            raise TraceError("a path has no NUL", path=printable(path))
        places = [path] if Path(path).is_absolute() else [f"{one}/{path}" for one in self.folders]
        real = [os.path.realpath(place) for place in places]
        allowed = [place for place in real if self.contains(place)]
        # What lies outside is refused whether it exists or not: the answer must not tell.
        if not allowed:
            named = listed([printable(one) for one in self.folders], 3)
            raise TraceError(
                f"outside of the directories given by --root: {named}", path=_name(path)
            )
        for place in allowed:
            if Path(place).exists():
                self._check_links(place, path)
                return place
        raise NotFoundError("no such file or directory", path=_name(path))

    def _check_links(self, place: str, path: str) -> None:
        """Refuse a directory in which a link leads out: its target would be read as a trace."""
        if not Path(place).is_dir():
            return
        for entry in walk(place, DEPTH).entries:
            if entry.linked and not self.contains(entry.real_path):
                raise TraceError(
                    f"{printable(entry.path)} is a link out of the directories given by --root",
                    path=_name(path),
                )


def _name(path: str) -> str:
    """The path for a message: what an agent sends may be of any length."""
    shown = printable(path)
    return shown if len(shown) <= 300 else f"{shown[:300]}…"
