"""Logs of runs and reports of crashes: complete, private, and without text of traces."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from ccltui.process import run
from ccltui.report.crash_report import crash_reports, crash_text
from ccltui.report.output import print_message


def failing(arguments: Sequence[str]) -> int:
    print_message("rank7.json: cut off\x1b[31m")
    try:
        raise KeyError("kernel of a secret model")
    except KeyError as error:
        raise ValueError("host nid001234") from error


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CCLTUI_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_log_has_the_run_from_its_arguments_to_its_status(tmp_path: Path) -> None:
    log = tmp_path / "run.log"

    for _ in range(2):
        assert run(failing, ["traces", "--log", str(log)]) == 1

    text = log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "\x1b" not in text
    assert text.count("arguments: traces --log") == 2, "a second run is appended"
    for part in ("rank7.json: cut off\\x1b[31m", "ValueError: host nid001234", "in failing"):
        assert part in text
    assert text.splitlines()[-1].endswith("exit status 1")


@pytest.mark.parametrize("form", ["--log={}", "--log"])
def test_a_log_that_cannot_be_written_is_one_line(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "absent" / "run.log")
    words = [form.format(target)] if "=" in form else [form, target]

    assert run(lambda _: 0, words) == 1

    assert capsys.readouterr().err == f"ccltui: {target}: No such file or directory\n"


def test_a_crash_report_has_the_place_and_no_text_of_traces(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(failing, ["/scratch/secret", "--metric=mfu", "--steps", "3-4"]) == 1

    (report,) = crash_reports()
    assert str(report) in capsys.readouterr().err
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.stat().st_mode) & 0o077 == 0
    text = report.read_text()
    assert "builtins.ValueError\n" in text
    assert "caused by:\nbuiltins.KeyError\n" in text
    assert "test_report_diagnostics.py" in text
    assert " failing\n" in text
    assert "arguments: … --metric --steps …" in text
    for secret in ("secret", "nid001234", "mfu", "3-4", str(Path.home())):
        assert secret not in text


def test_with_debug_the_report_has_messages_too(cache: Path) -> None:
    assert run(failing, ["traces", "--debug"]) == 1

    (report,) = crash_reports()
    assert "builtins.ValueError: host nid001234" in report.read_text()
    assert "arguments: traces --debug" in report.read_text()


def test_old_reports_are_removed_and_no_others(cache: Path) -> None:
    cache.mkdir()
    for number in range(30):
        (cache / f"crash-20200101-0000{number:02}-1.txt").write_text("old")
    (cache / "other.txt").write_text("of the user")

    run(failing, [])

    assert len(crash_reports()) == 10
    assert (cache / "other.txt").exists()


def test_errors_that_refer_to_each_other_end() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first

    assert crash_text(first, [], with_content=False).count("builtins.ValueError") == 2


def test_a_cache_that_cannot_be_written_changes_the_message_only(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache.write_text("a file where the cache should be")

    assert run(failing, []) == 1

    assert capsys.readouterr().err.endswith("--debug shows where, please report it\n")
