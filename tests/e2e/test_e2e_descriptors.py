"""More ranks than the process may have open files, with a cache and without."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from shell import CCLTUI, TIMEOUT_S, run
from terminal import session

from ccltui.demo import Spec, write_job

RANKS = 72  # more than the limit, of whole hosts
FEW = "-n 64"
NUMBERS = ("--metric", "straggler_lag", "--format", "json")


def limited(limit: str) -> tuple[str, ...]:
    """The command as a shell runs it that set a limit before."""
    return ("sh", "-c", f'ulimit {limit}; exec "$@"', "sh", *CCLTUI)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So many ranks, with enough text together to be read by other processes."""
    directory = tmp_path_factory.mktemp("jobs") / "many"
    spec = Spec(
        tp=1,
        pp=1,
        dp_shard=RANKS,
        gpus_per_node=8,
        steps=2,
        micro_batches=1,
        layers=1,
        stragglers=(),
        compress=False,
    )
    write_job(directory, spec)
    return directory


@pytest.fixture(params=["cache", "no cache"])
def places(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Mapping[str, Path]:
    """Where columns go: a cache, or a file in its place, and then a temporary folder."""
    cache, temporary = tmp_path / "cache", tmp_path / "tmp"
    temporary.mkdir()
    if request.param == "no cache":
        cache.write_text("a file where the cache should be")
    monkeypatch.setenv("CCLTUI_CACHE_DIR", str(cache))
    monkeypatch.setenv("TMPDIR", str(temporary))
    return {"cache": cache, "temporary": temporary}


def test_all_ranks_count_although_few_files_may_be_open(
    many: Path, places: Mapping[str, Path]
) -> None:
    for _ in range(2):  # the second time from the cache, where there is one
        done = run(limited(FEW), many, *NUMBERS)

        assert (done.returncode, done.stderr) == (0, "")
        report = json.loads(done.stdout)
        (result,) = report["results"]
        assert (report["trace"]["ranks"], report["trace"]["failures"]) == (RANKS, [])
        assert (result["status"], result["details"]["num_ranks"]) == ("ok", RANKS)
        assert list(places["temporary"].iterdir()) == []


def test_the_explorer_opens_all_ranks_although_few_files_may_be_open(
    many: Path, places: Mapping[str, Path]
) -> None:
    with session(*limited(FEW), many) as explorer:
        explorer.wait_for(f"{RANKS}/{RANKS}")
        explorer.wait_for("What costs time")
        assert "cannot be mapped" not in explorer.text
        end = time.monotonic() + TIMEOUT_S
        while list(places["temporary"].iterdir()):  # until loading has ended
            assert time.monotonic() < end
            time.sleep(0.1)
        explorer.press("q")
        assert explorer.finish() == 0
    assert list(places["temporary"].iterdir()) == []


def test_columns_that_find_no_room_are_the_reason_and_the_status_is_not_0(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files may have 2 KiB, as on a disk that is full; small captures need none."""
    code = (
        "import sys; from ccltui.__main__ import main; "
        "from ccltui.parsers.ingest import load as ingest; "
        "real = ingest.load; "
        "ingest.load = lambda *a, **k: real(*a, **{**k, 'inline': False}); sys.exit(main())"
    )
    monkeypatch.setenv("CCLTUI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    done = run((*limited("-f 4")[:-1], sys.executable, "-c", code), job, *NUMBERS)

    assert done.returncode == 1
    why = f"its columns cannot be written to {tmp_path / 'cache'} (File too large) or {tmp_path}/"
    told = [line for line in done.stderr.splitlines() if why in line]
    assert {line.split(": ")[1] for line in told} >= {
        f"kineto_trace_{rank}.json.gz" for rank in range(4)
    }
    assert not list(tmp_path.glob("ccltui-*"))
