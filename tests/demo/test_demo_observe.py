"""Clocks, resolution and windows of the profilers."""

from __future__ import annotations

import pytest

from ccltui.demo import LateStart, Spec
from ccltui.demo.profiler_view import BASE_NS, START_NS, HostClock, observe
from ccltui.demo.simulate import simulate

TINY = {"tp": 2, "pp": 1, "dp_shard": 1, "steps": 2, "layers": 1, "micro_batches": 1}


def test_a_clock_adds_its_offset() -> None:
    spec = Spec.quiet(clock_offsets_ns=(0, -7_003))

    assert HostClock(spec, 0).read(12_345) == START_NS + 12_345
    assert HostClock(spec, 1).read(12_345) == START_NS + 5_342


def test_a_drifting_clock_gains_in_proportion() -> None:
    spec = Spec.quiet(clock_drifts_ppb=(0, 20_000))

    assert HostClock(spec, 1).read(0) == START_NS
    assert HostClock(spec, 1).read(1_000_000_000) == START_NS + 1_000_020_000


def test_whole_microseconds_are_floored() -> None:
    spec = Spec.quiet(layout="integer_us", clock_offsets_ns=(0, 1_700))

    assert HostClock(spec, 0).read(1_999) == START_NS + 1_000
    assert HostClock(spec, 1).read(1_999) == START_NS + 3_000


def test_times_are_written_against_a_base_except_in_a_bare_list() -> None:
    relative = observe(simulate(Spec.quiet(**TINY)))
    bare = observe(simulate(Spec.quiet(**TINY, layout="bare_list")))

    assert relative.activities[0][0].start_ns > BASE_NS
    assert 1_000_000_000 < bare.activities[0][0].start_ns < 1_010_000_000


def test_a_late_profiler_misses_the_first_collectives_and_what_came_before() -> None:
    true = simulate(Spec.quiet(**TINY, late_starts=(LateStart(rank=1, missing=2),)))

    seen = observe(true)

    calls = [item for item in seen.activities[1] if item.klass == "comm"]
    assert len(calls) == 10 - 2  # 4 all-reduces and the norm in each of 2 steps
    assert len(seen.activities[0]) == len(true.activities[0])
    began_ns = calls[0].host_start_ns
    assert min(item.host_start_ns for item in seen.activities[1]) == began_ns
    markers = [item for item in seen.host[1] if item.kind == "step"]
    assert [item.step for item in markers] == [0, 1]
    assert markers[0].start_ns == began_ns


def test_orphans_stay_without_their_launch() -> None:
    late = LateStart(rank=1, missing=2, orphans=1)

    seen = observe(simulate(Spec.quiet(**TINY, late_starts=(late,))))

    orphans = [item for item in seen.activities[1] if item.orphan]
    assert [item.seq for item in orphans] == [102]
    assert sum(item.klass == "comm" for item in seen.activities[1]) == 9


def test_more_orphans_than_missing_collectives_cannot_be() -> None:
    true = simulate(Spec.quiet(**TINY, late_starts=(LateStart(0, 1, orphans=2),)))

    with pytest.raises(ValueError, match="rank 0 has 10 collectives"):
        observe(true)
