"""Records of a job that stands, on two nodes: asked for through Slurm, copied, and checked."""

from __future__ import annotations

import sys
from pathlib import Path

from cluster import Cluster
from daemons import await_true
from jobs import wait_for_end

from workloads import log_of, submit_workload, tiny_workload

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
