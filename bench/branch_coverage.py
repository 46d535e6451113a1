"""Print statement and branch coverage by package, from the JSON report of coverage.py.

python -m bench.branch_coverage coverage.json

A package is a folder below `parsers`, `metrics` or `ccltui`, with all that is in it; modules beside
those folders are one row of the name of the parent. Branches are pairs of lines that may follow one
another; one is covered where a test has taken it in a process that the tracer sees.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from msgspec import Struct

_COUNTS: Final = ("num_statements", "covered_lines", "num_branches", "covered_branches")


class Covered(Struct):
    """Statements and branches of a package, and those that tests have run."""

    num_statements: int = 0
    covered_lines: int = 0
    num_branches: int = 0
    covered_branches: int = 0

    def add(self, counts: Mapping[str, int]) -> None:
        """Add the counts of one file."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + counts[name])

    def cells(self) -> tuple[str, ...]:
        """Return statements, their covered share, branches, theirs; ``--`` where there are none."""
        return (
            str(self.num_statements),
            _share(self.covered_lines, self.num_statements),
            str(self.num_branches),
            _share(self.covered_branches, self.num_branches),
        )


def package_of(path: str) -> str:
    """Return the package of a file: its first two folders, or the one that it has."""
    return "/".join(PurePosixPath(path).parts[:-1][:2])


def packages(report: Mapping[str, Any]) -> dict[str, Covered]:
    """Return the counts of each package of a report, and of all as ``all``, in order of names."""
    found: dict[str, Covered] = {}
    for path, file in sorted(report["files"].items()):
        for name in (package_of(path), "all"):
            found.setdefault(name, Covered()).add(file["summary"])
    return dict(sorted(found.items(), key=lambda item: (item[0] == "all", item[0])))


def table(found: Mapping[str, Covered]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield "| package | statements | covered | branches | covered |"
    yield "|---|---|---|---|---|"
    for name, covered in found.items():
        yield f"| `{name}` | {' | '.join(covered.cells())} |"


def main() -> None:
    """Print the table of the report that is named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    report = json.loads(parser.parse_args().report.read_text())
    print("\n".join(table(packages(report))))


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "--"


if __name__ == "__main__":
    main()
