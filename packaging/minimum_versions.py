"""Print the least version of every dependency, as constraints for pip.

``pip install --constraint FILE ccltui`` then installs the oldest versions that ccltui accepts.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_LEAST = re.compile(r"^(?P<name>[\w.-]+)>=(?P<version>[\d.]+)")


def constraints() -> list[str]:
    """Return lines ``NAME==VERSION``. Raises ValueError where no least version is stated."""
    with (Path(__file__).resolve().parents[1] / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    lines = []
    for text in project["dependencies"]:
        match = _LEAST.match(text)
        if match is None:
            raise ValueError(f"{text!r} states no least version")
        lines.append(f"{match['name']}=={match['version']}")
    return lines


if __name__ == "__main__":
    print("\n".join(constraints()))
