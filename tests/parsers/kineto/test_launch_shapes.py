"""Test blocks per SM and occupancy of kernels, as stated or from the grid and the device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ccltui.parsers.kineto.kineto_reader import read_kineto


def kernel(start: int, **args: Any) -> dict[str, Any]:
    shape = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": start, "dur": 1}
    return {**shape, "args": {name.replace("_", " "): value for name, value in args.items()}}


OCCUPANCY = "est. achieved occupancy %"


@pytest.fixture(params=["0", "1"], ids=["general", "compiled"])
def read(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("CCLTUI_ACCEL", request.param)

    def reading(*events: dict[str, Any], devices: list[dict[str, Any]] | None = None) -> Any:
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"traceEvents": events, "deviceProperties": devices or []}))
        return read_kineto(path)

    return reading


def test_stated_values_are_used(read: Any) -> None:
    gpu = read(
        kernel(0, blocks_per_SM=0.0625, **{OCCUPANCY: 31}),
        kernel(1, blocks_per_SM=13312, grid=[1, 1, 1], **{OCCUPANCY: 0}),
        kernel(2),
    ).group("gpu")

    assert gpu.blocks_per_sm.tolist() == [0.0625, 13312.0, -1.0]
    assert gpu.occupancy_pct.tolist() == [31.0, 0.0, -1.0]


def test_a_grid_alone_is_divided_by_the_multiprocessors_of_its_device(read: Any) -> None:
    devices = [{"id": 0, "numSms": 4}, {"id": 1, "numSms": 8}]
    gpu = read(
        kernel(0, grid=[2, 3, 2], device=0),
        kernel(1, grid=[2, 3, 2], device=1),
        kernel(2, grid=[2, 3, 2], device=2),
        devices=devices,
    ).group("gpu")

    assert gpu.blocks_per_sm.tolist() == [3.0, 1.5, -1.0]
    assert len(gpu.occupancy_pct) == 0


def test_unlisted_device_has_the_sms_of_the_listed_ones(read: Any) -> None:
    gpu = read(kernel(0, grid=[8, 1, 1], device=2), devices=[{"id": 0, "numSms": 4}]).group("gpu")

    assert gpu.blocks_per_sm.tolist() == [2.0]


@pytest.mark.parametrize(
    "value", ["0.5", True, -1, None, [1], {"a": 1}, 1e300, 123456789012345678901]
)
def test_invalid_values_are_missing(read: Any, value: object) -> None:
    trace = read(kernel(0, blocks_per_SM=value), kernel(1, **{OCCUPANCY: value}))

    assert len(trace.group("gpu").blocks_per_sm) == 0
    assert trace.group("gpu").sparse("occupancy_pct").tolist() == [-1.0, -1.0]


@pytest.mark.parametrize("grid", [[1, 2], [1, 2, 0], [1, 2, "3"], [1, 2, True], "[1, 2, 3]", 7, {}])
def test_invalid_grids_are_missing(read: Any, grid: object) -> None:
    trace = read(kernel(0, grid=grid), devices=[{"id": 0, "numSms": 4}])

    assert len(trace.group("gpu").blocks_per_sm) == 0


def test_launch_rows_are_sorted_with_their_events(read: Any) -> None:
    gpu = read(kernel(5, blocks_per_SM=5), kernel(3, blocks_per_SM=3)).group("gpu")

    assert gpu.blocks_per_sm.tolist() == [3.0, 5.0]
    assert gpu.take(gpu.blocks_per_sm > 4).blocks_per_sm.tolist() == [5.0]


def test_groups_without_kernels_take_no_memory(read: Any) -> None:
    operator = {"ph": "X", "cat": "cpu_op", "name": "o", "pid": 1, "tid": 1, "ts": 0, "dur": 1}
    trace = read({**operator, "args": {"grid": [1, 1, 1], "blocks per SM": 1}})

    assert len(trace.group("cpu_ops").blocks_per_sm) == 0


def test_many_distinct_launches_are_all_kept(read: Any) -> None:
    number = (1 << 14) + 3
    gpu = read(*(kernel(i, blocks_per_SM=i / 4) for i in range(number))).group("gpu")

    assert gpu.blocks_per_sm.tolist() == [i / 4 for i in range(number)]
