"""Print the version, and the packages that add metrics, formats, panes or writers."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ccltui import __version__, exit_codes
from ccltui.parsers.plug_ins import by_distribution, contents
from ccltui.verbs import PROG


def version_lines(program: str) -> list[str]:
    """Return the line of the version, and one for each package that adds something."""
    added = by_distribution().items()
    return [f"{program} {__version__}", *(f"plug-in {name}: {contents(of)}" for name, of in added)]


def run(_: Sequence[str]) -> int:
    """Print the lines and return the exit status."""
    sys.stdout.write("\n".join(version_lines(PROG)) + "\n")
    return exit_codes.OK
