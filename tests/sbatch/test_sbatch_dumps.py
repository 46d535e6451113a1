"""Dumps that a process writes when its node asks for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ANSWER = """\
import sys, time
from pathlib import Path
from dump_on_request import answer_requests
folder = Path(sys.argv[1])
taken = iter([b"first.", b"second."])
answer_requests(folder / "dump_3.pipe", folder / "nccl_trace_rank_3", lambda: next(taken))
print("ready", flush=True)
sys.stdin.read()
"""
ASK = """\
# shellcheck shell=bash
source "$1/log.sh"
source "$1/records.sh"
OWN_RECORDS=$2
ask_for_dumps
cat "$2/nccl_trace_rank_3"
rm "$2/nccl_trace_rank_3"
"""
LIBRARY = Path(__file__).resolve().parents[2] / "sbatch" / "lib"


def test_a_process_writes_a_dump_each_time_its_node_asks(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ANSWER, tmp_path],
        env={**os.environ, "PYTHONPATH": str(LIBRARY)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        ask = ["bash", "-c", ASK, "bash", str(LIBRARY), str(tmp_path)]
        told = [subprocess.run(ask, check=True, capture_output=True).stdout for _ in range(2)]
        process.communicate()

    assert told == [b"first.", b"second."]
    assert process.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["dump_3.pipe"]
