"""Writing a job: the files afterwards, and files that are never overwritten."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ccltui.demo import DEMO, Spec, Truth, build, write_job

SMALL = Spec.quiet(tp=2, pp=1, dp_shard=1, steps=1, layers=1, micro_batches=1)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """The demo, written once."""
    directory = tmp_path_factory.mktemp("demo") / "job"
    return directory, write_job(directory, DEMO)


def test_a_job_is_a_card_and_a_trace_a_rank(tmp_path: Path) -> None:
    truth = write_job(tmp_path / "new" / "job", SMALL)

    names = sorted(path.name for path in (tmp_path / "new" / "job").iterdir())
    assert names == ["kineto_trace_0.json.gz", "kineto_trace_1.json.gz", "workload_card.yaml"]
    assert truth == build(SMALL).truth


def test_compressed_and_plain_files_hold_the_same_text(tmp_path: Path) -> None:
    write_job(tmp_path / "gz", SMALL)
    write_job(
        tmp_path / "plain",
        Spec.quiet(tp=2, pp=1, dp_shard=1, steps=1, layers=1, micro_batches=1, compress=False),
    )

    packed = gzip.decompress((tmp_path / "gz" / "kineto_trace_1.json.gz").read_bytes())
    assert packed == (tmp_path / "plain" / "kineto_trace_1.json").read_bytes()


def test_the_same_spec_gives_the_same_bytes(demo: tuple[Path, Truth], tmp_path: Path) -> None:
    first, truth = demo

    assert write_job(tmp_path, DEMO) == truth

    names = sorted(path.name for path in first.iterdir())
    assert names == sorted(path.name for path in tmp_path.iterdir())
    for name in names:
        assert (first / name).read_bytes() == (tmp_path / name).read_bytes()


def test_another_seed_gives_another_job() -> None:
    assert build(Spec(steps=1, seed=1)).files != build(Spec(steps=1, seed=2)).files


def test_a_job_of_ours_is_replaced_whole(tmp_path: Path) -> None:
    write_job(tmp_path, Spec.quiet(steps=1))

    write_job(tmp_path, SMALL)

    assert len(list(tmp_path.glob("kineto_trace_*"))) == 2


@pytest.mark.parametrize("foreign", ["notes.txt", "kineto_trace_0.json", "workload_card.yaml"])
def test_what_is_not_ours_is_left_alone(tmp_path: Path, foreign: str) -> None:
    (tmp_path / foreign).write_text("precious")

    with pytest.raises(FileExistsError, match=f"holds {foreign}: choose an empty"):
        write_job(tmp_path, SMALL)

    assert (tmp_path / foreign).read_text() == "precious"


def test_a_file_added_to_our_job_protects_it(tmp_path: Path) -> None:
    write_job(tmp_path, SMALL)
    (tmp_path / "notes.txt").write_text("precious")

    with pytest.raises(FileExistsError, match=r"holds notes\.txt"):
        write_job(tmp_path, SMALL)


def test_the_demo_is_small_and_valid(demo: tuple[Path, Truth]) -> None:
    directory, _ = demo

    assert sum(path.stat().st_size for path in directory.iterdir()) < 3_000_000
    for rank in range(8):
        text = gzip.decompress((directory / f"kineto_trace_{rank}.json.gz").read_bytes())
        assert json.loads(text)["distributedInfo"]["rank"] == rank


def test_the_generator_imports_neither_metrics_nor_screens() -> None:
    code = (
        "import sys, ccltui.demo\n"
        "print([name for name in ('ccltui.metrics', 'textual', 'rich') "
        "if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
