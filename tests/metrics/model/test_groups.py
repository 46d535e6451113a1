"""Groups of ranks and the dimensions that they are of."""

from __future__ import annotations

import tracemalloc

import pytest
from factories import Coll, Event, allreduce, job, kernel, rank_trace, world

from ccltui.metrics.model.communicator_groups import (
    CommGroup,
    format_ranks,
    group_table,
    world_of_groups,
)
from ccltui.metrics.model.dimensions import Degrees, axis_of_description, rank_grid, with_dimensions
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import ProcessGroup


def test_one_group_on_two_ranks_is_one_group() -> None:
    table = group_table([rank_trace(0, groups=[world(2)]), rank_trace(1, groups=[world(2)])], 2)

    assert [group.ranks for group in table.groups] == [(0, 1)]
    assert table.index["0"].tolist() == table.index["1"].tolist() == [0]


def test_a_name_alone_is_a_label_of_one_process() -> None:
    table = group_table(
        [
            rank_trace(0, groups=[ProcessGroup("13", "mesh_tp", (0, 1), 2)]),
            rank_trace(2, groups=[ProcessGroup("13", "mesh_tp", (2, 3), 2)]),
        ],
        4,
    )

    assert [group.ranks for group in table.groups] == [(0, 1), (2, 3)]


def test_names_may_differ_between_ranks_of_one_group() -> None:
    table = group_table(
        [
            rank_trace(0, groups=[ProcessGroup("5", "mesh_tp", (0, 1), 2)]),
            rank_trace(1, groups=[ProcessGroup("9", "mesh_tp", (1, 0), 2)]),
        ],
        2,
    )

    assert len(table.groups) == 1


def test_the_description_separates_groups_over_the_same_ranks() -> None:
    groups = [ProcessGroup("0", "default_pg", (0, 1), 2), ProcessGroup("1", "mesh_tp", (0, 1), 2)]

    table = group_table([rank_trace(0, groups=groups)], 2)

    assert table.index["0"].tolist() == [0, 1]


def test_names_separate_several_groups_that_are_otherwise_equal() -> None:
    both = [ProcessGroup("1", "mesh_pp", (0, 1), 2), ProcessGroup("25", "mesh_pp", (0, 1), 2)]

    table = group_table([rank_trace(0, groups=both), rank_trace(1, groups=both[::-1])], 2)

    assert [group.name for group in table.groups] == ["1", "25"]
    assert table.index["1"].tolist() == [1, 0]
    assert [group.label for group in table.groups] == ["mesh_pp 0,1 #1", "mesh_pp 0,1 #2"]


def test_order_separates_equal_groups_with_different_names() -> None:
    first = [ProcessGroup("1", "mesh_pp", (0, 1), 2), ProcessGroup("25", "mesh_pp", (0, 1), 2)]
    other = [ProcessGroup("7", "mesh_pp", (0, 1), 2), ProcessGroup("31", "mesh_pp", (0, 1), 2)]

    table = group_table([rank_trace(0, groups=first), rank_trace(1, groups=other)], 2)

    assert len(table.groups) == 2
    assert table.index["1"].tolist() == [0, 1]


def test_a_group_listed_twice_is_one() -> None:
    table = group_table([rank_trace(0, groups=[world(2), world(2)])], 2)

    assert table.index["0"].tolist() == [0, 0]


def test_a_group_as_large_as_the_world_is_all_of_it() -> None:
    cut = ProcessGroup("0", "default_pg", (), 4)

    table = group_table([rank_trace(0, groups=[cut])], 4)

    assert table.groups[0].ranks == (0, 1, 2, 3)


def test_many_ranks_hold_the_list_of_all_ranks_once() -> None:
    ranks = 2000
    traces = [
        rank_trace(rank, groups=[ProcessGroup("0", "default_pg", (), ranks)])
        for rank in range(ranks)
    ]
    tracemalloc.start()

    table = group_table(traces, ranks)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table.groups[0].ranks == tuple(range(ranks))
    assert peak < ranks * ranks * 4  # half of the references alone, one list for each rank


def test_groups_of_unknown_ranks_are_not_shared() -> None:
    unknown = ProcessGroup("3", "mesh_tp", (), 2)

    table = group_table([rank_trace(0, groups=[unknown]), rank_trace(1, groups=[unknown])], 8)

    assert [group.ranks for group in table.groups] == [(), ()]


def test_world_size_from_the_group_of_all_ranks() -> None:
    tensor = ProcessGroup("1", "mesh_tp", (0, 1), 2)

    assert world_of_groups([rank_trace(0, groups=[tensor, world(8)])]) == 8
    assert world_of_groups([rank_trace(0, groups=[ProcessGroup("0", "default_pg", (), 4)])]) == 4
    assert world_of_groups([rank_trace(0, groups=[tensor])]) is None


def test_format_ranks() -> None:
    assert format_ranks((0, 1, 2, 3)) == "0-3"
    assert format_ranks((0, 4, 8, 12)) == "0-12:4"
    assert format_ranks((0, 4)) == "0,4"
    assert format_ranks((0, 1, 5)) == "0,1,5"
    assert format_ranks(()) == "ranks unknown"


SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


@pytest.mark.parametrize(
    ("description", "axis"),
    [
        ("mesh_dp_replicate", "dp_replicate"),
        ("mesh_dp_shard", "dp_shard"),
        ("mesh_fsdp", "dp_shard"),
        ("mesh_dp_shard_cp", "dp_shard"),
        ("dp_shard_in_ep", "dp_shard"),
        ("dp_shard_mod_ep", "dp_shard"),
        ("dp", "dp"),
        ("dp_cp", "dp"),
        ("mesh_batch", "dp"),
        ("mesh_loss_mesh", "dp"),
        ("mesh_efsdp", "dp_shard"),
        ("mesh_tp", "tp"),
        ("mesh_etp", "tp"),
        ("mesh_pp", "pp"),
        ("mesh_cp", "cp"),
        ("mesh_ep", "ep"),
        ("tp:0", "tp"),
        ("TENSOR_MODEL_PARALLEL_GROUP", "tp"),
        ("DATA_PARALLEL_GROUP", "dp"),
        ("DATA_PARALLEL_GROUP_WITH_CP", "dp"),
        ("PIPELINE_MODEL_PARALLEL_GROUP", "pp"),
        ("CONTEXT_PARALLEL_GROUP", "cp"),
        ("EXPERT_MODEL_PARALLEL_GROUP", "ep"),
        ("EXPERT_DATA_PARALLEL_GROUP", "dp"),
        ("EXPERT_TENSOR_PARALLEL_GROUP", "tp"),
        # None, or more than one.
        ("MODEL_PARALLEL_GROUP", ""),
        ("TENSOR_AND_DATA_PARALLEL_GROUP", ""),
        ("TENSOR_AND_CONTEXT_PARALLEL_GROUP", ""),
        ("EMBEDDING_GROUP", ""),
        ("default_pg", ""),
        ("undefined", ""),
        ("", ""),
        # Whole words only: "ep" is inside "ProfilerStep", "dp" inside "udp".
        ("ProfilerStep", ""),
        ("mesh_deeper", ""),
        ("data_loader", ""),
    ],
)
def test_a_description_is_matched_in_whole_words(description: str, axis: str) -> None:
    assert axis_of_description(description) == axis


def group(*ranks: int, description: str = "undefined") -> CommGroup:
    return CommGroup(tuple(ranks), "7", description, size=len(ranks))


def dimensions_of(
    degrees: Degrees, world_size: int, *groups: CommGroup
) -> list[tuple[str, str, str]]:
    known = with_dimensions(groups, degrees, world_size)
    return [(g.dim, g.axis, g.mode) for g in known]


def test_ranks_against_the_grid_of_the_card() -> None:
    # Outer to inner: pp 2, dp_replicate 2, dp_shard 2, cp 2, tp 2 on 32 ranks.
    degrees = Degrees(dp_replicate=2, dp_shard=2, tp=2, pp=2, cp=2)

    assert dimensions_of(
        degrees,
        32,
        group(0, 1),
        group(0, 2),
        group(0, 4),
        group(0, 8),
        group(0, 16),
        group(0, 4, 8, 12),  # the two halves of data parallelism together
        group(0, 2, 4, 6),  # sharded data parallelism with context parallelism
        group(0, 2, 4, 6, 8, 10, 12, 14),
        group(0, 3),
    ) == [
        ("tp", "tp", "rank_grid"),
        ("cp", "cp", "rank_grid"),
        ("dp", "dp_shard", "rank_grid"),
        ("dp", "dp_replicate", "rank_grid"),
        ("pp", "pp", "rank_grid"),
        ("dp", "dp", "rank_grid"),
        ("dp", "dp_shard", "rank_grid"),
        ("dp", "dp", "rank_grid"),
        ("unknown", "", "unknown"),
    ]


def test_experts_across_data_parallelism_have_sets_of_their_own() -> None:
    # tp 2, dp_shard 4, ep 2: expert groups are half a data-parallel group.
    assert dimensions_of(Degrees(dp_shard=4, tp=2, ep=2), 8, group(0, 2), group(0, 2, 4, 6)) == [
        ("ep", "ep", "rank_grid"),
        ("dp", "dp_shard", "rank_grid"),
    ]


def test_two_dimensions_with_equal_rank_sets_are_unknown() -> None:
    assert dimensions_of(Degrees(dp_shard=4, tp=2, ep=4), 8, group(0, 2, 4, 6)) == [
        ("unknown", "", "unknown")
    ]


def test_megatron_may_give_experts_a_dimension_of_their_own() -> None:
    # Inner to outer tp 2, cp 1, ep 2, dp 2, pp 1 on 8 ranks.
    degrees = Degrees(dp_replicate=1, dp_shard=2, tp=2, pp=1, cp=1, ep=2)

    assert dimensions_of(degrees, 8, group(0, 1), group(0, 2), group(0, 4)) == [
        ("tp", "tp", "rank_grid"),
        ("ep", "ep", "rank_grid"),
        ("dp", "dp_shard", "rank_grid"),
    ]


def test_the_only_degree_above_one_spans_the_world() -> None:
    everyone = group(0, 1, 2, 3, description="default_pg")

    assert dimensions_of(Degrees(tp=4, pp=1), 4, everyone) == [("tp", "tp", "rank_grid")]
    assert dimensions_of(Degrees(tp=2, dp_shard=2), 4, everyone) == [("world", "", "process_group")]
    assert dimensions_of(Degrees(), 4, everyone) == [("world", "", "process_group")]


def test_a_group_of_all_ranks_without_description_is_unknown() -> None:
    assert dimensions_of(Degrees(), 2, group(0, 1, description="")) == [("unknown", "", "unknown")]


def test_an_open_degree_follows_from_the_world() -> None:
    full = Degrees(tp=2, dp_shard=-1).completed(8)

    assert full is not None
    assert (full.tp, full.dp_shard, full.dp_replicate, full.pp) == (2, 4, 1, 1)


def test_degrees_that_do_not_make_the_world_span_no_grid() -> None:
    assert rank_grid(Degrees(tp=3), 8) == {}
    assert rank_grid(Degrees(tp=2), 8) == {}  # four other degrees are open
    assert rank_grid(Degrees(), 8) == {}
    assert rank_grid(Degrees(tp=2), None) == {}


def dims_of(events: list[Event], groups: list[ProcessGroup], **overrides: object) -> list[str]:
    view = View(
        job(rank_trace(0, gpu=events, groups=groups, world_size=8)),
        ViewOptions(overrides=overrides),
    )
    from ccltui.metrics.model.dimensions import DIMS

    return [DIMS[dim] for dim in view.dims_of(view.ranks[0].named_calls)[0]]


def test_only_named_operations_determine_a_dimension() -> None:
    events = [
        kernel(SENDRECV, 0, 1, coll=Coll("send")),
        kernel(SENDRECV, 1, 1, coll=Coll("recv")),
        kernel(SENDRECV, 2, 1, coll=Coll("all_to_allv")),
        kernel(SENDRECV, 3, 1),
        allreduce(4, 1, Coll("allreduce")),
        allreduce(5, 1, Coll("_reduce_scatter_base")),
    ]

    assert dims_of(events, [world(8)]) == ["pp", "pp", "ep", "unknown", "world", "world"]


def test_an_all_to_all_without_experts_is_context_traffic() -> None:
    events = [kernel(SENDRECV, 0, 1, coll=Coll("all_to_all"))]

    assert dims_of(events, [world(8)], cp=2, ep=1) == ["cp"]
    assert dims_of(events, [world(8)], cp=2, ep=2) == ["ep"]


def test_the_world_is_known_by_its_group_where_no_file_states_its_size() -> None:
    trace = rank_trace(0, gpu=[allreduce(0, 1, Coll())], groups=[world(4)])

    view = View(job(trace))

    assert (view.world_size, view.groups[0].dim) == (4, "world")


def test_the_description_of_a_group_has_precedence_over_the_operation() -> None:
    group_of_context = ProcessGroup("4", "mesh_cp", (0, 1), 2)

    assert dims_of([kernel(SENDRECV, 0, 1, coll=Coll("send"))], [group_of_context]) == ["cp"]
