"""The page on exports names every column as the program does."""

from __future__ import annotations

from pathlib import Path

from ccltui.export.tables import TABLES

PAGE = Path(__file__).parents[2] / "docs" / "export.md"


def test_the_page_describes_every_column() -> None:
    text = PAGE.read_text()
    for name, table in TABLES.items():
        section = text.split(f"### {name}\n")[1].split("\n### ")[0]
        rows = [line for line in section.splitlines() if line.startswith("| `")]
        expected = [f"| `{one}` | {kind} | {what} |" for one, (kind, what) in table.columns.items()]
        assert rows == expected
