"""traffic_distribution: message bytes by the dimension of the group."""

from __future__ import annotations

import numpy as np
import pytest
from factories import Coll, Event, allreduce, card, job, kernel, rank_trace, world

from ccltui.metrics.catalog.communication.traffic_distribution import (
    guessed_dims,
    traffic_distribution,
)
from ccltui.metrics.model.dimensions import DIMS, Degrees
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import ProcessGroup, RankTrace
from ccltui.parsers.side.workload_card import Card
from ccltui.parsers.window import Window

SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
MIB = 1 << 20
GROUPS = [
    world(8),
    ProcessGroup("1", "mesh_tp", (0, 1), 2),
    ProcessGroup("2", "mesh_dp_shard", (0, 2), 2),
    ProcessGroup("3", "mesh_pp", (0, 4), 2),
    ProcessGroup("4", "mesh_dp_replicate", (0, 2), 2),
]


def run(*ranks: RankTrace, stated: Card | None = None, **options: object) -> Result:
    view = View(job(*ranks, card=stated), ViewOptions(**options))  # type: ignore[arg-type]
    return traffic_distribution.run(view)


def collective(start: float, op: str, in_elems: int, out_elems: int, group: int) -> Event:
    return kernel(SENDRECV, start, 10, 20, Coll(op, in_elems, out_elems, "BFloat16", group))


def worked_example(**fields: object) -> RankTrace:
    return rank_trace(
        0,
        gpu=[
            collective(0, "_reduce_scatter_base", 8 * MIB, 4 * MIB, 1),
            collective(20, "_allgather_base", 4 * MIB, 8 * MIB, 2),
            collective(40, "send", MIB, MIB, 3),
            collective(60, "recv", MIB, MIB, 3),
        ],
        groups=GROUPS,
        **fields,  # type: ignore[arg-type]
    )


def test_worked_example() -> None:
    result = run(worked_example())

    details = result.details
    assert (result.status, result.unit) == ("ok", "bytes")
    assert (details["tp_bytes"], details["dp_bytes"]) == (16 * MIB, 16 * MIB)
    assert details["pp_bytes"] == 2 * MIB  # the receive repeats what was sent
    assert (details["ep_bytes"], details["cp_bytes"], details["unknown_bytes"]) == (0, 0, 0)
    assert details["total_bytes"] == result.value == 34 * MIB
    assert details["fractions"] == {
        "dp": pytest.approx(0.4706, abs=1e-4),
        "tp": pytest.approx(0.4706, abs=1e-4),
        "pp": pytest.approx(0.0588, abs=1e-4),
        "ep": 0.0,
        "cp": 0.0,
        "world": 0.0,
        "unknown": 0.0,
    }
    assert sum(details["fractions"].values()) == pytest.approx(1, abs=1e-9)
    assert details["by_dim"]["tp"]["wire_bytes"] == 8 * MIB
    assert details["by_dim"]["dp"]["wire_bytes"] == 8 * MIB
    assert details["by_dim"]["pp"]["calls"] == 2
    assert details["mode"] == "process_group"
    assert (details["total_comm_calls"], details["bytes_coverage"]) == (4, 1.0)
    assert details["bytes_basis"] == "message"
    assert (details["fractions_of"], details["heuristic_fractions"]) == ("bytes", None)
    assert "heuristic" not in result.basis
    assert set(details) == set(traffic_distribution.keys)


def test_bytes_of_all_ranks_add_up() -> None:
    def rank(number: int) -> RankTrace:
        return rank_trace(
            number,
            gpu=[collective(0, "allreduce", 100, 100, 0)],
            groups=[ProcessGroup("1", "mesh_tp", (0, 1), 2)],
        )

    details = run(rank(0), rank(1)).details

    assert details["tp_bytes"] == 400
    assert details["by_dim"]["tp"]["ranks"] == ["0", "1"]


def test_replicated_and_sharded_data_parallelism_are_also_told_apart() -> None:
    trace = rank_trace(
        0,
        gpu=[
            collective(0, "_allgather_base", 50, 100, 2),
            collective(20, "allreduce", 300, 300, 4),
        ],
        groups=GROUPS,
    )

    data = run(trace).details["by_dim"]["dp"]

    assert data["message_bytes"] == 800
    assert {axis: row["message_bytes"] for axis, row in data["parts"].items()} == {
        "dp_replicate": 600,
        "dp_shard": 200,
    }


def test_operations_tell_where_groups_do_not() -> None:
    trace = rank_trace(
        0,
        gpu=[
            collective(0, "all_to_allv", 100, 100, 0),
            collective(20, "send", 100, 100, 0),
            collective(40, "_reduce_scatter_base", 100, 50, 0),
        ],
        groups=[ProcessGroup("0", "undefined", (0, 1), 2)],
    )

    details = run(trace).details

    assert (details["ep_bytes"], details["pp_bytes"], details["unknown_bytes"]) == (200, 200, 200)
    assert details["mode"] == "heuristic"
    # A reduce-scatter never implies data parallelism, nor does it rule it out.
    assert (details["dp_bytes"], details["fractions"]["dp"]) == (None, None)
    assert details["heuristic_fractions"]["dp"] == pytest.approx(1 / 3)  # beside what is known


def test_rules_of_several_kinds_are_mixed() -> None:
    trace = rank_trace(
        0,
        gpu=[collective(0, "allreduce", 8, 8, 1), collective(20, "send", 8, 8, 0)],
        groups=GROUPS,
    )

    assert run(trace).details["mode"] == "mixed"


def test_the_cards_degrees_tell_groups_without_a_description() -> None:
    trace = rank_trace(
        0,
        gpu=[collective(0, "allreduce", 8, 8, 0), collective(20, "allreduce", 8, 8, 1)],
        groups=[
            ProcessGroup("1", "undefined", (0, 1), 2),
            ProcessGroup("2", "undefined", (0, 2), 2),
        ],
        world_size=4,
    )

    details = run(trace, stated=card(tp=2, dp_shard=2)).details

    assert (details["tp_bytes"], details["dp_bytes"]) == (16, 16)
    assert details["mode"] == "rank_grid"


def test_where_no_rule_tells_a_dimension_the_heuristic_does() -> None:
    trace = rank_trace(
        0,
        gpu=[
            collective(0, "allreduce", 8, 8, 0),
            collective(20, "_reduce_scatter_base", 24, 12, 0),
            collective(40, "broadcast", 16, 16, 0),
        ],
        groups=[ProcessGroup("0", "", (), 2)],
    )

    result = run(trace)

    assert (result.status, result.reason, result.value) == ("partial", "no_process_groups", 96)
    details = result.details
    assert (details["tp_bytes"], details["dp_bytes"], details["unknown_bytes"]) == (16, 48, 32)
    assert (details["mode"], details["fractions_of"]) == ("heuristic", "bytes")
    assert details["fractions"]["dp"] == 0.5
    assert details["heuristic_fractions"] == details["fractions"]
    assert "dp and tp may be exchanged" in result.basis["heuristic"]
    # The rules themselves tell nothing, and by_dim is theirs.
    assert set(details["by_dim"]) == {"unknown"}
    dims = ("dp", "tp", "pp", "ep", "cp", "world")
    assert details["time_fractions"] == dict.fromkeys(dims) | {"unknown": 1.0}


@pytest.mark.parametrize(
    ("degrees", "kind", "dim"),
    [
        ({}, "SendRecv", "pp"),
        ({"ep": 2}, "SendRecv", "ep"),
        ({"ep": 2, "pp": 2}, "SendRecv", "pp"),
        ({}, "AllReduce", "tp"),
        ({"dp_shard": 2, "tp": 2}, "AllReduce", "tp"),
        ({"dp_replicate": 2}, "AllReduce", "dp"),
        ({"dp_shard": 2, "tp": 2}, "ReduceScatter", "dp"),
        ({"tp": 2}, "ReduceScatter", "tp"),
        ({}, "AllGather", "dp"),
        ({}, "AllToAll", "ep"),
    ],
)
def test_the_heuristic_goes_by_type_and_by_the_degrees_that_are_stated(
    degrees: dict[str, int], kind: str, dim: str
) -> None:
    trace = rank_trace(0, gpu=[kernel(f"ncclDevKernel_{kind}(ncclDevComm*)", 0, 10)])
    view = View(job(trace), ViewOptions())
    (rank,) = view.ranks
    calls = rank.recorded_calls

    found = guessed_dims(calls, np.array([DIMS.index("unknown")], np.int8), Degrees(**degrees))

    assert [DIMS[index] for index in found] == [dim]


def test_a_dimension_whose_calls_state_no_size_has_no_bytes() -> None:
    trace = rank_trace(
        0,
        gpu=[
            collective(0, "allreduce", 8, 8, 1),
            allreduce(50, 10, Coll("allreduce", group=2)),
        ],
        groups=GROUPS,
    )

    result = run(trace)

    details = result.details
    assert (result.status, result.reason) == ("partial", "no_message_size")
    assert (details["tp_bytes"], details["dp_bytes"], details["pp_bytes"]) == (16, None, 0)
    assert (details["fractions"]["tp"], details["fractions"]["dp"]) == (1.0, None)
    assert details["by_dim"]["dp"]["message_bytes"] is None
    assert details["time_fractions"]["dp"] == 0.5


def test_a_barrier_of_an_unknown_group_hides_no_traffic() -> None:
    trace = rank_trace(
        0,
        gpu=[collective(0, "allreduce", 8, 8, 1), collective(20, "barrier", -1, -1, -1)],
        groups=GROUPS,
    )

    result = run(trace)

    assert (result.status, result.details["unknown_bytes"]) == ("ok", 0)
    assert (result.details["tp_bytes"], result.details["dp_bytes"]) == (16, 0)


def test_without_any_size_bytes_are_null_and_shares_of_time_remain() -> None:
    trace = rank_trace(
        0, gpu=[allreduce(0, 30, Coll("allreduce", group=1)), allreduce(50, 10)], groups=GROUPS
    )

    result = run(trace)

    details = result.details
    assert (result.status, result.reason, result.value) == ("partial", "no_message_size", None)
    assert (details["tp_bytes"], details["total_bytes"]) == (None, None)
    assert (details["fractions"]["tp"], details["fractions_of"]) == (1.0, "time")
    assert details["mode"] == "mixed"  # a group tells one call, its type the other
    assert (details["time_fractions"]["tp"], details["time_fractions"]["unknown"]) == (0.75, 0.25)
    assert details["by_dim"]["tp"]["time_ms"] == 0.03
    assert details["bytes_coverage"] == 0.0


def test_some_sizes_cover_a_share() -> None:
    trace = rank_trace(
        0, gpu=[collective(0, "allreduce", 8, 8, 1), allreduce(50, 10)], groups=GROUPS
    )

    result = run(trace)

    assert (result.status, result.details["bytes_coverage"]) == ("partial", 0.5)
    assert result.details["tp_bytes"] == 16


def test_a_barrier_moves_no_bytes_and_lacks_none() -> None:
    trace = rank_trace(
        0,
        gpu=[collective(0, "allreduce", 8, 8, 1), collective(20, "barrier", -1, -1, 1)],
        groups=GROUPS,
    )

    assert (run(trace).status, run(trace).details["bytes_coverage"]) == ("ok", 1.0)


def test_an_unknown_group_size_leaves_the_wire_unknown() -> None:
    trace = rank_trace(0, gpu=[kernel(SENDRECV, 0, 1, coll=Coll("allreduce", 8, 8, group=-1))])

    row = run(trace).details["by_dim"]["unknown"]

    assert (row["message_bytes"], row["wire_bytes"]) == (32, None)


def test_a_window_and_a_group_choose_calls() -> None:
    # Calls belong by their start, their time is clipped.
    trace = worked_example()

    assert run(trace, window=Window(15_000, 45_000)).details["total_bytes"] == 18 * MIB
    clipped = run(trace, window=Window(15_000, 25_000)).details
    assert clipped["by_dim"]["dp"]["time_ms"] == 0.005
    assert run(trace, group="mesh_tp").details["total_bytes"] == 16 * MIB


def test_a_call_that_runs_into_a_window_counts_its_time_there_and_its_bytes_before() -> None:
    # reduce_scatter [0, 10), all_gather [20, 30), send [40, 50), recv [60, 70)
    trace = worked_example()

    both = run(trace, window=Window(25_000, 45_000)).details
    row = both["by_dim"]["dp"]
    assert (row["calls"], row["message_bytes"], row["wire_bytes"]) == (0, 0, 0)
    assert row["time_ms"] == 0.005
    assert (both["total_bytes"], both["pp_bytes"]) == (2 * MIB, 2 * MIB)
    assert both["time_fractions"]["dp"] == both["time_fractions"]["pp"] == 0.5
    inside = run(trace, window=Window(22_000, 28_000))
    assert (inside.status, inside.value) == ("ok", 0)  # a real zero: nothing was begun
    assert inside.details["time_fractions"]["dp"] == 1.0


def test_no_collective_is_refused() -> None:
    assert run(rank_trace(0, gpu=[kernel("gemm", 0, 1)])).reason == "no_collectives"
