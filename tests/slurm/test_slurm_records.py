"""Records of a job that stands, on two nodes: asked for through Slurm, copied, and checked."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from cluster import Cluster
from daemons import await_true
from jobs import ENDED, state_of, wait_for_end

from workloads import Workload, log_of, submit_workload, tiny_workload

STANDING = f"""\
#!/usr/bin/env bash
# In place of torchrun: two ranks that stand, and write a dump when they are asked for it. Rank 3
# does not.
if [[ "${{*:1:3}}" != "-P -m torch.distributed.run" ]]; then
    exec {sys.executable} "$@"
fi
rank() {{
    read -r <"$1"
    (($2 == 3)) || printf '\\x80\\x02}}.' >"$TORCH_FR_DUMP_TEMP_FILE$2"
    exec sleep 300
}}
for rank in $((SLURM_NODEID * 2)) $((SLURM_NODEID * 2 + 1)); do
    pipe=$TORCH_NCCL_DEBUG_INFO_PIPE_FILE$rank.pipe
    mkfifo "$pipe"
    rank "$pipe" "$rank" &
done
trap 'kill $(jobs -p); exit 1' TERM
: >"$TRACE_DIR/stands_$SLURM_NODEID"
wait
"""


def test_the_dumps_of_both_nodes_are_copied_before_the_job_ends(
    cluster: Cluster, tmp_path: Path
) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(STANDING)
    python.chmod(0o755)
    own = tmp_path / "node"
    workload = tiny_workload(
        tmp_path, VENV_DIR=str(tmp_path / "venv"), FR="1", RECORDS_TMP=str(own)
    )
    job = submit_workload(cluster, workload, "--constraint", "gpu", "--profile", "torch")
    await_true(
        lambda: len(list(workload.traces.glob("stands_*"))) == 2,
        seconds=90,
        what="both nodes train",
    )

    asked = cluster.run("scancel", "--batch", "--signal=TERM", job)

    assert asked.returncode == 0, asked.stderr
    ended = wait_for_end(cluster, job, seconds=120)
    log = log_of(workload, job)
    assert ended.state == "FAILED", log[-4000:]
    records = workload.traces / "records" / "torch"
    dumps = {path.name: path.read_bytes() for path in records.glob("nccl_trace_rank_*")}
    assert dumps == {f"nccl_trace_rank_{rank}": b"\x80\x02}." for rank in range(3)}, log[-4000:]
    assert "asked to end: collecting records" in log
    assert "missing: dumps of ranks 3 of torch" in log
    assert list(own.iterdir()) == []


def test_the_rank_that_stands_is_named_from_what_a_job_with_gloo_left(
    cluster: Cluster, torch_installed: None, tmp_path: Path
) -> None:
    """Rank 3 stands. Rank 2 waits for it within its node, rank 1 between the nodes, 0 for 2."""
    workload = tiny_workload(
        tmp_path, TINY_STAND_RANK="3", FR="1", RECORDS_TMP=str(tmp_path / "node")
    )
    job = submit_workload(cluster, workload, "--constraint", "gpu", "--profile", "torch")
    await_lines(
        *(cluster, workload, job),
        *("[rank3] stands", "[rank2] reduces over tp"),
        *("[rank1] reduces over dp", "[rank0] reduces over dp"),
    )

    asked = cluster.run("scancel", "--batch", "--signal=TERM", job)

    assert asked.returncode == 0, asked.stderr
    ended = wait_for_end(cluster, job, seconds=180)
    log = log_of(workload, job)
    assert ended.state == "FAILED", log[-4000:]
    assert "torch: dumps of 4 of 4 ranks" in log
    assert "missing: dumps" not in log
    await_true(lambda: not cluster.processes_of_job(job), seconds=60, what="the end of all ranks")
    told = explain(workload.traces)
    for pattern in (
        r"\*\*Rank 3 never entered all-reduce \d+ of mesh_dp; all others wait for it; ",
        r"Ranks 0 and 1 wait for ranks 2 and 3 in all-reduce \d+ of mesh_dp ",
        r"rank 2 waits for rank 3 in all-reduce \d+ of mesh_tp .*`reduce_counts\\` \(tiny_train",
    ):
        assert re.search(pattern, told), told


def await_lines(cluster: Cluster, workload: Workload, job: str, *lines: str) -> None:
    """Wait until the job has printed them all; it has failed where it ends before."""

    def printed() -> bool:
        assert state_of(cluster, job).state not in ENDED, log_of(workload, job)[-4000:]
        logs = workload.traces.parent.glob(f"logs/*_{job}.out")
        text = "".join(path.read_text(errors="replace") for path in logs)
        return all(line in text for line in lines)

    await_true(printed, seconds=300, what=f"the lines {', '.join(lines)}")


def explain(run: Path) -> str:
    """What ``ccltui explain`` prints about the folder of a run."""
    done = subprocess.run(
        [sys.executable, "-m", "ccltui", "explain", run],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
