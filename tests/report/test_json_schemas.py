"""Every JSON document that a command prints conforms to its published schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from json_schemas import closed, problems, schema

jsonschema = pytest.importorskip("jsonschema")

from nsys_exports import Export  # noqa: E402
from runs_by_hand import BASELINE, COMMIT_A, COMMIT_B, put_run  # noqa: E402
from runs_by_hand import document as run_document  # noqa: E402

from ccltui import cli  # noqa: E402
from ccltui.commands import ccl_metrics_command  # noqa: E402
from ccltui.commands.schema_command import schema_text  # noqa: E402
from ccltui.demo import Spec, write_job  # noqa: E402
from ccltui.report.documents import DOCUMENTS  # noqa: E402

NAMES = (
    *("alltoall", "card-lint", "ccl-metrics", "diff-jobs", "diff-profiles", "diff-runs", "doctor"),
    *(
        "doctor-environment",
        "explanation",
        "follow",
        "inspect",
        "metrics",
        "metrics-line",
        "metrics-report",
    ),
    *("perfetto-manifest", "stats"),
)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schemas") / "job"
    write_job(path, Spec(tp=2, steps=3, layers=2, gpus_per_node=2))
    (path / "kineto_trace_9.json.gz").write_bytes(b"\x1f\x8b\x08 not gzip")
    return path


def printed(path: Path, *arguments: object) -> Any:
    target = path / "out"
    cli.run([*map(str, arguments), "-o", str(target)])
    return json.loads(target.read_text())


def test_every_schema_is_listed_and_valid(capfd: pytest.CaptureFixture[str]) -> None:
    assert tuple(DOCUMENTS) == NAMES
    assert cli.run(["schema"]) == 0
    listed = capfd.readouterr().out
    for name in NAMES:
        jsonschema.Draft202012Validator.check_schema(schema(name))
        assert schema(name)["$id"] == f"urn:ccltui:schema:{name}"
        assert f"\n{name} " in listed
        assert cli.run(["schema", name]) == 0
        assert capfd.readouterr().out.encode() == schema_text(name)
    with pytest.raises(ValueError, match="no schema 'no'; there are alltoall, "):
        cli.run(["schema", "no"])


def test_a_member_that_is_not_described_is_found() -> None:
    row = {"check": "a", "state": "ok", "message": "", "fix": ""}
    document = {"schema_version": 1, "environment": [row]}
    assert problems("doctor-environment", document) == []
    for wrong in ({**row, "more": 1}, {"check": "a"}, {**row, "fix": None}):
        assert problems("doctor-environment", {**document, "environment": [wrong]})
    jsonschema.validate({**document, "more": 1}, schema("doctor-environment"))
    assert closed({"type": "object", "properties": {}})["additionalProperties"] is False


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("metrics", ("JOB", "--metric", "all", "--metric", "kernels", "--format", "json")),
        ("metrics", ("JOB", "--metric", "iter_time", "--window", "1ms/9ms", "--format", "json")),
        (
            "metrics",
            (
                *("JOB", "--metric", "mfu", "--fail-if", "mfu > 1", "--ranks", "0-1"),
                *("--steps", "10", "--format", "json"),
            ),
        ),
        ("explanation", ("explain", "JOB", "--format", "json")),
        ("explanation", ("explain", "JOB", "--ranks", "0", "--format", "json")),
        ("explanation", ("explain", "JOB", "--budget", "1024", "--format", "json")),
        ("inspect", ("inspect", "JOB", "--name", "nccl", "--format", "json")),
        ("inspect", ("inspect", "JOB", "--kind", "cpu_ops", "--format", "json")),
        ("inspect", ("inspect", "JOB", "--kind", "annotations", "--format", "json")),
        ("doctor", ("doctor", "JOB", "--format", "json")),
        ("doctor-environment", ("doctor", "--environment", "--format", "json")),
        ("diff-jobs", ("diff", "JOB", "JOB", "--format", "json")),
        ("diff-jobs", ("diff", "JOB", "JOB", "--metrics", "--format", "json")),
        (
            "diff-jobs",
            ("diff", "JOB", "--a", "steps=10", "--b", "steps=11-12", "--format", "json"),
        ),
        ("diff-jobs", ("diff", "JOB", "--a", "ranks=0", "--b", "steps=99", "--format", "json")),
        ("card-lint", ("card", "lint", "JOB/workload_card.yaml", "--format", "json")),
        ("metrics-report", ("metrics-report", "JOB", "--format", "json")),
    ],
)
def test_documents_of_a_job(job: Path, tmp_path: Path, name: str, arguments: tuple[str]) -> None:
    document = printed(tmp_path, *(one.replace("JOB", str(job)) for one in arguments))
    assert problems(name, document) == []


def test_lines_manifest_and_ccl_metrics(
    job: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "lines"
    cli.run([str(job), "--metric", "all", "--format", "jsonl", "-o", str(target)])
    lines = target.read_text().splitlines()
    assert len(lines) > 50
    assert [
        text for line in lines[::7] for text in problems("metrics-line", json.loads(line))
    ] == []
    manifest = printed(tmp_path, "export", job, "--to", "perfetto-manifest")
    assert problems("perfetto-manifest", manifest) == []
    capfd.readouterr()
    pace = ("--interval", "0.1", "--until-idle", "0.1")
    watched = ("--metric", "mfu", "--alert", "coll_call_num > 1")
    assert cli.run([str(job), "--follow", *pace, *watched]) == 5
    changes = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert {one["event"] for one in changes} == {"change", "alert", "end"}
    assert [text for one in changes for text in problems("follow", one)] == []
    for metrics in (("iter_time",), ("iter_time", "mfu")):
        ccl_metrics_command.run(
            ["--trace", str(job), *(word for name in metrics for word in ("--metric", name))]
        )
        assert problems("ccl-metrics", json.loads(capfd.readouterr().out)) == []


def test_where_nothing_can_be_opened_the_explanation_has_the_reason(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    absent = printed(tmp_path, "explain", tmp_path / "absent", "--format", "json")
    assert problems("explanation", absent) == []
    assert absent["headline"].endswith("absent: no such file or directory.")
    document = printed(tmp_path, "explain", tmp_path / "empty", "--format", "json")
    assert problems("explanation", document) == []
    assert document["headline"] == "Nothing could be read: no file is here."
    assert (document["verdict"], document["claims"]) == (None, [])
    assert (document["findings"], len(document["actions"])) == ([], 1)


KERNEL = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm *)"
PROFILE = """ ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

Time (%),Total Time (ns),Instances,Avg (ns),StdDev (ns),Name
60.0,6000,10,600.0,5.0,"ncclDevKernel_AllReduce(int)"
40.0,{total},10,400.0,5.0,"gemm"
"""


def test_reports_and_studies_of_nsys(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def stats(*arguments: object) -> Any:
        cli.run(["stats", *map(str, arguments), "--format", "json"])
        return json.loads(capfd.readouterr().out)

    export = Export(start_utc_ns=1_000)
    process = export.process(100)
    process.kernel("gemm", 10, 20)
    process.range("forward", 0, 30)
    for device in (0, 1):
        process.kernel(KERNEL, 40 + device, 60, device=device)
    folder = tmp_path / "nsys"
    folder.mkdir()
    path = export.write(folder / "one.sqlite")
    for reports in ("cuda_gpu_kern_sum", "cuda_gpu_kern_sum,cuda_gpu_trace,nvtx_sum"):
        document = stats(path, "-r", reports)
        assert problems("stats", document) == []
        assert document
    export.write(folder / "two.sqlite")
    document = stats(folder, "-r", "cuda_gpu_trace", "--each")
    assert problems("stats", document) == []
    assert len(document) == 2
    study = stats(folder, "--alltoall")
    assert problems("alltoall", study) == []
    assert study["studies"][0]["exchanges"] == 1


def test_comparisons_of_runs_and_of_texts(tmp_path: Path) -> None:
    runs = [
        put_run(tmp_path / name, run_document(BASELINE, commit))
        for name, commit in (("a", COMMIT_A), ("b", COMMIT_B))
    ]
    document = printed(tmp_path, "diff", *runs, "--format", "json")
    assert problems("diff-runs", document) == []
    assert document["rows"]
    for name, total in (("c", 4000), ("d", 5000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "nsys_stats_x.txt").write_text(PROFILE.format(total=total))
    texts = printed(tmp_path, "diff", tmp_path / "c", tmp_path / "d", "--format", "json")
    assert problems("diff-profiles", texts) == []
    assert len(texts["rows"]) == 2


def test_a_schema_has_the_descriptions_and_open_members_of_its_types() -> None:
    types = schema("metrics")["$defs"]
    assert types["Trace"]["properties"]["ranks"]["description"] == "ranks that were read"
    assert types["Details"]["additionalProperties"] is True
    change = schema("diff-jobs")["$defs"]["KernelChange"]["properties"]
    assert change["status"]["description"] == "added, gone, changed"  # of a type that it extends
    assert "class" in change
    culprit = schema("explanation")["$defs"]["Culprit"]
    assert culprit["required"] == []
    assert culprit["properties"]["ranks"]["description"] == "labels of ranks"
