"""The compiled inference of communicators finds what its slow definition finds."""

from __future__ import annotations

import numpy as np
import pytest
from calls_by_hand import Call, member

from ccltui.metrics.arrays.compiled import has_near_ends
from ccltui.metrics.collectives.implied import implied_groups, stream_evidence
from ccltui.metrics.collectives.implied.implied_groups import Implied
from ccltui.metrics.collectives.matching.match import MatchInput
from ccltui.parsers.array_types import I64

KINDS = ("AllReduce", "AllGather", "SendRecv")
Drawn = tuple[list[MatchInput], dict[str, I64]]


def drawn(seed: int) -> Drawn:
    """Calls of two to eight ranks in one to four groups, of which some files lack some.

    Hosts have clocks that are apart and drift, ends scatter, and some groups are in step.
    """
    rng = np.random.default_rng(seed)
    ranks = int(rng.integers(2, 9))
    rows: dict[int, list[tuple[Call, int]]] = {rank: [] for rank in range(ranks)}
    steps = int(rng.integers(3, 30))
    for place in range(int(rng.integers(1, 5))):
        members = np.flatnonzero(rng.random(ranks) < 0.7)
        stream, kind = int(rng.integers(7, 10)), KINDS[int(rng.integers(len(KINDS)))]
        scatter = float(rng.choice([2, 20, 90]))
        for step in range(steps):
            end = 3000.0 * step + 60 * place + float(rng.uniform(0, 400))
            for rank in members.tolist():
                begin = end - float(rng.uniform(10, 300))
                call = Call(begin, end + float(rng.uniform(0, scatter)), kind, group=-1)
                rows[rank].append((call, stream))
    hosts = rng.integers(0, 3, ranks)
    shift_us = rng.uniform(-4000, 4000, 3)
    inputs, streams = [], {}
    for rank, calls in rows.items():
        kept = [row for row in calls if rng.random() > 0.03]
        kept.sort(key=lambda row: row[0].start_us)
        host = f"node{hosts[rank]}" if seed % 3 else ""
        shift = float(shift_us[hosts[rank]])
        inputs.append(member(rank, [call for call, _ in kept], shift_us=shift, host=host))
        streams[str(rank)] = np.array([stream for _, stream in kept], np.int64)
    return inputs, streams


def told(found: Implied | None) -> object:
    if found is None:
        return None
    return found.groups, {label: index.tolist() for label, index in found.index.items()}


def slowly(job: Drawn, monkeypatch: pytest.MonkeyPatch) -> Implied | None:
    """Infer by the definitions in Python."""
    with monkeypatch.context() as patch:
        for module in (implied_groups, stream_evidence):
            patch.setattr(module, "has_near_ends", lambda: False)
        return implied_groups.implied_groups(*job)


@pytest.mark.skipif(not has_near_ends(), reason="the compiled module is not built")
def test_groups_are_those_of_the_slow_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = 0
    for seed in range(60):
        job = drawn(seed)
        found = implied_groups.implied_groups(*job)
        assert told(found) == told(slowly(job, monkeypatch)), f"seed {seed}"
        groups += 0 if found is None else len(found.groups)

    assert groups > 40  # jobs in which nothing is found compare nothing


def test_votes_of_long_queues_are_those_of_every_pair_of_calls() -> None:
    """Bins are wider than a window here, and few of them are looked at."""
    compiled = pytest.importorskip("ccltui.metrics.arrays._near_ends")
    rng = np.random.default_rng(3)
    count = 200
    end = np.cumsum(rng.integers(1_000_000, 90_000_000, count))
    other = end[:150] + 7_000_000 + rng.integers(0, 4_000, 150)
    what, dur = rng.integers(0, 2, count), rng.integers(10_000, 900_000, count)
    mine, theirs = (what, end, dur), (what[:150], other, dur[::-1][:150].copy())
    parts = np.array([[0, count, 0, 150]])

    found = compiled.shared_differences(
        *mine, *theirs, parts, 30_000, 5_000, stream_evidence.MIN_WEIGHT, 3, 4
    )

    slow = stream_evidence._votes_of(mine, theirs)
    assert [ahead for _, ahead in found] == [ahead for _, ahead in slow]
    assert [votes for votes, _ in found] == pytest.approx([votes for votes, _ in slow])
    assert found[0][1] == pytest.approx(-7_002_000, abs=1_000)


@pytest.mark.parametrize("far", [2**40, 2**62, 2**63 - 1])
def test_votes_of_times_that_are_far_apart_stay_inside_the_bins(far: int) -> None:
    compiled = pytest.importorskip("ccltui.metrics.arrays._near_ends")
    end = np.array([-far, 0, 1000, 2000, 3000, far])
    what, dur = np.zeros(6, np.int64), np.full(6, 50_000)
    rows = (what, end, dur)
    parts = np.array([[0, 6, 0, 6]])

    found = compiled.shared_differences(
        *rows, *rows, parts, 30_000, 5_000, stream_evidence.MIN_WEIGHT, 3, 4
    )

    assert all(abs(ahead) <= 2.0 * far for _, ahead in found)
