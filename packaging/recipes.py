"""Write the recipes with the checksum of a released sdist: ``recipes.py SDIST FOLDER``."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

PLACEHOLDER = "SHA256_OF_THE_SDIST"
RECIPES = ("conda/recipe.yaml", "spack/repo.yaml", "spack/packages/py_ccltui/package.py")


def recipes() -> list[Path]:
    """Files of all recipes, below the folder of this file."""
    here = Path(__file__).resolve().parent
    return [*(here / name for name in RECIPES), *here.glob("easybuild/*.eb"), *here.rglob("*.lua")]


def main(sdist: Path, folder: Path) -> None:
    """Copy every recipe into a folder, with the checksum in place of the placeholder."""
    checksum = hashlib.sha256(sdist.read_bytes()).hexdigest()
    here = Path(__file__).resolve().parent
    for recipe in recipes():
        target = folder / recipe.relative_to(here)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = recipe.read_text(encoding="utf-8").replace(PLACEHOLDER, checksum)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
