"""The generated pages are up to date and complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.metrics import registry
from ccltui.tools import reference
from ccltui.tui.action_list import all_actions


@pytest.mark.parametrize("name", sorted(reference.PAGES))
def test_a_page_is_up_to_date(name: str) -> None:
    committed = (reference.DOCS / name).read_text(encoding="utf-8")
    assert committed == reference.page(name), "run python -m ccltui.tools.reference"


@pytest.mark.parametrize("name", sorted(reference.SHELL_FILES))
def test_a_file_for_shells_is_up_to_date(name: str) -> None:
    committed = (reference.PACKAGING / name).read_text(encoding="utf-8")
    assert committed == reference.SHELL_FILES[name](), "run python -m ccltui.tools.reference"


def test_the_check_says_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reference.main(["--check"]) == 0
    capsys.readouterr()

    monkeypatch.setattr(reference, "DOCS", tmp_path)

    assert reference.main(["--check"]) == 1
    assert "+# Metrics" in capsys.readouterr().out


def test_every_metric_and_key_is_documented() -> None:
    for metric in registry.metrics().values():
        assert f"## {metric.name}\n" in reference.page("metrics.md")
        assert f"`{metric.headline}`" in reference.page("metrics.md")
    for action in all_actions():
        assert f"| {action.help} |" in reference.page("keys.md")


def test_every_option_is_documented() -> None:
    page = reference.page("cli.md")
    for option in ("--metric", "--window", "--fail-if", "--output-json", "--files-only", "--seed"):
        assert option in page


def test_help_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    before = reference.cli_page()
    monkeypatch.setenv("COLUMNS", "40")
    assert reference.cli_page() == before
