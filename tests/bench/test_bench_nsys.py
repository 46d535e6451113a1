"""The generated export: how many rows, whose truth the reader must find."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.measure import Spread
from bench.nsys import FirstMetric
from bench.nsys_make import RANKS, export
from bench.results import Results, verdicts
from bench.tables import text_of
from ccltui.parsers.nsys.nsys_reader import read_nsys


def test_the_export_holds_eight_ranks_and_their_collectives(tmp_path: Path) -> None:
    path = tmp_path / "node.sqlite"

    events = export(path, megabytes=1)

    ranks = read_nsys(path)
    steps = 1_000_000 // 353_000
    assert [trace.rank for trace in ranks] == list(range(RANKS))
    assert events == 2 * RANKS + steps * RANKS * (400 + 200 + 201 + 50)
    for trace in ranks:
        assert trace.counts == {
            "gpu": 200 * steps,
            "runtime": 400 * steps,
            "annotations": 201 * steps + 1,
            "other": 50 * steps,
        }
        gpu, args = trace.group("gpu"), trace.collective_args
        stated = gpu.args[gpu.args >= 0]
        assert len(stated) == 8 * steps
        assert np.unique(args.in_elems[stated]).tolist() == [67_108_864]
        assert args.group_size[stated[0]] == RANKS


@pytest.mark.parametrize(("wall_s", "peak_mib", "met"), [(4.9, 299.0, True), (5.1, 301.0, False)])
def test_an_export_has_two_goals(wall_s: float, peak_mib: float, met: bool) -> None:
    wall, peak, cpu = (Spread(v, v, v) for v in (wall_s, peak_mib, 1.0))
    results = Results({"cpus": 2}, nsys=FirstMetric(2_000_000_000, cpu, wall, peak))

    assert [verdict.met for verdict in verdicts(results)] == [met, met]
    assert "nsys export of 2 GB: peak memory" in text_of(results)
