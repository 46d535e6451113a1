"""Coverage and occupancy of public traces against a plain loop over their JSON."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.job import open_job

pytestmark = pytest.mark.shared


@pytest.mark.parametrize(
    "name",
    [
        "hta/nccl_parser_config/nccl_data.json.gz",
        "tracelens/traces/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
        "tracelens/traces/mi300/gaunernst_bert-small-uncased__1016001.json.gz",
        "astra-sim/megatron-tp8/megatron_kineto_3.json.gz",
    ],
)
def test_means_weighted_by_kernel_time(shared: Path, name: str) -> None:
    path = shared / "traces" / name
    document = json.loads(gzip.decompress(path.read_bytes()))
    devices = {entry.get("id"): entry.get("numSms") for entry in document["deviceProperties"]}
    covered = known = occupied = estimated = 0.0
    for event in document["traceEvents"]:
        if event.get("cat") != "kernel" or "nccl" in event["name"]:
            continue
        args, dur = event["args"], event["dur"]
        blocks = args.get("blocks per SM")
        if blocks is None:
            x, y, z = args["grid"]
            blocks = x * y * z / devices.get(args["device"], devices[0])
        covered += min(blocks, 1) * dur
        known += dur
        if args.get("est. achieved occupancy %", 0) > 0:
            occupied += args["est. achieved occupancy %"] * dur
            estimated += dur

    details = find("sm").run(View(open_job(path, jobs=1), ViewOptions(span="trace"))).details

    assert details["sm_coverage"] == pytest.approx(covered / known, rel=1e-6)
    assert details["coverage_known_ratio"] == pytest.approx(1.0)
    expected = pytest.approx(occupied / estimated, rel=1e-6) if estimated else None
    assert details["achieved_occupancy_pct"] == expected
    assert details["occupancy_known_ratio"] == pytest.approx(estimated / known)
