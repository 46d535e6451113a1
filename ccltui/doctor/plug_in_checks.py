"""Check of installed packages that add metrics, formats, panes or writers.

Imports the standard library only where there is none: see `environment_checks`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from ccltui.parsers.plug_ins import WRITERS, Skipped, by_distribution, contents


@dataclass(frozen=True, slots=True)
class InstalledPlugIn:
    """One package: what it adds, with what cannot be used and why, and what to do then."""

    name: str
    text: str
    fix: str = ""


def installed_plug_ins() -> Iterator[InstalledPlugIn]:
    """Yield all packages. Metrics, formats and writers are loaded; panes are only listed."""
    packages = by_distribution()
    if not packages:
        return
    from ccltui.metrics import registry  # noqa: PLC0415  (numpy)
    from ccltui.parsers.formats import plug_in_problems  # noqa: PLC0415  (msgspec)
    from ccltui.report.writers import plugged_writer  # noqa: PLC0415  (msgspec)

    problems = [*(one.text for one in registry.broken()), *plug_in_problems()]
    for name, entries in packages.items():
        found = [text for text in problems if f" of {name} is skipped" in text]
        writers = (plugged_writer(one) for one in entries if one.group == WRITERS)
        found += [one.text for one in writers if isinstance(one, Skipped)]
        text = "; ".join((contents(entries), *found))
        package = shlex.quote(name.split()[0])
        remove = f"{shlex.quote(sys.executable)} -m pip uninstall {package}"
        yield InstalledPlugIn(name, text, f"update it, or run: {remove}" if found else "")
