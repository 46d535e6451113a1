"""The recipes of CONTRIBUTING.md, carried out as written in a copy of the package."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from shell import run
from terminal import session

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"^(?:`(?P<new>[\w./]+)`:|In `(?P<edited>[\w./]+)`, after `(?P<anchor>[^`]+)`:)\n\n"
    r"```python\n(?P<code>.*?)```$",
    re.MULTILINE | re.DOTALL,
)
TALLY = "tally of rank {rank}\ngemm 0 {late}\nncclDevKernel_AllReduce_Sum_f32_RING_LL {late} 300\n"


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[str]]:
    """The copy with all recipes carried out: the files that each changed, and ``root``."""
    root = tmp_path_factory.mktemp("recipes")
    # The links are followed: a copy of the package is what a wheel installs.
    shutil.copytree(ROOT / "ccltui", root / "ccltui", ignore=shutil.ignore_patterns("__pycache__"))
    files: dict[str, set[str]] = {"root": {str(root)}}
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for title, recipe in re.findall(
        r"^## Add a (\w+)\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL
    ):
        for block in BLOCK.finditer(recipe):
            name = block["new"] or block["edited"]
            files.setdefault(title, set()).add(name)
            path = root / (name if name.startswith("ccltui/") else f"ccltui/{name}")
            if block["new"]:
                path.parent.mkdir(exist_ok=True)
                path.write_text(block["code"], encoding="utf-8")
                continue
            before = path.read_text(encoding="utf-8")
            anchor = f"{block['anchor']}\n"
            assert before.count(anchor) == 1, f"{name}: {anchor}"
            path.write_text(before.replace(anchor, anchor + block["code"]), encoding="utf-8")
    return files


@pytest.fixture
def copy(changed: Mapping[str, set[str]]) -> Path:
    (root,) = changed["root"]
    return Path(root)


def numbers(copy: Path, directory: Path, metric: str) -> Mapping[str, object]:
    """The result of a metric, as the changed copy prints it."""
    done = run(
        (sys.executable, "-m", "ccltui"),
        *(directory, "--metric", metric, "--format", "json", "--no-cache"),
        cwd=copy,
        env={"PYTHONPATH": str(copy)},
    )
    assert done.returncode == 0, done.stderr
    result: Mapping[str, object] = json.loads(done.stdout)["results"][0]
    return result


def test_each_recipe_changes_one_file_besides_what_it_adds(
    changed: Mapping[str, set[str]],
) -> None:
    existing = {
        title: {name for name in names if (ROOT / name).exists()}
        for title, names in changed.items()
        if title != "root"
    }

    assert existing == {
        "metric": {"metrics/catalog/__init__.py"},
        "format": {"parsers/formats.py"},
        "pane": {"ccltui/tui/panes/__init__.py"},
    }


def test_the_metric_is_computed(copy: Path, job: Path) -> None:
    result = numbers(copy, job, "launch_count")

    assert result["status"] == "ok"
    assert result["unit"] == "events"
    details = result["details"]
    assert isinstance(details, dict)
    assert result["value"] == sum(details["per_rank"].values()) > 0


def test_the_format_is_opened(copy: Path, tmp_path: Path) -> None:
    for rank, late in ((0, 100), (1, 200)):
        (tmp_path / f"part{rank}.txt").write_text(TALLY.format(rank=rank, late=late))

    result = numbers(copy, tmp_path, "coll_call_num")

    assert result["value"] == 2


def test_the_pane_is_shown(copy: Path, job: Path) -> None:
    command = (sys.executable, "-m", "ccltui", job, "--no-cache")
    with session(*command, cwd=copy, env={"PYTHONPATH": str(copy)}) as explorer:
        explorer.wait_for("$  &")  # tabs of 80 columns: it is the one after Ranks
        explorer.press("&")
        explorer.wait_for("Hosts]2 hosts")
