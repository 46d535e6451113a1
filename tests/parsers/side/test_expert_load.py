"""Side files of expert loads, in their three shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ccltui.parsers.errors import TraceError
from ccltui.parsers.side.result_files import ExpertLoad, read_expert_load


def read(tmp_path: Path, document: Any, rank: int | None = None) -> tuple[ExpertLoad, ...]:
    path = tmp_path / "loads.json"
    path.write_text(json.dumps(document))
    return read_expert_load(path, shown="loads.json", rank=rank)


def test_gate_logs(tmp_path: Path) -> None:
    (load,) = read(tmp_path, {"expert_loads": [[1, 2, 3], [4, 5, 6]]})

    assert (load.shape, load.total.tolist()) == ("gate_log", [5.0, 7.0, 9.0])
    assert load.steps is not None
    assert load.steps.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_assignments_state_their_rank(tmp_path: Path) -> None:
    (load,) = read(tmp_path, {"rank": 3, "token_counts": [7, 9]}, rank=1)

    assert (load.shape, load.rank, load.total.tolist()) == ("assignments", 3, [7.0, 9.0])
    several = read(tmp_path, [{"rank": r, "token_counts": [r]} for r in range(3)])
    assert [load.rank for load in several] == [0, 1, 2]


def test_statistics_by_layer(tmp_path: Path) -> None:
    document = {
        "model.layers.0.mlp": {"expert_counts": [1, 2], "expert_active_calls": [1, 1]},
        "model.layers.7.mlp": {"expert_counts": [3, 0]},
        "note": "x",
    }

    (load,) = read(tmp_path, document, rank=5)

    assert (load.shape, load.rank, load.total.tolist()) == ("statistics", 5, [4.0, 2.0])
    assert {name: counts.tolist() for name, counts in load.layers.items()} == {
        "model.layers.0.mlp": [1.0, 2.0],
        "model.layers.7.mlp": [3.0, 0.0],
    }
    assert list(load.active_calls) == ["model.layers.0.mlp"]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"expert_loads": []}, "no list of steps"),
        ({"expert_loads": [[1, 2], [1]]}, "different numbers"),
        ({"expert_loads": [[1, "2"]]}, "no number"),
        ({"expert_loads": [[1, -2]]}, "no number from 0 up"),
        ({"expert_loads": [[]]}, "no list of numbers"),
        ({"rank": 0, "token_counts": 5}, "no list of numbers"),
        ({"a": {"expert_counts": [1]}, "b": {"expert_counts": [1, 2]}}, "different numbers"),
        ({"something": 1}, "no loads of experts"),
        ([1], "no loads of experts"),
    ],
)
def test_what_is_none_of_them_says_why(tmp_path: Path, document: Any, why: str) -> None:
    with pytest.raises(TraceError, match=rf"loads\.json: .*{why}"):
        read(tmp_path, document)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(("expert_loads", "rank", "token_counts", "layer", "expert_counts")),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON)
def test_any_json_is_loads_or_an_error_of_ours(tmp_path: Path, document: Any) -> None:
    try:
        loads = read(tmp_path, document)
    except TraceError:
        return
    assert all((load.total >= 0).all() for load in loads)
