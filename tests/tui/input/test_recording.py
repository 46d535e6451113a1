"""Recording and replay of keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from explorers import Settle, Start
from textual import events

from ccltui.parsers.errors import GrammarError
from ccltui.tui.app import Explorer
from ccltui.tui.input.recording import Header, Recorder, Stroke, event_of, read_recording, stroke_of
from ccltui.tui.state.pane_states import TIMELINE

HEADER = '{"recording":1,"opened":"run","width":80,"height":24}\n'


def test_a_written_recording_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    times = iter([10.0, 10.25])
    recorder = Recorder(
        str(path), Header(recording=1, opened="run\x1b", width=80, height=24), lambda: next(times)
    )
    strokes = (
        Stroke(at_ms=recorder.now_ms(), key="j", character="j"),
        Stroke(at_ms=300, paste="10ms/\n"),
        Stroke(at_ms=400, mouse="down", x=3, y=4, button=1, shift=True),
    )
    for stroke in strokes:
        recorder.add(stroke)
    recorder.close()

    found = read_recording(str(path))

    assert found.header.opened == "run\x1b"
    assert found.strokes == strokes
    assert strokes[0].at_ms == 250
    lines = path.read_text().splitlines()
    assert json.loads(lines[1]) == {"at_ms": 250, "key": "j", "character": "j"}
    assert path.read_text().isprintable() is False  # only for its line ends
    assert "\x1b" not in path.read_text()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ":1: not a line of a recording"),
        ("{}\n", ":1: not a line of a recording: .*recording"),
        (HEADER.replace(":1,", ":7,"), ": recording of version 7, not 1"),
        (HEADER + '{"key":"j"}\n', ":2: not a line of a recording: .*at_ms"),
        (HEADER + '\n{"at_ms":1}\n{"at_ms":"x"}', ":4: not a line of a recording"),
        (HEADER + "\x00\n", ":2: not a line of a recording"),
    ],
)
def test_invalid_lines_are_reported_by_number(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "keys.jsonl"
    path.write_text(text)

    with pytest.raises(GrammarError, match=problem):
        read_recording(str(path))


@pytest.mark.parametrize(
    "line",
    [
        '{"at_ms":1' + "0" * 400 + "}",
        '{"at_ms":1,"mouse":"down","x":1' + "0" * 400 + "}",
        '{"at_ms":1,"of_later_versions":' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
    ids=["time", "place", "nesting"],
)
def test_extreme_values_are_one_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "keys.jsonl"
    path.write_text('{"recording":1,"opened":"x","width":80,"height":24}\n' + line + "\n")

    with pytest.raises(GrammarError, match=r"keys\.jsonl:2: not a line of a recording"):
        read_recording(str(path))


def test_invalid_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    path.write_bytes(HEADER.encode() + b'{"at_ms":1,"key":"\xff"}')

    with pytest.raises(GrammarError, match=":2: not a line"):
        read_recording(str(path))


def test_a_file_is_never_replaced_and_a_full_disk_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    path.write_text("mine")
    header = Header(recording=1, opened="run", width=80, height=24)

    with pytest.raises(FileExistsError):
        Recorder(str(path), header)
    assert path.read_text() == "mine"

    full = Recorder(str(tmp_path / "other.jsonl"), header)
    assert full._file is not None
    full._file.close()
    full._file = Path("/dev/full").open("w", buffering=1)  # noqa: SIM115
    full.add(Stroke(at_ms=1, key="j"))
    full.add(Stroke(at_ms=2, key="k"))
    with pytest.raises(OSError, match="No space left") as error:
        full.close()
    assert error.value.filename == str(tmp_path / "other.jsonl")


@pytest.mark.parametrize(
    "event",
    [
        events.Key("ctrl+t", None),
        events.Key("j", "j"),
        events.Paste("a b"),
        events.MouseDown(None, 3, 4, 0, 0, 1, True, False, False, 3, 4),
        events.MouseScrollUp(None, 3, 4, 0, 0, 0, False, False, False, 3, 4),
    ],
)
def test_events_become_strokes_and_back(event: events.Event) -> None:
    stroke = stroke_of(event, 5)

    assert stroke is not None
    again = event_of(stroke)
    assert type(again) is type(event)
    assert stroke_of(again, 5) == stroke
    assert stroke_of(events.Focus(), 5) is None


async def run(app: Explorer, settle: Settle, *keys: str) -> Explorer:
    """Type the keys, or wait for the replay."""
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await pilot.press(*keys)
        for _ in range(400):
            await pilot.pause(0.01)
            if keys or app.scene.said.startswith("replayed"):
                break
    if app.key_log is not None:
        app.key_log.close()
    return app


async def test_a_replay_ends_in_the_recorded_view(
    start: Start, settle: Settle, tmp_path: Path
) -> None:
    path = str(tmp_path / "keys.jsonl")
    keys = ("2", "]", "]", "3", "w", "w", "t", *"2ms/40ms", "enter", ":", *"r3", "enter", "l", "b")

    first = await run(start(record=path), settle, *keys)
    second = await run(start(replay=path), settle)

    assert second.scene.said == f"replayed {len(keys)} keys of {path}"
    assert second.scene.state == first.scene.state
    assert second.scene.session.filter == first.scene.session.filter
    assert second.scene.state.pane == TIMELINE
    assert second.scene.state.selection.rank == "3"


async def test_a_replay_writes_no_file_and_nothing_to_the_clipboard(
    start: Start, settle: Settle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording may come from someone else."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    target, path = tmp_path / "rows.csv", str(tmp_path / "keys.jsonl")
    keys = ("e", "ctrl+u", *str(target), "enter", "y")
    writing = start(record=path)
    await run(writing, settle, *keys)
    assert target.exists(), "these keys write a file"
    assert writing.clipboard
    target.unlink()

    replaying = start(replay=path)
    await run(replaying, settle)

    assert not target.exists()
    assert replaying.clipboard == ""
    assert replaying.scene.notice == "during a replay nothing is written or copied"
