"""``ccltui DIR --follow``: steps by hand while files come in parts, and signals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from shell import MODULE, TIMEOUT_S, environment, run

from ccltui import cli, exit_codes
from ccltui.commands.follow_command import Follower, FollowOptions
from ccltui.commands.loading import LoadOptions
from ccltui.demo import Spec, write_job
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError
from ccltui.report.gates import parse_gate


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("follow") / "job"
    write_job(path, Spec(tp=2, steps=3, layers=2, gpus_per_node=2))
    return path


def follower(path: Path, store: Path, **options: Any) -> Follower:
    loading = LoadOptions(str(path), cache_dir=store)
    return Follower(FollowOptions(**options), loading, ViewOptions())


def lines(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def step(one: Follower, capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    one.step(time.time_ns())
    return lines(capfd)


def traces(path: Path) -> list[Path]:
    return sorted(path.glob("kineto*"))


def test_what_is_final_equals_a_cold_open(
    whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, report = tmp_path / "job", tmp_path / "final.json"
    one = follower(path, tmp_path / "store", metrics=("all",), output=str(report))
    assert step(one, capfd) == []
    path.mkdir()
    for source in traces(whole):
        data, target = source.read_bytes(), path / source.name
        for part in (data[: len(data) // 2], data[len(data) // 2 :]):
            with target.open("ab") as file:
                file.write(part)
            (changed,) = step(one, capfd)
            assert changed["waiting"] == {source.name: "still growing"}
        (settled,) = step(one, capfd)
        assert settled["waiting"] == {}
        assert settled["ranks"] == len(traces(path))
    assert settled["finding"]
    assert one.finish() == exit_codes.OK
    cold = tmp_path / "cold.json"
    cold_arguments = ("--metric", "all", "--format", "json", "-o", str(cold))
    assert cli.run([str(path), *cold_arguments, "--store", str(tmp_path / "other")]) == 0
    assert report.read_bytes() == cold.read_bytes()


def test_a_file_without_an_end_waits_until_it_is_complete(
    whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job"
    shutil.copytree(whole, path)
    last = traces(path)[-1]
    data = last.read_bytes()
    last.write_bytes(data[: len(data) // 2])
    one = follower(path, tmp_path / "store", metrics=("coll_call_num",))
    step(one, capfd)
    (cut,) = step(one, capfd)
    assert list(cut["waiting"]) == [last.name]
    assert cut["waiting"] != {last.name: "still growing"}
    assert cut["ranks"] == len(traces(path)) - 1
    assert step(one, capfd) == []
    last.write_bytes(data)
    step(one, capfd)
    (complete,) = step(one, capfd)
    assert complete["waiting"] == {}
    assert complete["ranks"] == len(traces(path))
    last.unlink()
    (gone,) = step(one, capfd)
    assert gone["files"]["gone"] == [last.name]
    assert gone["ranks"] == len(traces(path))


def test_files_that_stay_without_an_end_are_read_when_the_directory_is_idle(
    whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, report = tmp_path / "job", tmp_path / "final.json"
    shutil.copytree(whole, path)
    last = traces(path)[-1]
    last.write_bytes(last.read_bytes()[:-2000])
    one = follower(path, tmp_path / "store", metrics=("all",), output=str(report))
    step(one, capfd)
    step(one, capfd)
    one.accept_all()
    one.finish()
    cold = tmp_path / "cold.json"
    cold_arguments = ("--metric", "all", "--format", "json", "-o", str(cold))
    cli.run([str(path), *cold_arguments, "--store", str(tmp_path / "other")])
    assert report.read_bytes() == cold.read_bytes()


def test_an_alert_is_told_once_while_it_holds(
    whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, told = tmp_path / "job", tmp_path / "told"
    shutil.copytree(whole, path)
    script = "import os,sys; open(sys.argv[1],'a').write(os.environ['CCLTUI_ALERT']+';$(id)\\n')"
    command = f'{sys.executable} -c "{script}" {told}'
    gates = (parse_gate("coll_call_num > 1"), parse_gate("coll_call_num < 1"))
    one = follower(path, tmp_path / "store", alerts=gates, command=command)
    found = [*step(one, capfd), *step(one, capfd)]
    assert [line["condition"] for line in found if line["event"] == "alert"] == [
        "coll_call_num > 1"
    ]
    (path / "notes.txt").write_text("nothing")
    assert [line["event"] for line in [*step(one, capfd), *step(one, capfd)]] == ["change"] * 2
    assert told.read_text() == "coll_call_num > 1;$(id)\n"
    assert one.finish() == exit_codes.ALERT


def test_a_command_that_cannot_be_started_is_a_message(
    whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    gates = (parse_gate("coll_call_num > 1"),)
    one = follower(whole, tmp_path / "store", alerts=gates, command="/no/such/program")
    one.step(time.time_ns())
    one.step(time.time_ns())
    assert "--alert-command: " in capfd.readouterr().err
    assert one.finish() == exit_codes.ALERT


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--alert", "mfu > 1"), "--alert needs --follow"),
        (("--until-idle", "5"), "--until-idle needs --follow"),
        (("--follow", "--format", "csv"), "--follow prints JSON lines"),
        (("--follow", "--fail-if", "mfu > 1"), "does not go with --fail-if"),
        (("--follow", "--no-cache"), "does not go with --no-cache"),
        (("--follow", "--alert-command", "true"), "needs --alert EXPR"),
        (("--follow", "--alert-command", "mail 'a"), "No closing quotation"),
        (("--follow", "--alert-command", " "), "the command is empty"),
        (("--follow", "--interval", "0"), "not a number of seconds"),
        (("--follow", "--until-idle", "5"), "shorter than --interval"),
        (("--follow", "--alert", "mfu >"), "Illegal condition"),
        (("--follow", "--metric", "no_such"), "no_such"),
    ],
)
def test_wrong_command_lines(tmp_path: Path, arguments: Sequence[str], message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        cli.run([str(tmp_path), *arguments])


def test_idle_ends_it(whole: Path, tmp_path: Path) -> None:
    pace = ("--interval", "0.1", "--until-idle", "0.2")
    done = run(MODULE, whole, "--follow", *pace, "--metric", "mfu", "--store", tmp_path)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found[-1]["event"] == "end"
    assert found[-1]["ranks"] == len(traces(whole))
    assert found[-1]["waiting"] == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_the_last_state(
    whole: Path, tmp_path: Path, number: signal.Signals
) -> None:
    old = time.time() - 1000
    path = tmp_path / "job"
    shutil.copytree(whole, path)
    for one in path.iterdir():
        os.utime(one, (old, old))
    arguments = (path, "--follow", "--interval", "600", "--store", tmp_path / "store")
    with subprocess.Popen(
        [*MODULE, *map(str, arguments)],
        stdout=subprocess.PIPE,
        env=environment({}),
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            first = json.loads(process.stdout.readline())
            process.send_signal(number)
            last = json.loads(process.stdout.readline())
            assert process.wait(TIMEOUT_S) == exit_codes.OK
        finally:
            process.kill()  # this block waits for it
    assert (first["event"], last["event"]) == ("change", "end")
    assert first["ranks"] == last["ranks"] == len(traces(path))
    assert first["finding"] == last["finding"]
