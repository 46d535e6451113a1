"""Identification of communicators across ranks."""

from __future__ import annotations

import tracemalloc

from factories import rank_trace, world

from ccltui.metrics.model.communicator_groups import format_ranks, group_table, world_of_groups
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
