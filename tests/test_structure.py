"""The shape of the source tree that ARCHITECTURE.md promises."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench import structure

ROOT = Path(__file__).resolve().parent.parent
MOST_LINES = 800
MOST_MODULES = 474
"""Besides metrics, of which each is one; with those of folders, about 70. Each module more is one
place more where a reader looks: a new pane or format may raise it, a new part of one thing may not.
"""
MOST_APART = 41
"""Modules that one other imports, without extensions: who does not read that one misses them."""


@pytest.fixture(scope="module")
def modules() -> Mapping[str, structure.Module]:
    return structure.read_modules(ROOT)


def test_no_modules_import_each_other(modules: Mapping[str, structure.Module]) -> None:
    assert structure.cycles(structure.module_graph(modules)) == []


def test_no_folders_import_each_other(modules: Mapping[str, structure.Module]) -> None:
    graph = structure.folder_graph(modules)
    assert structure.cycles(graph) == []


def test_a_module_is_short(modules: Mapping[str, structure.Module]) -> None:
    long = {name: module.lines for name, module in modules.items() if module.lines > MOST_LINES}

    assert long == {}


def test_there_are_few_modules(modules: Mapping[str, structure.Module]) -> None:
    others = [name for name in modules if not name.startswith("metrics.catalog.")]

    assert len(others) <= MOST_MODULES


def test_modules_with_one_importer_are_extensions_or_have_a_reason(
    modules: Mapping[str, structure.Module],
) -> None:
    lone = structure.lone_modules(modules)
    apart = [name for name, importer in lone.items() if importer not in structure.EXTENDED]
    kept = [name for names in structure.KEPT_APART.values() for name in names]

    assert sorted(apart) == sorted(kept)
    assert len(apart) <= MOST_APART


def test_every_module_states_its_purpose(modules: Mapping[str, structure.Module]) -> None:
    assert [name for name, module in modules.items() if not module.docstring] == []


def test_only_installed_names_are_imported() -> None:
    generic = re.compile(r"^\s*(?:from|import) (?:parsers|metrics)\b", re.MULTILINE)
    files = [
        path for folder in (*structure.PACKAGES, "bench") for path in (ROOT / folder).rglob("*.py")
    ]

    assert [str(path) for path in files if generic.search(path.read_text(encoding="utf-8"))] == []


def test_rows_of_the_guide_have_the_columns_of_their_table() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    wrong = [
        row
        for table in tables
        for row in table.splitlines()
        if len(re.findall(r"(?<!\\)\|", row)) != table.splitlines()[0].count("|")
    ]

    assert len(tables) > 2
    assert wrong == []


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_paths_that_the_guides_name_exist(page: str) -> None:
    named = re.findall(
        r"`((?:parsers|metrics|ccltui|sbatch|bench|tests|docs)/[\w./-]*)`",
        (ROOT / page).read_text(),
    )
    made = {
        "metrics/catalog/time/launch_count.py",
        "parsers/tally/__init__.py",
        "parsers/tally/tally_reader.py",
        "ccltui/tui/panes/hosts.py",
    }

    assert [path for path in named if path not in made and not (ROOT / path).exists()] == []


def test_a_module_with_one_importer_is_alone() -> None:
    def module(name: str, *imports: str) -> structure.Module:
        return structure.Module(name, Path(f"{name}.py"), 1, frozenset(imports), "")

    modules = {"a": module("a", "b", "c"), "b": module("b", "c"), "c": module("c")}

    assert structure.lone_modules(modules) == {"b": "a"}


def test_cycles_and_levels_of_a_small_graph() -> None:
    graph = {
        "a": frozenset({"b"}),
        "b": frozenset({"c"}),
        "c": frozenset({"b"}),
        "d": frozenset({"a"}),
    }

    assert structure.cycles(graph) == [("b", "c")]
    assert structure.levels(graph) == 3
