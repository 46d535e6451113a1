"""A directory full of files named like modules; each leaves a mark where it is imported."""

from __future__ import annotations

import contextlib
import importlib.metadata
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

OURS = ("ccltui", "parsers", "metrics")
HOOKS = ("sitecustomize", "usercustomize")
PACKAGES = ("textual", "rich", "numpy", "yaml", "parsers", "metrics", "email", "json", "asyncio")
_FACTS = "planted-1.0.dist-info"


def module_names() -> list[str]:
    """The standard library, every installed distribution, our packages, and hooks of Python."""
    installed = importlib.metadata.packages_distributions()
    names = {*sys.stdlib_module_names, *installed, *OURS, *HOOKS, "planted_metric"}
    return sorted(name for name in names if name.isidentifier())


class Planted(Struct, frozen=True):
    """Where files were planted, and where each that is imported leaves its name."""

    directory: Path
    marks: Path

    def imported(self) -> list[str]:
        """Names of the files that have run since."""
        return sorted(mark.name for mark in self.marks.iterdir())

    @contextlib.contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Take a module away for a while."""
        path = self.directory / f"{name}.py"
        text = path.read_text()
        path.unlink()
        try:
            yield
        finally:
            path.write_text(text)

    def tame_in(self, directory: Path) -> None:
        """Leave files of the same names and sizes in ``directory`` which do nothing."""
        for path in self.directory.rglob("*"):
            if path.is_file():
                twin = directory / path.relative_to(self.directory)
                twin.parent.mkdir(parents=True, exist_ok=True)
                text = path.read_bytes()
                is_module = path.suffix == ".py"
                twin.write_bytes(b"#" * len(text) if is_module else text)


def plant(directory: Path, marks: Path, names: Sequence[str] = ()) -> Planted:
    """Plant modules, packages, and a distribution that offers a metric; of ``names``, or all."""
    marks.mkdir()
    for name in names or module_names():
        text = (
            f"open({str(marks / name)!r}, 'a').close()\nraise SystemExit('{name} was imported')\n"
        )
        (directory / f"{name}.py").write_text(text)
        if name in PACKAGES:
            (directory / name).mkdir()
            (directory / name / "__init__.py").write_text(text)
    facts = directory / _FACTS
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[ccltui.metrics]\nplanted = planted_metric:METRIC\n")
    return Planted(directory, marks)
