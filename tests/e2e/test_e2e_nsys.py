"""Both commands on files of nsys: a stub exports the report, and no secret is printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from nsys_exports import SECRET, Export


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ccltui", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_report_is_exported_by_the_nsys_that_is_named(tmp_path: Path) -> None:
    export = Export()
    process = export.process(100)
    process.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 10, 20)
    fixture = export.write(tmp_path / "fixture.sqlite")
    stub = tmp_path / "my-nsys"
    stub.write_text(f'#!/bin/sh\nwhile [ "$1" != "-o" ]; do shift; done\ncp {fixture} "$2"\n')
    stub.chmod(0o755)
    directory = tmp_path / "job"
    directory.mkdir()
    (directory / "rank0.nsys-rep").write_bytes(b"\x00\x01\x02 raw")

    without = run(str(directory), "--metric", "coll_call_num", "--nsys", "/nowhere/nsys")
    done = run(str(directory), "--metric", "coll_call_num", "--nsys", str(stub), "--format", "json")

    assert without.returncode == 1
    assert "/nowhere/nsys is no program" in without.stderr
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["results"][0]["value"] == 1
    assert document["trace"]["sources"] == ["nsys"]


def test_nothing_of_the_environment_is_printed(tmp_path: Path) -> None:
    export = Export()
    export.environment("RANK", "0")
    process = export.process(100)
    process.kernel("gemm", 10, 20)
    process.os_call("poll", 1, 2)
    export.write(tmp_path / "rank0.sqlite")
    (tmp_path / "bad.sqlite").write_bytes((tmp_path / "rank0.sqlite").read_bytes()[:20_000])

    for arguments in (
        ("doctor", str(tmp_path), "--format", "json"),
        (str(tmp_path), "--metric", "all", "--format", "json", "--debug"),
        (str(tmp_path), "--metric", "all", "--format", "csv", "--detail"),
    ):
        done = run(*arguments)
        assert done.stdout
        assert SECRET not in done.stdout + done.stderr
