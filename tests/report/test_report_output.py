"""Files appear whole or not at all, and equal what standard output receives."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ccltui.report.output import (
    check_target,
    print_message,
    write_file,
    write_new_file,
    write_report,
)


def test_a_file_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    path.write_text("old")
    path.chmod(0o640)

    write_report(b"new\n", str(path))

    assert path.read_bytes() == b"new\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.csv"]


def test_a_link_keeps_its_target(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")

    write_report(b"new", str(tmp_path / "link"))

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.csv"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)

    with pytest.raises(OSError, match="No space left"):
        write_file(b"new", path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.csv"]


def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_report(b"x", str(tmp_path / "new"))
    finally:
        os.umask(before)

    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("target", [None, "-"])
def test_standard_output_takes_bytes(
    target: str | None, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    write_report("größe\n".encode(), target)

    assert capfdbinary.readouterr().out == "größe\n".encode()


class Narrow:
    """Standard output without a buffer: as much is taken as fits."""

    def __init__(self, room: int | None) -> None:
        self.buffer = self
        self.room = room
        self.taken = b""

    def write(self, data: bytes) -> int | None:
        part = None if self.room is None else bytes(data[: self.room])
        self.taken += part or b""
        return None if part is None else len(part)

    def flush(self) -> None:
        """Nothing is kept back."""


def test_standard_output_without_a_buffer_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = Narrow(room=7)
    monkeypatch.setattr(sys, "stdout", narrow)

    write_report(bytes(range(100)), None)

    assert narrow.taken == bytes(range(100))


def test_standard_output_that_takes_nothing_now_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdout", Narrow(room=None))

    with pytest.raises(BlockingIOError):
        write_report(b"data", None)


def test_a_pipe_is_written_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_report(b"data", str(pipe))
        assert os.read(reader, 10) == b"data"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_new_file_follows_no_link_and_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "planted").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "there").write_text("old")

    write_new_file(b"x", tmp_path / "new")

    for name in ("planted", "there"):
        with pytest.raises(FileExistsError):
            write_new_file(b"x", tmp_path / name)
    assert (tmp_path / "new").read_bytes() == b"x"
    assert (tmp_path / "there").read_text() == "old"
    assert not (tmp_path / "elsewhere").exists()


def test_a_new_file_that_fails_is_taken_away(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_new_file("text", tmp_path / "new")  # type: ignore[arg-type]

    assert list(tmp_path.iterdir()) == []


def test_a_target_that_cannot_be_is_known_before_the_work(tmp_path: Path) -> None:
    assert check_target(None) is None
    assert check_target("-") is None
    assert check_target(str(tmp_path / "new.csv")) is None
    assert check_target(str(tmp_path)) == f"{tmp_path} is a directory"
    missing = tmp_path / "no" / "new.csv"
    assert check_target(str(missing)) == f"{missing}: the folder {tmp_path}/no does not exist"


def test_talk_is_one_line_without_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    print_message("a\nb\x1b[2J")

    assert capsys.readouterr().err == "ccltui: a\\x0ab\\x1b[2J\n"
