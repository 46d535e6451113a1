"""Results of a whole job that the index keeps: printed without an event, and never out of date."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ccltui import cli
from ccltui.commands import index_command
from ccltui.commands.index_command import LocalEngine
from ccltui.demo import Spec, write_job
from ccltui.exit_codes import OK
from ccltui.index import saved_results
from ccltui.index.index_state import IndexState, OpenOptions
from ccltui.index.work_division import Computing, EngineOptions
from ccltui.metrics.metric import Metric
from ccltui.parsers.job import start_job
from ccltui.parsers.store.store_entry import COLUMNS_NAME, MANIFEST_NAME

pytestmark = pytest.mark.usefixtures("copied_processes")


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job and the store of its index."""
    place = tmp_path_factory.mktemp("results")
    write_job(place / "job", Spec(tp=2, pp=1, dp_shard=2, gpus_per_node=2, steps=2, stragglers=()))
    assert index_command.run([str(place / "job"), "--store", str(place / "store")]) == OK
    return place


@pytest.fixture
def place(indexed: Path, tmp_path: Path) -> Path:
    """A copy of the folder at the same times, opened at its own path."""
    shutil.copytree(indexed, tmp_path, dirs_exist_ok=True)
    state = next((tmp_path / "store" / "index").iterdir())
    own = IndexState.of(tmp_path / "store", str(tmp_path / "job"), "")
    state.rename(own.directory)
    return tmp_path


def answer(place: Path, *arguments: str, store: str = "store") -> dict[str, Any]:
    output = place / "answer.json"
    cache = str(place / store)
    given = [str(place / "job"), "--cache-dir", cache, "--format", "json", "-o", str(output)]
    cli.run([*given, *arguments])
    found: dict[str, Any] = json.loads(output.read_bytes())
    return found


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the metrics that are computed, not read."""
    names: list[str] = []
    run = Metric.run

    def recorded(self: Metric, view: Any) -> Any:
        names.append(self.name)
        return run(self, view)

    monkeypatch.setattr(Metric, "run", recorded)
    return names


def blank_columns(store: Path) -> None:
    """Replace the columns of all ranks by zeros, so that no number can come from them."""
    for columns in store.glob(f"*/{COLUMNS_NAME}"):
        status = columns.stat()
        columns.write_bytes(bytes(status.st_size))
        for file in (columns, columns.with_name(MANIFEST_NAME)):
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_every_metric_is_read_and_equal(place: Path, computed: list[str]) -> None:
    expected = answer(place, "--metric", "all", store="other")
    computed.clear()

    assert answer(place, "--metric", "all") == expected
    assert computed == []


def test_no_column_of_events_is_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = answer(place, "--metric", "straggler_lag", store="other")
    assert expected["results"][0]["value"] is not None
    blank_columns(place / "store")
    damage: list[str] = []
    monkeypatch.setattr(
        "ccltui.parsers.ingest.load.report_damage", lambda path, _directory: damage.append(path)
    )

    assert answer(place, "--metric", "straggler_lag") == expected
    assert damage == [], "a column was used, and read from its trace"


@pytest.mark.parametrize(
    "selection",
    [("--steps", "1"), ("--ranks", "0-1"), ("--raw-clocks",), ("--set", "num_params=5")],
)
def test_a_part_of_the_job_is_computed(
    place: Path, computed: list[str], selection: tuple[str, ...]
) -> None:
    answer(place, "--metric", "straggler_lag", *selection)

    assert computed == ["straggler_lag"]


@pytest.mark.parametrize("change", ["rank removed", "rank copied", "card added", "log added"])
def test_other_files_are_another_job(place: Path, computed: list[str], change: str) -> None:
    traces = sorted((place / "job").glob("*.json*"))
    if change == "rank removed":
        traces[-1].unlink()
    elif change == "rank copied":  # at another time
        os.utime(traces[0], (1, 1))
    elif change == "card added":
        (place / "job" / "workload_card.yaml").write_text("workload:\n  model: {}\n")
    else:
        (place / "job" / "nccl.log").write_text("node0:1:1 [0] NCCL INFO Bootstrap : Using eth0\n")
    expected = answer(place, "--metric", "straggler_lag", store="other")
    computed.clear()

    assert answer(place, "--metric", "straggler_lag") == expected
    assert computed == ["straggler_lag"]


def test_another_version_of_the_program_computes(
    place: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_results, "code_digest", lambda: "of other sources")

    answer(place, "--metric", "straggler_lag")
    assert computed == ["straggler_lag"]


def test_an_index_of_another_version_replaces_the_results(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {folder.name for folder in place.glob("store/index/*/results/*")}
    for module in (index_command, saved_results, saved_results):
        monkeypatch.setattr(module, "code_digest", lambda: "of other sources")

    assert index_command.run([str(place / "job"), "--store", str(place / "store")]) == OK
    after = {folder.name for folder in place.glob("store/index/*/results/*")}
    assert len(after) == 1
    assert after != before


def test_a_damaged_result_is_computed(place: Path, computed: list[str]) -> None:
    (kept,) = place.glob("store/index/*/results/*/straggler_lag")
    text = kept.read_bytes()
    kept.write_bytes(text.replace(b'"value":', b'"value":1', 1))
    expected = answer(place, "--metric", "straggler_lag", store="other")
    computed.clear()

    assert answer(place, "--metric", "straggler_lag") == expected
    assert computed == ["straggler_lag"]


def test_an_index_of_other_files_replaces_the_results(place: Path) -> None:
    sorted((place / "job").glob("*.json*"))[-1].unlink()

    assert index_command.run([str(place / "job"), "--store", str(place / "store")]) == OK
    assert len(list(place.glob("store/index/*/results/*"))) == 1


def test_numbers_of_numpy_are_kept_as_numbers() -> None:
    import numpy as np

    assert saved_results._number(np.float64(0.1)) == 0.1
    with pytest.raises(TypeError):
        saved_results._number(object())


def test_a_run_that_is_stopped_amid_the_metrics_goes_on(place: Path, computed: list[str]) -> None:
    path, store = str(place / "job"), place / "store"
    shutil.rmtree(next(store.glob("index/*/results")))
    own = IndexState.of(store, path, "")
    record = own.job()
    assert record is not None
    own.write_job(structs.replace(record, is_whole=False))

    run = index_command.IndexRun(start_job(path), path, store, OpenOptions())
    events = list(run.run(LocalEngine(EngineOptions()), lambda: len(computed) >= 2))
    assert [event.done for event in events if isinstance(event, Computing)] == [0, 1, 2]
    assert "the same command goes on" in run.summary()

    kept = {file: file.stat().st_mtime_ns for file in store.glob("index/*/results/*/*")}
    assert kept

    assert index_command.run([path, "--store", str(store)]) == OK
    assert {file: file.stat().st_mtime_ns for file in kept} == kept, "a metric was computed twice"
    assert "the same command goes on" not in run.summary()
    computed.clear()
    assert index_command.run([path, "--store", str(store)]) == OK
    assert computed == []
