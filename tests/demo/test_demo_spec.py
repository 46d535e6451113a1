"""An invalid spec is refused with a message before anything is built."""

from __future__ import annotations

from typing import Any

import pytest

from ccltui.demo import DEMO, Cut, LateStart, Spec, Straggler


def test_the_default_job_is_eight_ranks_on_two_hosts() -> None:
    assert (DEMO.world_size, DEMO.num_hosts, DEMO.steps) == (8, 2, 6)
    assert DEMO.global_batch == 4 * 1 * 2
    assert DEMO.clock_offsets_ns == (0, 5_000_000)


def test_the_last_host_need_not_be_full() -> None:
    spec = Spec.quiet(tp=3, pp=1, dp_shard=2, gpus_per_node=4)

    assert (spec.world_size, spec.num_hosts) == (6, 2)


def test_a_quiet_job_has_nothing_planted_unless_asked() -> None:
    late = Straggler(rank=1, cause="host", extra_ns=5)

    assert Spec.quiet().stragglers == ()
    assert Spec.quiet().jitter_ns == 0
    assert Spec.quiet(stragglers=(late,)).stragglers == (late,)


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"tp": 0}, "tp must be at least 1, not 0"),
        ({"layers": 3}, "3 layers do not divide into 2 stages"),
        ({"gemm_ns": -1}, "gemm_ns must not be negative"),
        ({"layout": "xml"}, "layout is 'xml'; choose from native, metadata_last"),
        ({"layout": "old2021"}, "old2021 knows no collective metadata"),
        ({"experts": True, "dp_shard": 1}, "set dp_shard above 1"),
        ({"stragglers": (Straggler(8, "host", 1),)}, "names no rank of a job of 8"),
        ({"late_starts": (LateStart(-1, 1),)}, "names no rank of a job of 8"),
        ({"cuts": (Cut(9, 0.5),)}, "names no rank of a job of 8"),
        ({"clock_offsets_ns": (0, 1, 2)}, "more than the 2 hosts"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(changes: dict[str, Any], because: str) -> None:
    with pytest.raises(ValueError, match=because):
        Spec.quiet(**changes)
