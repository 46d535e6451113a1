"""Clocks of devices: medians of readings, and as the reason why a rank computes longer."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from perfetto_files import PytorchFile

import ccltui
from ccltui.demo import Spec, Straggler, write_job
from ccltui.metrics.device.device_counters import clock_gap

SLOW, PEERS = 1230.0, 1980.0


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four ranks, of which rank 2 computes longer in every step, at a lower clock."""
    late = Straggler(rank=2, cause="compute", extra_ns=6_000_000)
    made = tmp_path_factory.mktemp("made")
    write_job(made, Spec.quiet(pp=1, gpus_per_node=4, stragglers=(late,)))
    folder = tmp_path_factory.mktemp("job")
    for rank in range(4):
        with gzip.open(made / f"kineto_trace_{rank}.json.gz", "rt") as file:
            document = json.load(file)
        known = (*PytorchFile.categories(), None)
        document["traceEvents"] = [e for e in document["traceEvents"] if e.get("cat") in known]
        times = [e["ts"] for e in document["traceEvents"] if e.get("ph") == "X"]
        base = int(document["baseTimeNanoseconds"])
        clock = SLOW if rank == 2 else PEERS
        samples = []
        for number in range(20):
            time = base + int(1000 * (min(times) + number / 20 * (max(times) - min(times))))
            samples += [(time, "SM Clock (MHz)", clock), (time, "Power (W)", 0.0)]
        samples.append((samples[0][0], "SM Clock (MHz)", 4294967295.0))  # not plausible
        encoded = PytorchFile(document, "stages", samples).encoded()
        (folder / f"rank{rank}.pftrace").write_bytes(encoded)
    return folder


def test_readings_are_medians_of_what_is_plausible(job: Path) -> None:
    details = ccltui.open(job).metric("sm").details
    assert {label: row["sm_clock_mhz"] for label, row in details["per_rank"].items()} == {
        "0": PEERS,
        "1": PEERS,
        "2": SLOW,
        "3": PEERS,
    }
    assert details["sm_clock_mhz"] == PEERS
    assert details["power_w"] is None
    assert details["temperature_c"] is None


def test_a_lower_clock_is_the_evidence_of_a_slow_rank(job: Path) -> None:
    document = json.loads(ccltui.open(job).explain().to_json())
    first = document["findings"][0]
    assert first["class"] == "slow_worker"
    assert first["where"]["ranks"] == ["2"]
    assert "its SM clock is 1.23 GHz, its peers' 1.98 GHz" in first["more"].replace("Its", "its")
    keys = {(one["metric"], one["key"], one["value"]) for one in first["evidence"]}
    assert ("sm", "per_rank.2.sm_clock_mhz", SLOW) in keys


def test_a_gap_needs_readings_of_both_and_a_clear_difference() -> None:
    assert clock_gap([None], [PEERS]) is None
    assert clock_gap([SLOW], [None]) is None
    assert clock_gap([PEERS * 0.96], [PEERS, PEERS]) is None
    found = clock_gap([SLOW], [PEERS, PEERS + 20, None])
    assert found is not None
    assert (found.own_mhz, found.peers_mhz) == (SLOW, PEERS + 10)
