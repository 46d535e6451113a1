"""Findings of doctor on jobs with one problem each."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from nsys_exports import Export

from ccltui.demo import Cut, Spec, write_job
from ccltui.doctor import trace_checks
from ccltui.doctor.trace_checks import check, without_traces
from ccltui.parsers.job import Job, open_job
from ccltui.parsers.kineto.scanner import typed_event

SMALL = Spec(tp=1, steps=2, layers=2, gpus_per_node=2, stragglers=())


def job_of(directory: Path, spec: Spec = SMALL) -> Path:
    write_job(directory, spec)
    return directory


def findings(directory: Path) -> dict[str, tuple[str, str]]:
    return {f.check: (f.state, f.message) for f in check(open_job(directory))}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return job_of(tmp_path_factory.mktemp("whole") / "job")


def test_a_whole_job_has_nothing_to_complain_about(whole: Path) -> None:
    found = findings(whole)
    found.pop("decoder")  # depends on this machine's compiler
    assert {state for state, _ in found.values()} == {"ok"}
    assert found["ranks"][1] == "all 4 ranks"
    assert found["files"][1] == "4 files read whole"
    assert found["step markers"][1] == "ProfilerStep: 2 steps on every rank"


def without(whole: Path, directory: Path, *names: str) -> Path:
    directory.mkdir()
    for path in whole.iterdir():
        if path.name.split(".")[0] not in names:
            (directory / path.name).symlink_to(path)
    return directory


def test_a_missing_rank(whole: Path, tmp_path: Path) -> None:
    found = findings(without(whole, tmp_path / "job", "kineto_trace_2"))
    assert found["ranks"] == ("warning", "3 of 4 ranks; missing 2")


def test_a_card_with_unusable_values(whole: Path, tmp_path: Path) -> None:
    directory = without(whole, tmp_path / "job", "workload_card")
    (directory / "workload_card.yaml").write_text("workload:\n  data:\n    batch_size: two\n")

    state, message = findings(directory)["workload card"]

    assert state == "problem"
    assert "workload.data.batch_size is not a positive whole number" in message


def test_no_card(whole: Path, tmp_path: Path) -> None:
    found = findings(without(whole, tmp_path / "job", "workload_card"))
    assert found["workload card"] == (
        "warning",
        "none, so throughput and model FLOPs are not known",
    )


def test_a_card_that_is_no_yaml(whole: Path, tmp_path: Path) -> None:
    directory = without(whole, tmp_path / "job", "workload_card")
    (directory / "workload_card.yaml").write_text("workload:\n  model: [\nmetric_source: {}\n")
    state, message = findings(directory)["workload card"]
    assert state == "problem"
    assert "workload_card.yaml:" in message


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    found = findings(job_of(tmp_path / "job", replace(SMALL, cuts=(Cut(1, 0.6),))))
    assert found["files"][0] == "warning"
    assert found["files"][1].startswith("cut off before their end: kineto_trace_1.json")


def test_a_file_that_breaks_off_before_its_first_event(whole: Path, tmp_path: Path) -> None:
    directory = without(whole, tmp_path / "job", "kineto_trace_3")
    (directory / "kineto_trace_3.json").write_text('{"traceEvents": [ {"ph": "X", ')
    found = findings(directory)
    assert found["files"] == ("warning", "cut off before their end: kineto_trace_3.json")
    assert found["GPU events"] == (
        "warning",
        "none on rank 3; cut off before the end: rank 3",
    )


def test_a_cut_file_is_named_beside_one_that_cannot_be_read(whole: Path, tmp_path: Path) -> None:
    directory = without(whole, tmp_path / "job", "kineto_trace_2", "kineto_trace_3")
    (directory / "kineto_trace_2.json").write_text("")
    (directory / "kineto_trace_3.json").write_text('{"traceEvents": [ {"ph": "X", ')

    found = {one.check: one for one in check(open_job(directory))}

    assert found["files"].state == "problem"
    assert found["files"].message == (
        "1 file could not be read; kineto_trace_2.json: an empty file; "
        "cut off before their end: kineto_trace_3.json"
    )
    assert "copy the files again" in found["files"].fix
    assert "copy the files again" in found["GPU events"].fix


def test_names_without_metadata(tmp_path: Path) -> None:
    found = findings(job_of(tmp_path / "job", replace(SMALL, metadata="names_only")))
    state, message = found["collective metadata"]
    assert state == "warning"
    assert message.endswith(
        "the operation of 0, the size of 0 and the group of 0; no record_param_comms beside them"
    )


def test_ranks_known_by_their_names_only(tmp_path: Path) -> None:
    found = findings(job_of(tmp_path / "job", replace(SMALL, layout="bare_list")))
    assert found["rank identity"][0] == "warning"
    assert "the file name alone gives the rank of" in found["rank identity"][1]
    assert found["ranks"] == ("unknown", "4 ranks; no file states the world size")
    assert found["process groups"][0] == "ok"


HOST_ONLY = (
    '{"distributedInfo": {"rank": RANK, "world_size": 2, "backend": "BACKEND"}, "traceEvents": ['
    '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0},'
    '{"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 1, "tid": 2, '
    '"ts": 2.0, "dur": 2.0}]}'
)
EXECUTION = '{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "time": "x", "nodes": []}'


def host_only(directory: Path, backend: str) -> Path:
    """Two ranks without events of a device."""
    directory.mkdir()
    for rank in "01":
        text = HOST_ONLY.replace("RANK", rank).replace("BACKEND", backend)
        (directory / f"kineto_trace_{rank}.json").write_text(text)
    return directory


def test_a_job_on_cpus_is_no_mistake(tmp_path: Path) -> None:
    found = findings(host_only(tmp_path / "job", "gloo"))

    assert found["GPU events"] == (
        "warning",
        "CPU-only trace: ranks 0 and 1; the backend is gloo",
    )
    assert found["collective metadata"] == (
        "unknown",
        "no collective kernel; 2 operations of gloo, which state no group",
    )


@pytest.mark.parametrize("backend", ["nccl", "cpu:gloo,cuda:nccl"])
def test_a_job_on_gpus_without_gpu_events_is_one(tmp_path: Path, backend: str) -> None:
    (finding,) = (
        finding
        for finding in check(open_job(host_only(tmp_path / "job", backend)))
        if finding.check == "GPU events"
    )

    assert finding.state == "problem"
    assert finding.message == (f"CPU-only trace: ranks 0 and 1, and yet the backend is {backend}")
    assert "CUPTI serves one profiler" in finding.fix


def test_execution_traces_of_every_rank_of_some_and_of_none(tmp_path: Path) -> None:
    directory = host_only(tmp_path / "job", "gloo")
    assert findings(directory)["execution traces"] == ("ok", "none")

    (directory / "torch_et_1.json").write_text(EXECUTION)
    assert findings(directory)["execution traces"] == ("warning", "none on rank 0")

    (directory / "torch_et_0.json").write_text(EXECUTION)
    assert findings(directory)["execution traces"] == ("ok", "on 2 ranks")


def test_what_is_wrong_has_something_to_do_about_it(whole: Path, tmp_path: Path) -> None:
    job = open_job(without(whole, tmp_path / "job", "kineto_trace_2", "workload_card"))

    fixes = {finding.check: finding.fix for finding in check(job) if finding.state != "ok"}

    assert fixes.pop("decoder", "install")  # depends on this machine's compiler
    assert fixes == {
        "ranks": (
            "copy their files here too, or check their logs for the reason that they wrote none"
        ),
        "workload card": "ccltui card init DIR writes a draft",
    }


def test_two_files_of_one_rank(whole: Path, tmp_path: Path) -> None:
    directory = without(whole, tmp_path / "job")
    other = job_of(tmp_path / "other", replace(SMALL, seed=9))
    (directory / "again.json.gz").write_bytes(next(other.glob("kineto_trace_1*")).read_bytes())
    assert findings(directory)["ranks"] == ("problem", "several files state rank 1")


def test_files_that_state_different_world_sizes(whole: Path, tmp_path: Path) -> None:
    directory = without(whole, tmp_path / "job", "kineto_trace_1")
    other = job_of(tmp_path / "other", replace(SMALL, dp_shard=4, gpus_per_node=4))
    (directory / "kineto_trace_1.json.gz").write_bytes(
        next(other.glob("kineto_trace_1*")).read_bytes()
    )

    state, message = findings(directory)["ranks"]

    assert state == "problem"
    assert message.startswith("the world size is 4 in ")
    assert message.endswith(", but 8 in kineto_trace_1.json.gz")


def test_ranks_that_were_traced_at_different_times(whole: Path) -> None:
    moved = with_rank_moved(open_job(whole), 1, shift_ns=3_600_000_000_000)
    (finding,) = [finding for finding in check(moved) if finding.check == "capture windows"]
    # the metrics align these ranks by their collectives, and doctor agrees with them
    assert finding.state == "warning"
    assert finding.message.startswith("clocks differ by 1 h, corrected from collectives")
    assert finding.fix.startswith("check that all files are of one run and one capture")


def with_rank_moved(job: Job, rank: int, *, shift_ns: int) -> Job:
    trace = job.ranks[rank]
    events = {
        group: columns.with_columns(start_ns=columns.start_ns + shift_ns)
        for group, columns in trace.events.items()
    }
    return job.with_rank(replace(trace, events=events))


def test_an_nsys_report_beside_a_trace_without_gpu_events(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    directory.mkdir()
    (directory / "kineto_trace_0.json").write_text(
        '{"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [{"ph": "X", "cat": '
        '"cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0}]}'
    )
    (directory / "r.nsys-rep").write_bytes(b"\x00" * 64)
    found = findings(directory)
    assert found["GPU events"] == ("problem", "CPU-only trace: rank 0")
    assert found["profilers"][0] == "problem"
    assert "CUPTI serves one profiler" in found["profilers"][1]


@pytest.mark.parametrize(
    ("wanted", "compiled", "state", "words"),
    [
        ("1", True, "ok", "the compiled scanner"),
        ("1", False, "warning", "was not compiled"),
        ("0", True, "ok", "CCLTUI_ACCEL=0"),
    ],
)
def test_which_decoder_is_in_use(
    whole: Path,
    monkeypatch: pytest.MonkeyPatch,
    wanted: str,
    compiled: bool,
    state: str,
    words: str,
) -> None:
    job = open_job(whole)
    monkeypatch.setenv("CCLTUI_ACCEL", wanted)
    monkeypatch.setattr(typed_event, "compiled", lambda: compiled)

    finding = trace_checks.decoder(job)

    assert finding.state == state
    assert words in finding.message


def test_an_nsys_export_of_two_ranks_is_one_file(tmp_path: Path) -> None:
    export = Export()
    for rank in (0, 1):
        process = export.process(100 + rank)
        process.kernel("gemm", 10, 20, device=rank)
        process.nccl(rank, 2)
    directory = tmp_path / "job"
    directory.mkdir()
    export.write(directory / "node0.sqlite")

    found = findings(directory)

    assert found["files"] == ("ok", "1 file read whole")
    assert found["ranks"] == ("ok", "all 2 ranks")
    assert found["rank identity"] == ("ok", "from NCCL payload")
    assert found["profilers"] == ("ok", "traces of one profiler")


def test_nsys_beside_a_trace_of_the_host_alone_is_used(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    directory.mkdir()
    (directory / "kineto_trace_0.json").write_text(
        '{"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [{"ph": "X", "cat": '
        '"cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0}]}'
    )
    export = Export()
    export.process(100).kernel("gemm", 10, 20)
    export.write(directory / "rank0.sqlite")

    found = findings(directory)

    assert found["GPU events"][0] == "ok"
    assert found["profilers"] == ("ok", "Kineto beside nsys_sqlite; nsys is used")


def test_reports_are_listed_in_the_order_of_the_text(tmp_path: Path) -> None:
    """They were in the order of a set, another one in each process."""
    header = "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n100.0,1000,1,1000.0,x\n\n"
    names = ("osrt_sum", "cuda_api_sum", "nvtx_sum", "openmp_sum", "syscall_sum")
    banner = "Processing [x.sqlite] with [/opt/nsight-systems-2023.2.3/reports/{}.py]... \n"
    text = "".join(banner.format(name) + header for name in names)
    (tmp_path / "stats.txt").write_text(text)

    found = {one.check: one.message for one in without_traces(open_job(tmp_path, cache_dir=None))}

    assert found["reports"] == (
        "tables: osrt_sum (1), cuda_api_sum (1), nvtx_sum (1), openmp_sum (1) and syscall_sum (1)"
    )
