"""Functions of users run in a process of their own: whatever they do, the result says what."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from factories import job, rank_trace
from msgspec import structs

from ccltui.metrics import registry
from ccltui.metrics.functions.function_metric import FunctionLimits, functions_in, metric_of
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.job import Job
from ccltui.parsers.window import Window

SEEDED = "def metric_cal(directory, profile_mode='auto'):\n"


@pytest.fixture
def traces(tmp_path: Path) -> Job:
    """A job of one rank whose directory exists."""
    folder = tmp_path / "traces"
    folder.mkdir()
    return structs.replace(job(rank_trace(0)), path=str(folder))


@pytest.fixture(autouse=True)
def no_functions_left() -> Iterator[None]:
    """The functions of a test are not metrics of the next one."""
    yield
    registry.use_functions(registry.Functions())


def computed(
    path: Path, traces: Job, options: ViewOptions | None = None, timeout_s: float = 60.0
) -> Result:
    """The result of the only function at a path."""
    (source,) = functions_in(path).sources
    made = metric_of(source.name, source, FunctionLimits(timeout_s))
    return made.run(View(traces, options or ViewOptions()))


def written(folder: Path, body: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(body)
    return path


def test_a_function_gets_the_directory_and_the_mode(tmp_path: Path, traces: Job) -> None:
    path = written(
        tmp_path,
        "import os\n"
        "def metric_cal(directory, profile_mode):\n"
        "    'Ranks of the job'\n"
        "    print('noise'); os.write(1, b'noise')\n"
        "    return {'num': 2, 'directory': directory, 'mode': profile_mode, 3: (1, 2.5)}\n",
    )

    result = computed(path, traces, ViewOptions(profile_mode="nsys"))

    assert (result.status, result.value, result.source) == ("ok", 2, "function")
    assert result.details["directory"] == traces.path
    assert result.details["mode"] == "nsys"
    assert result.details["3"] == [1, 2.5]
    assert result.definition.startswith("Ranks of the job. The number that metric_cal of ")


def test_arrays_and_scalars_of_numpy_are_numbers(tmp_path: Path, traces: Job) -> None:
    body = SEEDED + (
        "    import numpy as np\n"
        "    return {'lag_us': np.float32(0.5), 'all': np.arange(3), 'by': {np.int64(1): np.nan}}\n"
    )

    result = computed(written(tmp_path, body), traces)

    assert (result.value, result.unit, result.status) == (0.5, "us", "partial")
    assert result.details["all"] == [0, 1, 2]
    assert result.details["by"] == {"1": None}
    assert "by.1" in result.reasons[0].message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (SEEDED + "    raise ValueError('no\\nfiles')\n", "ValueError: no files (line 2 of mine"),
        (SEEDED + "    import sys; sys.exit(3)\n", "SystemExit: 3"),
        (SEEDED + "    import os; os._exit(3)\n", "ended without a result (exit status 3)"),
        (SEEDED + "    import os; os.kill(os.getpid(), 11)\n", "killed by SIGSEGV"),
        (SEEDED + "    return object()\n", "returned a object as its value"),
        (SEEDED + "    return {'value': 1, 'a': {'b': {1}}}\n", "returned a set at a.b"),
        (SEEDED + "    return {('a', 1): 2}\n", "a key that is a tuple"),
        (SEEDED + "    return float('nan')\n", "not finite"),
        (SEEDED + "    pass\n", "returned no number: nothing"),
        (SEEDED + "    a = []; a.append(a); return a\n", "nested more than"),
        (SEEDED + "    return 'x' * (17 << 20)\n", "more than 16 MiB"),
        ("import no_such_module\n" + SEEDED + "    return 1\n", "No module named 'no_such_module'"),
        ("def metric_cal(a, b, c): return 1\n", "does not accept (directory, profile_mode)"),
        ("metric_cal = 3\n", "metric_cal is a int, not a function"),
        ("async def run(): pass\nmetric_cal = lambda d, m: run()\n", "returned a coroutine"),
    ],
)
def test_whatever_fails_is_a_reason(tmp_path: Path, traces: Job, body: str, message: str) -> None:
    result = computed(written(tmp_path, body), traces)

    assert (result.status, result.reason, result.value) == ("unavailable", "function_failed", None)
    assert "mine.py: " in result.reasons[0].message
    assert message in result.reasons[0].message


def test_texts_of_a_function_are_safe_to_print(tmp_path: Path, traces: Job) -> None:
    body = SEEDED + "    raise ValueError('a\\x1b[31mred\\x07')\n"
    folder = tmp_path / "\x1b]0;title"
    folder.mkdir()

    result = computed(written(folder, body), traces)

    assert "\x1b" not in result.reasons[0].message + result.definition
    assert "red" in result.reasons[0].message


def test_a_function_of_the_directory_alone_is_called_so(tmp_path: Path, traces: Job) -> None:
    path = written(tmp_path, "def metric_cal(directory): return len(directory)\n")

    result = computed(path, traces, ViewOptions(profile_mode="torch"))

    assert result.value == len(traces.path)
    assert "takes no profile mode" in result.warnings[0]


def test_what_runs_too_long_is_killed_with_its_children(tmp_path: Path, traces: Job) -> None:
    body = SEEDED + (
        "    import subprocess, pathlib, time\n"
        "    child = subprocess.Popen(['sleep', '1000'])\n"
        "    pathlib.Path(directory, 'pid').write_text(str(child.pid))\n"
        "    time.sleep(1000)\n"
    )

    result = computed(written(tmp_path, body), traces, timeout_s=2)

    assert "ran longer than 2 s" in result.reasons[0].message
    assert is_gone(int(Path(traces.path, "pid").read_text()))


class CancelledError(BaseException):
    """Raised in the middle of a call, as the explorer interrupts a computation."""


def test_an_interrupted_call_ends_the_function(tmp_path: Path, traces: Job) -> None:
    path = written(
        tmp_path,
        SEEDED + "    import os, pathlib, time\n"
        "    pathlib.Path(directory, 'pid').write_text(str(os.getpid()))\n"
        "    time.sleep(1000)\n",
    )
    note = Path(traces.path, "pid")

    def interrupt(_number: int, _frame: object) -> None:
        if note.exists() and note.read_text():
            raise CancelledError
        signal.setitimer(signal.ITIMER_REAL, 0.05)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(CancelledError):
            computed(path, traces)
    finally:
        signal.signal(signal.SIGALRM, before)

    assert is_gone(int(note.read_text()))


def test_the_explorer_runs_a_function_once_for_a_directory(tmp_path: Path, traces: Job) -> None:
    body = "    open(directory + '/runs', 'a').write('x')\n"
    good = written(tmp_path, SEEDED + body + "    return 1\n", "good.py")
    bad = written(tmp_path, SEEDED + body + "    raise ValueError\n", "bad.py")
    for path in (good, bad, good, bad):
        (source,) = functions_in(path).sources
        made = metric_of(source.name, source, FunctionLimits(60, for_screen=True))
        result = made.run(View(traces))
        assert result.status == ("ok" if path is good else "unavailable")

    assert Path(traces.path, "runs").read_text() == "xx"
    computed(good, traces)
    assert Path(traces.path, "runs").read_text() == "xxx"


def is_gone(pid: int) -> bool:
    """Whether a process has ended, or does so soon."""
    for _ in range(100):
        stat = Path(f"/proc/{pid}/stat")
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_a_killed_caller_leaves_no_function_behind(tmp_path: Path, traces: Job) -> None:
    path = written(
        tmp_path,
        SEEDED + "    import os, pathlib, time\n"
        "    pathlib.Path(directory, 'pid').write_text(str(os.getpid()))\n"
        "    time.sleep(1000)\n",
    )
    code = (
        "import sys; from pathlib import Path\n"
        "from ccltui.metrics.functions.function_metric import call, FunctionLimits\n"
        "from ccltui.metrics.functions.function_metric import functions_in\n"
        "call(functions_in(Path(sys.argv[1])).sources[0], sys.argv[2], 'auto', FunctionLimits())\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", code, str(path), traces.path])
    note = Path(traces.path, "pid")
    for _ in range(500):
        if note.exists() and note.read_text():
            break
        time.sleep(0.02)
    caller.kill()
    caller.wait()

    assert is_gone(int(note.read_text()))


@pytest.mark.parametrize(
    "options",
    [
        ViewOptions(window=Window(0, 5)),
        ViewOptions(steps=(0, 1)),
        ViewOptions(ranks=frozenset({0})),
        ViewOptions(group="tp"),
        ViewOptions(span="inner"),
        ViewOptions(raw_clocks=True),
        ViewOptions(overrides={"tp": 4}),
    ],
)
def test_a_selection_is_refused_and_nothing_is_run(
    tmp_path: Path, traces: Job, options: ViewOptions
) -> None:
    body = SEEDED + "    open(directory + '/ran', 'w'); return 1\n"

    result = computed(written(tmp_path, body), traces, options)

    assert result.reason == "not_applicable"
    assert not Path(traces.path, "ran").exists()


def test_nothing_is_imported_from_where_the_traces_or_the_file_are(
    tmp_path: Path, traces: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path, Path(traces.path)):
        for name in ("json", "selectors", "planted", "ccltui"):
            (folder / f"{name}.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.chdir(traces.path)
    body = (
        "import json\ntry:\n    import planted\nexcept ModuleNotFoundError:\n    planted = None\n"
        + SEEDED
        + "    return 1 if planted is None else 0\n"
    )

    assert computed(written(tmp_path, body), traces).value == 1


# Folders


def test_a_folder_is_a_package_and_a_checkout_has_many(tmp_path: Path, traces: Job) -> None:
    tools = tmp_path / "tools"
    for name, start in (("alpha", None), ("beta", "from beta.beta import metric_cal\n")):
        (tools / name).mkdir(parents=True)
        (tools / name / f"{name}.py").write_text(
            "from shared_helper import base\nfrom .extra import more\n"
            + SEEDED
            + "    return base + more\n"
        )
        (tools / name / "extra.py").write_text(f"more = {len(name)}\n")
        if start is not None:
            (tools / name / "__init__.py").write_text(start)
    (tools / "common").mkdir()
    (tools / "common" / "common.py").write_text("base = 2\n")
    (tools / "broken").mkdir()
    (tools / "broken" / "broken.py").write_text("def metric_cal(:\n")
    (tools / "shared_helper.py").write_text("base = 10\n")
    (tools / "main.py").write_text("raise SystemExit\n")

    found = functions_in(tmp_path)

    assert [source.name for source in found.sources] == ["alpha", "beta"]
    assert {name for name, _ in found.broken} == {"common", "broken"}
    assert "line 1" in dict(found.broken)["broken"]
    limits = FunctionLimits(60)
    values = [metric_of(s.name, s, limits).run(View(traces)).value for s in found.sources]
    assert values == [15, 14]
    assert [s.name for s in functions_in(tools).sources] == ["alpha", "beta"]
    assert [s.name for s in functions_in(tools / "alpha").sources] == ["alpha"]
    assert list(tmp_path.rglob("__pycache__")) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "x", "not a Python file"),
        ("a b.py", SEEDED + "    return 1\n", "no name of a metric"),
        ("a.py", "x = 1\n", "defines no function metric_cal"),
        ("a.py", "def metric_cal(\n", "line 1"),
        ("a.py", "\0", "null byte"),
        ("empty/x.txt", "", "no metric: expected"),
        (None, "", "no such file"),
    ],
)
def test_a_path_without_a_function_is_refused(
    tmp_path: Path, name: str | None, content: str, message: str
) -> None:
    path = tmp_path / (name or "absent")
    if name is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)

    with pytest.raises(GrammarError, match="(?s).*" + message):
        functions_in(path.parent if path.parent != tmp_path else path)


# Names


def test_a_taken_name_is_listed_beside_ours(tmp_path: Path) -> None:
    path = written(tmp_path, SEEDED + "    return 1\n", "iter_time.py")
    sources = functions_in(path).sources

    registry.use_functions(registry.Functions(sources))

    assert registry.find("iter_time").unit == "ms"
    assert registry.names_of(sources) == ("iter_time_file",)
    assert registry.find("iter_time_file").category == "functions"
    registry.use_functions(registry.Functions())
    with pytest.raises(KeyError):
        registry.find("iter_time_file")


def test_an_installed_function_is_a_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traces: Job
) -> None:
    (tmp_path / "fleet_functions.py").write_text(SEEDED + "    return 4\n")
    facts = tmp_path / "fleet-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: fleet\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[ccltui.metrics]\nfleet_size = fleet_functions:metric_cal\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    loaded = registry.load()

    assert loaded.metrics["fleet_size"].run(View(traces)).value == 4


def test_a_request_and_a_result_hold_no_code(tmp_path: Path) -> None:
    """The metric is sent to other processes as texts and numbers."""
    (source,) = functions_in(written(tmp_path, SEEDED + "    return 1\n")).sources
    made = metric_of("mine", source, FunctionLimits())

    assert pickle.loads(pickle.dumps(made)).compute == made.compute
    assert SEEDED.encode() not in pickle.dumps(made)
