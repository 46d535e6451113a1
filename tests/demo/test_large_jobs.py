"""Jobs of many ranks: byte for byte those of the event writer of small ones, whole files only."""

from __future__ import annotations

import json
import multiprocessing
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from msgspec.structs import replace

from ccltui.commands import demo_command
from ccltui.demo import Cut, SlowLink, Spec, Straggler, build
from ccltui.demo.demo_job import CARD_NAME
from ccltui.demo.large_job import large_spec, large_truth, write_large
from ccltui.demo.simulate import simulate_lanes
from ccltui.demo.spec import lay_out
from ccltui.parsers.errors import GrammarError

SMALL = Spec(layers=2, micro_batches=2, steps=3, stragglers=(), compress=False)


@pytest.mark.parametrize(
    "spec",
    [
        replace(
            SMALL,
            end_skew_ns=3_001,
            stragglers=(
                Straggler(1, "compute", 2_400_000),
                Straggler(6, "data_loading", 9_000_000, steps=(1,)),
                Straggler(2, "checkpoint", 1_000_000, steps=(2,)),
            ),
        ),
        replace(
            SMALL,
            dp_replicate=2,
            experts=True,
            metadata="comms_id",
            with_sync_rows=True,
            clock_drifts_ppb=(0, 30_000),
            stragglers=(Straggler(3, "tokens", 700_000), Straggler(5, "kernel", 300_000)),
            slow_links=(SlowLink("tp", 3, 10_000), SlowLink("pp", 3, 70_000)),
        ),
        replace(
            SMALL,
            pp=1,
            dp_shard=4,
            overlap_dp=False,
            sync_each_step=False,
            sequence_parallel=True,
            metadata="names_only",
            library="rccl",
            stragglers=(Straggler(0, "more_kernels", 30_000), Straggler(3, "host", 50_000)),
        ),
        replace(SMALL, tp=1, pp=4, layers=4, pipeline="gpipe", jitter_ns=0, library="nccl_old"),
    ],
    ids=("stages", "experts", "no stages", "stages alone"),
)
def test_files_are_those_of_a_job_written_event_by_event(spec: Spec, tmp_path: Path) -> None:
    write_large(tmp_path / "job", spec)

    expected = build(spec).files
    found = {path.name: path.read_text() for path in (tmp_path / "job").iterdir()}
    assert sorted(found) == sorted(expected)
    assert [name for name in expected if found[name] != expected[name]] == []


def test_the_bytes_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    spec = large_spec(24, megabytes=0.3, seed=3)
    truth = write_large(tmp_path / "one", spec, workers=1)

    assert write_large(tmp_path / "three", spec, workers=3) == truth
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "three").iterdir())
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "three" / name).read_bytes()


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_job_leaves_whole_files_only(tmp_path: Path, workers: int) -> None:
    def stop(done: int, _: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    spec = large_spec(16, megabytes=0.3)
    with pytest.raises(KeyboardInterrupt):
        write_large(tmp_path, spec, workers=workers, report=stop)

    written = [path for path in tmp_path.iterdir() if path.name != CARD_NAME]
    # other processes go on until the report reaches this one, on a busy machine to the end
    assert len(written) == 3 if workers == 1 else len(written) >= 3
    assert all(path.suffix == ".json" for path in written)
    assert all(json.loads(path.read_bytes())["traceEvents"] for path in written)


def test_no_process_is_killed_that_may_hold_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has told of its file and is killed then would keep the lock of the results."""
    before = set(multiprocessing.active_children())
    killed: list[BaseProcess] = []
    monkeypatch.setattr(BaseProcess, "terminate", killed.append)
    monkeypatch.setattr(BaseProcess, "kill", killed.append)

    def stop(done: int, _: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_large(tmp_path, large_spec(16, megabytes=0.3), workers=2, report=stop)

    assert killed == []
    assert set(multiprocessing.active_children()) <= before


@pytest.mark.parametrize("megabytes", [0.5, 1.5])
def test_a_rank_has_about_the_size_that_is_asked_for(tmp_path: Path, megabytes: float) -> None:
    write_large(tmp_path, large_spec(16, megabytes=megabytes))

    sizes = [path.stat().st_size for path in tmp_path.glob("kineto_trace_*.json")]
    assert len(sizes) == 16
    assert min(sizes) > 0.7e6 * megabytes
    assert max(sizes) < 1.4e6 * megabytes


def test_the_cost_of_a_delay_that_all_wait_for_is_the_delay() -> None:
    delay = (Straggler(5, "host", 4_000_000),)
    spec = replace(SMALL, pp=1, dp_shard=4, jitter_ns=0, stragglers=delay)
    topology = lay_out(spec)

    (fault,) = large_truth(spec, topology, simulate_lanes(spec, topology))["faults"]

    assert fault["ranks"] == [5]
    assert fault["cost_ms"] == pytest.approx(4.0, rel=0.02)
    assert (
        fault["text"]
        == "rank 5 launches its work 4 ms later, without a reason on its host rows in every step"
    )


@pytest.mark.parametrize("ranks", [2, 7, 36, 100, 1021])
def test_any_number_of_ranks_has_a_layout(ranks: int) -> None:
    assert large_spec(ranks, megabytes=0.2, faults=()).world_size == ranks


def test_faults_of_many_ranks_are_one_entry() -> None:
    spec = large_spec(32, megabytes=0.2, faults=("slow_node",))
    topology = lay_out(spec)

    (fault,) = large_truth(spec, topology, simulate_lanes(spec, topology))["faults"]

    assert len(fault["ranks"]) == 8
    assert fault["host"] == topology.host_name(fault["ranks"][0])


def test_what_only_small_jobs_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cuts"):
        write_large(tmp_path, replace(SMALL, cuts=(Cut(0, 0.5),)))
    with pytest.raises(ValueError, match="choose from any"):
        large_spec(64, faults=("slow_pair",))
    with pytest.raises(ValueError, match="cannot have"):
        large_spec(64, family="fsdp", faults=("heavy_stage",))


def test_the_command_writes_the_job_and_its_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "job"
    status = demo_command.run(
        [str(target), "--ranks", "40", "--rank-size", "0.2", "--fault", "slow_worker", "--no-open"]
    )

    assert status == 0
    assert len(list(target.glob("kineto_trace_*.json"))) == 40
    (fault,) = json.loads((tmp_path / "job.answer.json").read_text())["faults"]
    assert fault["cause"] == "compute"
    assert f"injected: rank {fault['ranks'][0]} computes" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--rank-size", "0"], ["--ranks", "64", "--level", "no_host"]])
def test_the_command_refuses_what_it_cannot_write(tmp_path: Path, wrong: list[str]) -> None:
    with pytest.raises((GrammarError, SystemExit)):
        demo_command.run([str(tmp_path / "job"), "--no-open", *wrong])
