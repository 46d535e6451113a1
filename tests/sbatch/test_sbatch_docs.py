"""What the guides name is there: files, options, variables and numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from check_workload import model_of
from memory import Model, peak_bytes, state_bytes
from sbatch_scripts import SBATCH
from train_config import read_train_config

ROOT = SBATCH.parent
GUIDES = [SBATCH / "README.md", SBATCH / "perlmutter" / "README.md", ROOT / "docs" / "collect.md"]
EACH = pytest.mark.parametrize("guide", GUIDES, ids=lambda path: str(path.relative_to(ROOT)))


def sources() -> str:
    """All that the scripts say in code."""
    files = [path for path in SBATCH.rglob("*") if path.suffix in {".sh", ".sbatch", ".py"}]
    return "\n".join(path.read_text() for path in files)


@EACH
def test_files_exist(guide: Path) -> None:
    named = set(re.findall(r"(?<![\w/])(sbatch/[\w./+-]*\w)", guide.read_text()))

    assert named
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


@EACH
def test_links_lead_somewhere(guide: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", guide.read_text())

    assert [link for link in links if not (guide.parent / link).exists()] == []


@EACH
def test_options_of_run_sh_are_known(guide: Path) -> None:
    used = re.findall(r"run\.sh((?: --[a-z-]+)+)", guide.read_text())
    script = (SBATCH / "lib" / "submit.sh").read_text()

    for options in used:
        for option in options.split():
            assert option in script


@EACH
def test_variables_are_used(guide: Path) -> None:
    named = set(
        re.findall(r"\b(?:CCLTUI|SITE|NSYS|TORCH|TRACE|HF|VENV)_[A-Z_]+\b", guide.read_text())
    )
    code = sources()

    assert sorted(name for name in named if name not in code and name != "HF_TOKEN") == []


def test_the_table_says_what_the_files_say() -> None:
    rows = re.findall(
        r"^\| `([\w.+-]+)` \| (\w+) (\w+) \| .* \| (\d+) \| ([\d.]+) GiB \| ([\d.]+) GiB \|$",
        GUIDES[0].read_text(),
        re.MULTILINE,
    )

    assert len(rows) == 7
    for name, model, flavor, ranks, peak_gib, state_gib in rows:
        folder = SBATCH / "workloads" / f"{name}-perlmutter-16"
        config = read_train_config(folder / "train_config.toml")
        sizes = model_of(folder / "workload_card.yaml")
        assert isinstance(sizes, Model)
        assert (config.text("model.name"), config.text("model.flavor")) == (model, flavor)
        assert config.ranks() == int(ranks)
        state = state_bytes(config, sizes.num_params, int(ranks)) or 0
        peak = peak_bytes(config, sizes, int(ranks)) or 0
        assert (f"{state / 2**30:.1f}", f"{peak / 2**30:.1f}") == (state_gib, peak_gib)


def test_the_package_holds_no_scripts() -> None:
    project = (ROOT / "pyproject.toml").read_text()

    assert 'include = ["ccltui*"]' in project
    assert "not installed with the package" in " ".join((ROOT / "README.md").read_text().split())
