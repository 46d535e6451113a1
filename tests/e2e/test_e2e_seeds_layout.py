"""The paths of the seed documents: what ``ccltui seeds-layout`` writes runs on public traces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from shell import CCLTUI
from warm_shell import run

from ccltui.commands.seeds_layout_command import LINKS, METRICS, MODELS, PATHS

ROOT = Path(__file__).resolve().parents[2]
WORKLOAD = "llama3.1-8b-torchtitan-tp-perlmutter-16"


def bash(command: str, layout: Path, folder: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command line of the documents, with the Python of these tests first on the path."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    scratch = layout.parent / "scratch"
    env = {**os.environ, "PATH": path, "SCRATCH": str(scratch), "NERSC_HOST": "perlmutter"}
    return subprocess.run(
        ["bash", "-c", command],
        check=False,
        cwd=layout / folder,
        env={name: value for name, value in env.items() if name != "PYTHON"},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("seeds") / "layout"
    done = run(CCLTUI, "seeds-layout", root)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"{root}\n")
    return root


@pytest.fixture(scope="module")
def with_traces(layout: Path, shared: Path) -> Path:
    """The layout with public traces: two ranks of a training job, and one node under nsys."""
    traces = layout / "trace_collection"
    (traces / "llama3-8B_torchtitan_perlmutter").symlink_to(
        shared / "traces" / "torchrec" / "log" / "resnet18"
    )
    (traces / "deepseek-two-devices").mkdir()
    (traces / "deepseek-two-devices" / "report.sqlite").symlink_to(
        shared / "nsys" / "nsys-ai" / "mfu_2gpu_before.sqlite"
    )
    return layout


def test_every_path_of_the_documents_is_there(layout: Path) -> None:
    for path in LINKS:
        assert (layout / path).exists(), path
    for name in ("run.sh", "run.sbatch", "train_config.toml", "workload_card.yaml"):
        assert (layout / "trace_collection" / WORKLOAD / name).is_file()
    for name in METRICS:
        assert os.access(layout / "tools" / "scripts" / f"get_{name}.sh", os.X_OK)
    for name in (*(f"run_metrics_{model}" for model in MODELS), "run_all_metrics"):
        assert os.access(layout / "scripts" / f"{name}.sh", os.X_OK)
    assert (layout / "perlmutter" / "run_llama3_8b_tp.sbatch").is_file()


def test_the_list_of_paths_is_that_of_the_page() -> None:
    done = run(CCLTUI, "seeds-layout")
    page = (ROOT / "docs" / "seeds.md").read_text(encoding="utf-8")

    assert done.returncode == 0
    for path, what in PATHS:
        assert path in done.stdout
        assert f"| {path} | {what} |" in page


def test_files_that_are_there_are_kept(tmp_path: Path) -> None:
    own = tmp_path / "tools" / "main.py"
    own.parent.mkdir()
    own.write_text("# mine\n")

    done = run(CCLTUI, "seeds-layout", tmp_path, "--copy")

    assert (done.returncode, own.read_text()) == (0, "# mine\n")
    assert not (tmp_path / "sbatch").is_symlink()
    copied = tmp_path / "trace_collection" / WORKLOAD / "train_config.toml"
    assert copied.resolve().is_relative_to(tmp_path)


def test_a_folder_that_is_not_sbatch_is_refused(tmp_path: Path) -> None:
    done = run(CCLTUI, "seeds-layout", tmp_path / "x", "--sbatch", tmp_path)

    assert done.returncode == 2
    assert "it has no lib/submit.sh" in done.stderr


def test_scripts_that_record_are_found_through_the_links(layout: Path) -> None:
    dry = f"./trace_collection/{WORKLOAD}/run.sh --dry-run --account m1234"

    submitted = bash(dry, layout)
    listed = bash("./perlmutter/submit_all.sh --list", layout)
    made = bash("./perlmutter/setup_env.sh --dry-run", layout)

    assert submitted.returncode == 0, submitted.stderr
    assert "sbatch --parsable" in submitted.stdout
    assert f"trace_collection/{WORKLOAD}/run.sbatch" in submitted.stdout
    assert WORKLOAD in listed.stdout.split()
    assert (made.returncode, "cu129" in made.stdout) == (0, True)


def test_without_traces_the_scripts_name_where_they_looked(layout: Path) -> None:
    done = bash("./scripts/run_metrics_qwen.sh", layout)

    assert (done.returncode, done.stdout) == (1, "")
    assert "no traces of qwen* in" in done.stderr


@pytest.mark.shared
def test_main_computes_metrics_from_the_folder_tools(with_traces: Path) -> None:
    listed = bash("python main.py --list-metrics", with_traces, "tools")
    trace = "../trace_collection/llama3-8B_torchtitan_perlmutter"
    done = bash(f"python main.py --trace={trace} --metric=coll_call_num", with_traces, "tools")

    assert listed.stdout.startswith("Available metrics:\n  - coll_call_num\n")
    assert (done.returncode, json.loads(done.stdout)["total_calls"]) == (0, 24)


@pytest.mark.shared
def test_a_metric_registered_in_main_is_computed(with_traces: Path) -> None:
    tool = with_traces / "tools" / "num_files"
    tool.mkdir()
    (tool / "__init__.py").write_text("from .num_files import metric_cal\n")
    (tool / "num_files.py").write_text(
        "import os\n\n"
        'def metric_cal(directory: str, profile_mode: str = "auto") -> dict:\n'
        '    return {"metric_value": len(os.listdir(directory)), "units": "files"}\n'
    )
    main = with_traces / "tools" / "main.py"
    written = main.read_text()
    main.write_text(
        written.replace(
            "_METRIC_MODULES = {\n",
            '_METRIC_MODULES = {\n    "num_files": "num_files.num_files",\n',
        )
    )

    command = "python main.py --trace ../trace_collection/deepseek-two-devices --metric num_files"
    done = bash(command, with_traces, "tools")
    main.write_text(written)

    assert (done.returncode, json.loads(done.stdout)["metric_value"]) == (0, 1)


@pytest.mark.shared
@pytest.mark.parametrize("name", METRICS)
def test_a_script_prints_its_metric_of_a_folder(with_traces: Path, name: str) -> None:
    trace = "../trace_collection/llama3-8B_torchtitan_perlmutter"

    done = bash(f"./scripts/get_{name}.sh {trace}", with_traces, "tools")

    document = json.loads(done.stdout)
    assert document["metric"] == name
    expected = (3, "no_card") if name == "throughput_tokens" else (0, document["reason"])
    assert (done.returncode, document["reason"]) == expected


@pytest.mark.shared
def test_a_script_runs_all_metrics_of_all_workloads(with_traces: Path) -> None:
    """Those of one model differ from it in the pattern of names alone."""
    done = bash("./scripts/run_all_metrics.sh ../out", with_traces, "tools")

    assert done.returncode == 0, done.stderr
    found = {
        path.stem: json.loads(path.read_text()) for path in (with_traces / "out").glob("*.json")
    }
    assert {name: one["coll_call_num"]["total_calls"] for name, one in found.items()} == {
        "deepseek-two-devices": 66,
        "llama3-8B_torchtitan_perlmutter": 24,
    }
    assert "straggler" in done.stdout
    for model, pattern in MODELS.items():
        script = (with_traces / "scripts" / f"run_metrics_{model}.sh").read_text()
        assert f"run_metrics '{pattern}' \"$@\"" in script


def test_files_of_others_are_kept_and_named(tmp_path: Path) -> None:
    root = tmp_path / "my job's"
    (root / "tools").mkdir(parents=True)
    (root / "train.py").write_text("mine")
    (root / "tools" / "main.py").write_text("mine too")

    done = run(CCLTUI, "seeds-layout", root)
    again = run(CCLTUI, "seeds-layout", root)

    kept = "not changed, though it is not what would be written now"
    line = f"ccltui: {kept}: tools/main.py, train.py\n"
    assert (done.returncode, done.stderr) == (again.returncode, again.stderr) == (0, line)
    assert (root / "train.py").read_text() == "mine"


def test_a_copy_is_never_a_link_into_the_checkout(tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    assert run(CCLTUI, "seeds-layout", linked).returncode == 0
    refused = run(CCLTUI, "seeds-layout", linked, "--copy")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"ccltui: --copy: {linked}/sbatch is a link")

    (linked / "sbatch").unlink()
    copied = [run(CCLTUI, "seeds-layout", linked, *words) for words in (["--copy"], ["--copy"], [])]
    assert {(done.returncode, done.stderr) for done in copied} == {(0, "")}
    assert not (linked / "sbatch").is_symlink()


def test_a_copy_does_not_go_into_itself_and_no_name_is_no_folder(tmp_path: Path) -> None:
    sbatch = tmp_path / "sbatch"
    (sbatch / "lib").mkdir(parents=True)
    (sbatch / "lib" / "submit.sh").write_text("")
    inside = run(CCLTUI, "seeds-layout", sbatch / "mine", "--copy", "--sbatch", sbatch)
    unnamed = run(CCLTUI, "seeds-layout", "", cwd=tmp_path)

    assert (inside.returncode, unnamed.returncode) == (2, 2)
    assert "name a folder outside of it" in inside.stderr
    assert "DIR is empty" in unnamed.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sbatch"]
    assert [path.name for path in sbatch.iterdir()] == ["lib"]


def test_main_without_the_python_that_it_names(tmp_path: Path) -> None:
    assert run(CCLTUI, "seeds-layout", tmp_path).returncode == 0
    main = tmp_path / "tools" / "main.py"
    main.write_text(main.read_text().replace(repr(sys.executable), "'/gone/bin/python'"))

    done = bash("python main.py --trace x --metric iter_time", tmp_path, "tools")

    assert (done.returncode, done.stdout) == (1, "")
    expected = "main.py: /gone/bin/python: No such file or directory: set PYTHON in it anew\n"
    assert done.stderr == expected
