"""The file of ``doctor --bundle``: what helps with a mistake, and nothing that is private."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from shell import CCLTUI
from warm_shell import run


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("CCLTUI_CACHE_DIR", str(folder))
    return folder


def contents(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_it_has_this_machine_crashes_and_kinds_of_files(
    job: Path, cache: Path, tmp_path: Path
) -> None:
    (cache / "crash-20200101-000000-1.txt").write_text("ccltui 0.1.0")
    target = tmp_path / "report.zip"

    done = run((*CCLTUI, "doctor"), job, "--bundle", target)

    assert (done.returncode, done.stdout) == (0, "")
    found = contents(target)
    assert list(found) == ["environment.json", "files.json", "crash-20200101-000000-1.txt"]
    assert str(target) in done.stderr
    files = json.loads(found["files.json"])["files"]
    assert {entry["kind"] for entry in files} >= {"kineto"}
    assert sorted(one["rank"] for one in files if one["kind"] == "kineto") == [0, 1, 2, 3]
    assert "kineto_trace_" not in found["files.json"]
    assert str(Path.home()) not in found["environment.json"]


def test_names_are_in_it_where_the_user_agrees(job: Path, cache: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.zip"

    assert run((*CCLTUI, "doctor"), job, "--bundle", target, "--with-names").returncode == 0

    assert "kineto_trace_0" in contents(target)["files.json"]


def test_a_file_that_exists_is_never_replaced(cache: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.zip"
    target.write_text("of the user")

    done = run((*CCLTUI, "doctor"), "--bundle", target)

    assert done.returncode == 1
    assert done.stderr == f"ccltui: {target}: File exists\n"
    assert target.read_text() == "of the user"
