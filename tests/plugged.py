"""Distributions that offer plug-ins, written to a directory as pip would install them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "plugin"


def distribution(
    directory: Path,
    name: str,
    entries: Mapping[str, Mapping[str, str]],
    modules: Mapping[str, str] | None = None,
) -> Path:
    """Write a distribution ``NAME 1.0`` with entry points by group, and modules by name."""
    directory.mkdir(exist_ok=True)
    facts = directory / f"{name}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = (
        "\n".join([f"[{group}]", *(f"{entry} = {value}" for entry, value in of.items())])
        for group, of in entries.items()
    )
    (facts / "entry_points.txt").write_text("\n\n".join(groups) + "\n")
    for module, text in (modules or {}).items():
        (directory / f"{module}.py").write_text(text)
    return directory
