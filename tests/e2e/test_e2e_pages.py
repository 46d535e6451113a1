"""Every command that a page of the documentation shows works, and prints what is shown below it."""

from __future__ import annotations

import math
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from nsys_database import write_database
from runs_by_hand import pair
from shell import CCL_METRICS, CCLTUI
from warm_shell import run

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^ *```(sh|console)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
COMMANDS: Final = {"ccltui": CCLTUI, "ccl-metrics": CCL_METRICS}
OWN_TEST: Final = {"write_a_metric"}
"""Pages that a test of their own carries out."""
CARRIED_OUT = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if page.stem not in OWN_TEST
]
NOT_RUN: Final = {
    "ccltui index DIR --engine slurm": "needs a cluster: tests/slurm",
    "ccltui serve-mcp": "waits for a client: tests/mcp_server",
    "ccltui explain megatron-tp8": "a public trace: below",
}
"""Beginnings of commands that are not run here, and why."""
ANOTHER_MACHINE: Final = {"install", "accelerator"}
"""Pages whose outputs are of the machine that they describe."""
UNAVAILABLE: Final = {
    "ccltui LOGS_DIR --metric cluster_outliers": "the benchmark is of one host",
    "ccltui DIR --profile-mode nsys": "the databases have no collectives",
}
"""Beginnings of commands that end with status 3 on the data of this test, and why."""
GATES: Final = re.compile(r"--fail-if|--alert|card lint")
"""A condition that holds has its own exit status; it is what these commands are shown for."""
IN_PLACE_OF: Final = {
    "--until-idle 3600": "--until-idle 1 --interval 1",
    "'mail -s straggler me@example.org'": "true",
    "--filter-time 6s/6s480ms": "--filter-time 0/1s",
    "DIR --profile-mode nsys": "NODES --profile-mode nsys",
    "/tmp/demo --no-open": "tmp/made --no-open",
    "/tmp/demo": "tmp/demo",
}
EXCHANGES = "Start (us),Duration (us),CorrId,GrdX,Device,Name\n" + "".join(
    f"{start},{duration},1,8,A100 ({device}),ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)\n"
    for start, duration, device in ((10, 100, 0), (70, 40, 1), (200, 60, 0), (210, 50, 1))
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the names in the commands stand for."""
    data = tmp_path_factory.mktemp("data")
    for made in (("tmp/demo",), ("after", "--seed", "5")):
        assert run(CCLTUI, "demo", *made, "--no-open", cwd=data).returncode == 0
    runs = pair(data / "RUNS_DIR")
    for names, target in {
        "DIR TRACE_DIR before BEFORE": data / "tmp" / "demo",
        "AFTER": data / "after",
        "RUN_A": runs[0],
        "RUN_B": runs[1],
        "LOGS_DIR": ROOT / "sbatch" / "fsdp_benchmark" / "artifacts" / "cpu_2ranks",
    }.items():
        for name in names.split():
            (data / name).symlink_to(target)
    shutil.copytree(data / "tmp" / "demo", data / "runs" / "one")
    for at, side in enumerate("AB"):
        for number in (1, 2, 3):
            shutil.copytree(runs[at], data / f"{side}{number}")
    for name in ("NODES/node0.sqlite", "NODES/node1.sqlite", "report_2.sqlite"):
        (data / name).parent.mkdir(exist_ok=True)
        write_database(data / name)
    (data / "FOLDER").mkdir()
    (data / "FOLDER" / "trace.txt").write_text(EXCHANGES)
    reports = ("-r", "cuda_gpu_kern_sum,nvtx_sum")
    text = run(CCLTUI, "stats", data / "report_2.sqlite", *reports).stdout
    (data / "nsys_stats.txt").write_text(text)
    for name in ("PROFILES_A", "PROFILES_B"):
        (data / name).mkdir()
        (data / name / "stats.txt").write_text(text)
    (workload,) = ROOT.glob("sbatch/workloads/llama3.1-8b-torchtitan-tp-*")
    (data / "train_config.toml").symlink_to(workload / "train_config.toml")
    return data


@pytest.fixture
def folder(data: Path, tmp_path: Path) -> Path:
    """An own working directory with all of the data."""
    for one in data.iterdir():
        (tmp_path / one.name).symlink_to(one)
    return tmp_path


def commands(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Commands of ours in the blocks of a page, and the lines that are shown below each."""
    for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        lines = text.replace("\\\n", " ").splitlines()
        starts = [at for at, line in enumerate(lines) if kind == "sh" or line.startswith("$ ")]
        for at, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            command = lines[at].strip().removeprefix("$ ")
            if command.split(" ")[0] in COMMANDS:
                yield command, lines[at + 1 : end]


def words_of(command: str, folder: Path) -> list[str]:
    """Words of a command with the data in place of the names, without the comment."""
    for shown, used in IN_PLACE_OF.items():
        command = command.replace(shown, used)
    words: list[str] = []
    for word in shlex.split(command, comments=True):
        found = (
            sorted(str(one.relative_to(folder)) for one in folder.glob(word)) if "*" in word else []
        )
        words += found or [word]
    return words


@pytest.mark.parametrize("page", CARRIED_OUT, ids=lambda page: page.stem)
def test_the_commands_of_a_page_work(page: Path, folder: Path) -> None:
    for command, shown in commands(page):
        if any(command.startswith(one) for one in NOT_RUN):
            continue
        name, *words = words_of(command, folder)
        if opens_the_explorer(name, words):
            words.append("--keys")  # every option is read, and no terminal is needed
        if words[-1] == "--follow":
            words += ["--until-idle", "1", "--interval", "1"]
        done = run(COMMANDS[name], *words, cwd=folder, env={"SCRATCH": str(folder)})

        allowed = {0, 3, 4, 5} if GATES.search(command) else {0}
        allowed |= {3} if any(command.startswith(one) for one in UNAVAILABLE) else set()
        assert done.returncode in allowed, f"{command}: {done.stdout[-500:]}{done.stderr}"
        if page.stem not in ANOTHER_MACHINE:
            printed = (done.stdout + done.stderr).replace("tmp/made", "tmp/demo")
            assert_shown(shown, printed.splitlines(), command)


def opens_the_explorer(name: str, words: list[str]) -> bool:
    """Whether a command would open the explorer on a terminal."""
    prints = {"--metric", "--fail-if", "--follow", "--no-open", "--version", "--format"}
    verbs = {"explain", "diff", "report", "export", "doctor", "card", "inspect", "analyse"}
    verbs |= {"metrics-report", "stats", "schema", "index"}
    return name == "ccltui" and not prints & set(words) and words[0] not in verbs


def assert_shown(shown: list[str], printed: list[str], command: str) -> None:
    """Every line that is shown is printed, in this order; "…" stands for any lines."""
    rest = iter(printed)
    for line in filter(None, shown):
        if line.strip() != "…":
            assert any(alike(line, other) for other in rest), f"{command}: {line}"


def alike(shown: str, printed: str) -> bool:
    """Whether two lines have the same words, up to the last digits of a number and the folder."""
    ours, theirs = shown.split(), printed.split()
    return len(ours) == len(theirs) and all(map(_alike_words, ours, theirs))


def _alike_words(shown: str, printed: str) -> bool:
    try:
        return math.isclose(float(shown), float(printed), rel_tol=1e-6)  # sums differ by processor
    except ValueError:
        return shown.replace("/tmp/", "tmp/") == printed


def test_what_is_not_run_is_on_a_page() -> None:
    every = [command for page in CARRIED_OUT for command, _ in commands(page)]

    assert len(every) > 70
    assert [one for one in NOT_RUN if not any(command.startswith(one) for command in every)] == []


def test_the_readme_shows_what_a_public_trace_says(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "megatron-tp8").symlink_to(shared / "traces" / "astra-sim" / "megatron-tp8")
    (shown,) = [
        lines
        for command, lines in commands(ROOT / "README.md")
        if command == "ccltui explain megatron-tp8"
    ]

    done = run(CCLTUI, "explain", "megatron-tp8", cwd=tmp_path)

    assert_shown(shown, done.stdout.splitlines(), "explain")
    assert len(shown) > 4


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a  1.00000001 b", "a 1.00000002   b", True),
        ("a 1.1", "a 1.2", False),
        ("/tmp/demo 8", "tmp/demo 8", True),
        ("a", "a b", False),
    ],
)
def test_lines_are_compared_by_words(shown: str, printed: str, same: bool) -> None:
    assert alike(shown, printed) is same
