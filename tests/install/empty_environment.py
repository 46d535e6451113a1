"""An environment in which nothing is installed but what a distribution says it needs."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def make_environment(folder: Path, requirements: list[str]) -> Path:
    """Make an environment of links to what is installed here; its Python.

    Links take no network and no time. What is not required directly or by what is required stays
    out, so an import that no requirement covers fails as it would on a clean machine.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    paths = {"base": str(folder), "platbase": str(folder)}
    library = Path(sysconfig.get_path("platlib", "venv", vars=paths))
    for name in closure(requirements):
        for top, target in top_level(name).items():
            if not (library / top).exists():
                (library / top).symlink_to(target)
    return python


def closure(requirements: list[str]) -> set[str]:
    """Names of all distributions that are required, by the requirements or by one of these."""
    found: set[str] = set()
    left = [(text, "") for text in requirements]
    while left:
        text, extra = left.pop()
        one = Requirement(text)
        name = canonicalize_name(one.name)
        if one.marker is not None and not one.marker.evaluate({"extra": extra}):
            continue
        if name in found and not one.extras:
            continue
        found.add(name)
        needed = distribution(name).requires or []
        left += [(other, extra) for other in needed for extra in ("", *sorted(one.extras))]
    return found


def top_level(name: str) -> dict[str, Path]:
    """The files and folders of a distribution in the folder of packages."""
    files = distribution(name).files
    if files is None:
        raise PackageNotFoundError(f"{name} has no list of its files")
    tops = {file.parts[0]: Path(str(file.locate())) for file in files if file.parts[0] != ".."}
    base = Path(str(distribution(name).locate_file("")))
    return {top: base / top for top in tops if top != "__pycache__"}


def pip(python: str | Path, *arguments: str | Path, env: dict[str, str]) -> None:
    """Run this environment's pip for another one, without downloads; its output if it fails."""
    command = [sys.executable, "-m", "pip", "--python", str(python), *map(str, arguments)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=env, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
