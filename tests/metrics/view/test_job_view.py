"""A view of a job: shared results, and windows on the corrected clock."""

from __future__ import annotations

import pytest
from factories import Coll, allreduce, card, job, kernel, rank_trace, step, world
from msgspec import structs

from ccltui.metrics.catalog.communication.coll_call_num import coll_call_num
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.window import Window


def ranks_on_two_clocks(shift_us: float = 5000.0, lead_us: float = 100.0) -> list[RankTrace]:
    """20 all-reduces of two ranks; rank 1's clock is ahead, no rank is late."""
    return [
        rank_trace(
            rank,
            gpu=[
                kernel("gemm", 0, 5),
                *(
                    allreduce(lead_us + 100 * i, 50, Coll("allreduce", 8, 8, seq=i))
                    for i in range(20)
                ),
            ],
            groups=[world(2)],
            world_size=2,
            host=f"node-{rank}",
            shift_us=shift_us * rank,
        )
        for rank in (0, 1)
    ]


def test_a_window_is_on_the_corrected_clock() -> None:
    # 250 µs to 650 µs after the job's start: calls 2, 3, 4 and 5 (at 300, 400, 500, 600) of
    # both ranks, though rank 1 wrote them down as 5300 and later.
    view = View(job(*ranks_on_two_clocks()), ViewOptions(window=Window(250_000, 650_000)))

    assert view.offsets_ns == {"0": 0, "1": 5_000_000}
    assert [rank.selected_calls.seq.tolist() for rank in view.ranks] == [[2, 3, 4, 5]] * 2
    assert "corrected clocks" in coll_call_num.run(view).basis["clipped"]


def test_a_window_on_raw_clocks_is_as_recorded() -> None:
    options = ViewOptions(window=Window(250_000, 650_000), raw_clocks=True)
    view = View(job(*ranks_on_two_clocks()), options)

    assert [rank.selected_calls.seq.tolist() for rank in view.ranks] == [[2, 3, 4, 5], []]
    assert "raw clocks" in coll_call_num.run(view).basis["clipped"]


def test_intervals_are_clipped_and_add_up() -> None:
    view = View(
        job(rank_trace(0, gpu=[kernel("gemm", 0, 10), allreduce(5, 10)])),
        ViewOptions(window=Window(2_000, 12_000)),
    )

    (rank,) = view.ranks
    assert (rank.comp.total_ns, rank.comm.total_ns, rank.mem.total_ns) == (8_000, 7_000, 0)
    assert (rank.window_ns, rank.occupied.total_ns) == (10_000, 10_000)


def test_new_options_share_what_they_do_not_change() -> None:
    view = View(job(*ranks_on_two_clocks()))
    calls = view.ranks[0].named_calls

    other = view.with_options(window=Window(0, 1000), raw_clocks=True)

    assert other.ranks[0].named_calls is calls
    assert other.clocks is view.clocks
    assert other.options.window == Window(0, 1000)


def test_other_degrees_recompute_groups_but_not_classes() -> None:
    view = View(job(*ranks_on_two_clocks()))
    assert view.ranks[0].facts.classes is not None
    assert view.groups[0].dim == "world"

    other = view.with_options(overrides={"tp": 2})

    assert other.groups[0].dim == "tp"
    assert other.ranks[0].facts is view.ranks[0].facts


def test_a_job_that_grows_reuses_results_of_its_ranks() -> None:
    first, second = ranks_on_two_clocks()
    view = View(job(first))
    classes = view.ranks[0].facts.classes

    renamed = structs.replace(first, label="0 (a.json)")
    grown = View(job(renamed, second), previous=view)

    assert [rank.label for rank in grown.ranks] == ["0 (a.json)", "1"]
    assert grown.ranks[0].facts.classes is classes


def test_ranks_and_world() -> None:
    view = View(
        job(rank_trace(0, gpu=[allreduce(0, 1)]), card=card(total_count=16)),
        ViewOptions(ranks=frozenset({0})),
    )

    assert view.world_size == 16  # no trace states one
    assert [rank.label for rank in view.ranks] == ["0"]


def test_group_labels() -> None:
    view = View(job(*ranks_on_two_clocks()))

    assert view.group_label(0) == "default_pg 0,1"
    assert view.group_label(-1) == "unknown"


def test_matches_clocks_and_arrivals_are_of_the_whole_job() -> None:
    view = View(job(*ranks_on_two_clocks()), ViewOptions(window=Window(0, 1), ranks=frozenset({1})))

    assert len(view.matches.groups[0].rows) == 20
    assert [item.label for item in view.match_inputs] == ["0", "1"]
    assert view.arrivals.basis == "corrected clocks"
    assert view.with_options(raw_clocks=True).arrivals.basis == "raw clocks"


@pytest.mark.parametrize("span", ["steps", "inner", "trace"])
def test_windows_of_a_rank_without_events_are_empty(span: str) -> None:
    view = View(job(rank_trace(0)), ViewOptions(span=span))  # type: ignore[arg-type]

    assert view.ranks[0].window_ns == 0
    assert view.ranks[0].is_empty
    assert view.ranks[0].span.total_ns == 0


def test_without_device_work_the_markers_are_the_windows() -> None:
    view = View(job(rank_trace(0, annotations=[step(1, 0, 10), step(2, 20, 10)])))

    assert view.ranks[0].step_windows == ((1, 0, 10_000), (2, 20_000, 30_000))


def test_what_follows_from_types_and_groups_is_found_once_for_ranks_that_share_them() -> None:
    view = View(job(rank_trace(0, gpu=[allreduce(0, 5), allreduce(9, 5)], groups=[world(1)])))
    calls = view.ranks[0].recorded_calls
    same = structs.replace(calls, start_ns=calls.start_ns + 7)
    other = structs.replace(calls, kind=calls.kind.copy())
    found: list[str] = []

    def numbered(name: str) -> str:
        found.append(name)
        return name

    assert view.of_alike("a", calls, lambda: numbered("first")) == "first"
    assert view.of_alike("a", same, lambda: numbered("second")) == "first"
    assert view.of_alike("b", same, lambda: numbered("third"), calls.step) == "third"
    assert view.of_alike("b", same, lambda: numbered("fourth"), calls.step + 1) == "fourth"
    assert view.of_alike("a", other, lambda: numbered("fifth")) == "fifth"
    assert found == ["first", "third", "fourth", "fifth"]
