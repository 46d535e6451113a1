"""The page docs/write_a_metric.md, carried out as written: its files, its commands, its outputs."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import warm_shell
from shell import CCL_METRICS, CCLTUI, SCRIPTS, run

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "write_a_metric.md").read_text(encoding="utf-8")
FILE = re.compile(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```(sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DEMO = "/tmp/demo"


def blocks() -> Iterator[tuple[str, str]]:
    """Every command of the page, with the output that the page shows of it ("" for none)."""
    for kind, text in COMMANDS.findall(PAGE):
        if kind == "sh":
            yield from ((line, "") for line in text.splitlines())
            continue
        command, _, output = text.partition("\n")
        yield command.removeprefix("$ "), output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files of the page."""
    folder = tmp_path_factory.mktemp("page")
    files = FILE.findall(PAGE)
    for name, text in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert len(files) == 6
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The commands of this environment; pip installs offline, into a folder of the test."""
    target = tmp_path_factory.mktemp("installed")
    return {
        "PATH": os.pathsep.join((str(SCRIPTS), os.environ["PATH"])),
        "PYTHONPATH": str(target),
        "PIP_TARGET": str(target),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads this one the other way round
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def test_every_command_of_the_page_works_and_prints_what_it_shows(
    folder: Path, environment: dict[str, str]
) -> None:
    commands = list(blocks())
    assert len(commands) >= 10
    programs = {"ccltui": CCLTUI, "ccl-metrics": CCL_METRICS}

    for command, shown in commands:
        text = command.replace(DEMO, str(folder / "demo"))
        first, *arguments = shlex.split(text)
        if first in programs:
            done = warm_shell.run(programs[first], *arguments, cwd=folder)
        else:  # what pip installs is found by processes that start after it
            done = run(("/bin/sh", "-c", text), cwd=folder, env=environment)
            programs = {}

        status = 0
        assert done.returncode == status, f"{command}: {done.stderr}"
        printed = done.stdout.splitlines()
        lines = shown.splitlines()
        kept = lines[: lines.index("…")] if "…" in lines else lines
        assert printed[: len(kept)] == kept, command


def test_python_m_is_the_same_command(folder: Path, job: Path, environment: dict[str, str]) -> None:
    arguments = ("--trace", job, "--metric-file", "h2d_copies.py")
    module = run(
        (sys.executable, "-m", "ccltui.ccl_metrics"), *arguments, cwd=folder, env=environment
    )
    command = run((str(SCRIPTS / "ccl-metrics"),), *arguments, cwd=folder, env=environment)

    assert module.returncode == command.returncode == 0, module.stderr
    assert module.stdout == command.stdout
    assert '"metric": "h2d_copies"' in module.stdout


def test_names_of_original_commands_in_the_table_exist() -> None:
    """What the right column of the table names is accepted by the commands."""
    options = set(re.findall(r"`(--[a-z-]+)", PAGE))
    accepted = "".join(
        run((str(SCRIPTS / name),), "--help").stdout for name in ("ccltui", "ccl-metrics")
    )

    assert {option for option in options if option not in accepted} == set()
