"""Formats of other packages: used like built-in ones, and never at the cost of other files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from plugged import EXAMPLE, distribution

from ccltui.demo import Spec, write_job
from ccltui.parsers import formats, plug_ins
from ccltui.parsers.discovery.discover import SKIPPED_PLUG_IN, discover
from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import UNKNOWN
from ccltui.parsers.job import Job, LoadSettings, load_job, start_job

LIST = "kernels of rank {rank}\ngemm 0 {late}\nncclDevKernel_AllReduce_Sum_f32_RING_LL {late} 300\n"
OF_EXAMPLE = {"ccltui.formats": {"kernel_list": "ccltui_example.kernel_list:KERNEL_LIST"}}

DECLARED = """
from msgspec import structs
from ccltui.parsers.format import Format, Match, Priority, Rule

def never(sample):
    return None

def always(sample):
    return Match()

def fails(sample):
    raise ZeroDivisionError("in the\\nrule")

def odd(sample):
    return "yes"

def lost(path, **options):
    raise LookupError("no row 7")

def left(path, **options):
    raise SystemExit("leaving")

def make(kind, test=never, priority=Priority.BINARY, **changes):
    return Format(kind=kind, description="-", sniff=(Rule(priority, test),), **changes)
"""


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """Kernel lists of two ranks, and a note that no format claims."""
    folder = tmp_path / "job"
    folder.mkdir()
    for rank, late in ((0, 100), (1, 200)):
        (folder / f"part{rank}.txt").write_text(LIST.format(rank=rank, late=late))
    return folder


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The format of the example, as if it were installed."""
    monkeypatch.syspath_prepend(str(distribution(tmp_path / "site", "example-lists", OF_EXAMPLE)))
    monkeypatch.syspath_prepend(str(EXAMPLE))


def opened(path: Path, cache: Path, *, inline: bool) -> Job:
    """Read all files in this process, or in workers."""
    settings = LoadSettings(cache, 2, inline=inline, for_other_processes=False)
    return load_job(start_job(path), settings)


def use(
    monkeypatch: pytest.MonkeyPatch, folder: Path, module: str, lines: Sequence[str]
) -> tuple[str, ...]:
    """Install formats that these lines define as ``a``, ``b``, …; return the problems."""
    names = [line.partition(" ")[0] for line in lines]
    entries = {"ccltui.formats": {name: f"{module}:{name}" for name in names}}
    text = DECLARED + "\n".join(lines) + "\n"
    distribution(folder, module.replace("_", "-"), entries, {module: text})
    monkeypatch.syspath_prepend(str(folder))
    return formats.plug_in_problems()


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize("inline", [True, False], ids=["here", "worker"])
def test_a_format_is_read_in_this_process_and_in_workers(
    lists: Path, tmp_path: Path, inline: bool
) -> None:
    for _ in range(2):  # read, then mapped
        job = opened(lists, tmp_path / "cache", inline=inline)

        assert not job.failures
        assert [trace.rank for trace in job.ranks] == [0, 1]
        assert job.ranks[1].group("gpu").dur_ns.tolist() == [200_000, 100_000]
    assert formats.format_of_trace(job.ranks[0]).kind == "kernel_list"


@pytest.mark.usefixtures("example")
def test_a_bad_line_is_a_failure_of_its_file_alone(lists: Path, tmp_path: Path) -> None:
    (lists / "part2.txt").write_text("kernels of rank 2\ngemm zero 5\n")

    job = opened(lists, tmp_path / "cache", inline=True)

    assert [trace.rank for trace in job.ranks] == [0, 1]
    assert [failure.error for failure in job.failures] == ["part2.txt:2: no name, start and end"]


def test_without_the_package_its_files_are_text(lists: Path) -> None:
    assert {file.kind for file in discover(lists).files} == {"text"}
    assert formats.plug_in_problems() == ()
    assert formats.format_of("kernel_list") is UNKNOWN


def test_what_cannot_be_used_is_a_line_with_its_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = use(
        monkeypatch,
        tmp_path / "site",
        "poor_formats",
        [
            "a = 7",
            "b = make('kineto')",
            "c = make('Bad kind')",
            "d = structs.replace(make('d'), sniff=())",
            "e = make('e', read=lost)",
            "f = make('f', read=lost, source='torch', version=1, family='kineto')",
            "g = make('unknown')",
            "ok = make('ok')",
            "z = make('ok')",
        ],
    )

    start = "format plug-in {} of poor-formats 1.0 is skipped: poor_formats:{} "
    kinds = "letters a-z, digits and _ are allowed"
    assert list(problems) == [
        start.format(name, name) + text
        for name, text in (
            ("a", "is a int, not a Format"),
            ("b", "has the kind 'kineto', which is already taken"),
            ("c", f"has the kind 'Bad kind': {kinds}"),
            ("d", "has no rules that recognise its files"),
            ("e", "has a reader, so it needs a source (torch, nsys), version and family"),
            ("f", "has the family 'kineto', which is already taken"),
            ("g", "has the kind 'unknown', which is already taken"),
            ("z", "has the kind 'ok', which is already taken"),
        )
    ]
    assert formats.format_of("ok").kind == "ok"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "raise RuntimeError('needs\\na \\x1b[31mlicence')",
            r"RuntimeError: needs a \x1b[31mlicence",
        ),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("print('hello')", "AttributeError: module 'broken_{}' has no attribute 'x'"),
        ("def x(:", "SyntaxError: invalid syntax (broken_{}.py, line 1)"),
    ],
)
def test_an_import_that_fails_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    reason: str,
) -> None:
    number = str(abs(hash(text)))
    module = f"broken_{number}"
    entries = {"ccltui.formats": {"x": f"{module}:x"}}
    monkeypatch.syspath_prepend(
        str(distribution(tmp_path / "site", "broken", entries, {module: text + "\n"}))
    )

    (problem,) = formats.plug_in_problems()

    start = f"format plug-in x of broken 1.0 is skipped: {module}:x: "
    assert problem == start + reason.replace("{}", number)
    assert capsys.readouterr().out == ""


def test_rules_that_fail_take_no_file_from_other_formats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["a = make('a', fails)", "b = make('b', odd)"]
    use(monkeypatch, tmp_path / "site", "bad_rules", lines)
    directory = tmp_path / "job"
    write_job(directory, Spec(tp=1, steps=1, layers=2, gpus_per_node=2, stragglers=()))

    found = discover(directory)

    assert {file.kind for file in found.files if file.rank is not None} == {"kineto"}
    notes = [note.message for note in found.notes if note.code == SKIPPED_PLUG_IN]
    assert notes == [
        "format plug-in a of bad-rules 1.0 is skipped: ZeroDivisionError: in the rule",
        "format plug-in b of bad-rules 1.0 is skipped: "
        "TypeError: a rule returned a str, not a Match or None",
    ]


@pytest.mark.parametrize("reader", ["lost", "left"])
@pytest.mark.parametrize("inline", [True, False], ids=["here", "worker"])
def test_a_reader_that_fails_loses_its_own_file_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str, inline: bool
) -> None:
    rule = f"lambda s: Match() if s.text and s.text.startswith('{reader}') else None"
    line = (
        f"a = make('{reader}', {rule}, read={reader}, source='torch', version=1, family='{reader}')"
    )
    use(monkeypatch, tmp_path / "site", f"bad_reader_{reader}_{inline}".lower(), [line])
    directory = tmp_path / "job"
    write_job(directory, Spec(tp=1, steps=1, layers=2, gpus_per_node=2, stragglers=()))
    (directory / "note.txt").write_text(f"{reader} rows\n")

    job = opened(directory, tmp_path / "cache", inline=inline)

    assert [trace.rank for trace in job.ranks] == [0, 1, 2, 3]
    why = {"lost": "LookupError: no row 7", "left": "SystemExit: leaving"}[reader]
    owner = f"bad-reader-{reader}-{inline} 1.0".lower()
    assert [failure.error for failure in job.failures] == [
        f"note.txt: the format plug-in a of {owner} failed: {why}"
    ]


def _with_msgspec(folder: Path) -> Path:
    """Return a folder from which msgspec is imported, and nothing else."""
    (folder / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    return folder


def test_where_no_package_offers_any_nothing_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from ccltui.parsers.plug_ins import GROUPS, installed; "
        "print(sum(len(installed(group)) for group in GROUPS), 'importlib.metadata' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],  # without the distributions of this environment
        env={"PYTHONPATH": f"{EXAMPLE.parents[1]}{os.pathsep}{_with_msgspec(tmp_path)}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "0 False\n"


def test_an_unreadable_distribution_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = distribution(tmp_path / "site", "example-lists", OF_EXAMPLE)
    remains = site / "aaa-1.0.dist-info"
    remains.mkdir()
    (remains / "entry_points.txt").write_bytes(b"[ccltui.formats]\n\xff\xfe = x:y\n")
    (site / "zzz-1.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(site))

    names = [one.name for one in plug_ins.installed(plug_ins.FORMATS)]

    assert "kernel_list" in names


def test_a_distribution_that_is_found_twice_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("one", "two"):
        site = distribution(tmp_path / folder, "example-lists", OF_EXAMPLE)
        monkeypatch.syspath_prepend(str(site))

    assert len(plug_ins.installed(plug_ins.FORMATS)) == 1


def test_a_failure_named_by_a_plug_in_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        "from ccltui.parsers.errors import TraceError",
        "def told(path, **options): raise TraceError('cut off', path=options['shown'])",
        "a = make('told', read=told, source='torch', version=1, family='told')",
    ]
    names = "a"
    entries = {"ccltui.formats": {names: "told_reader:a"}}
    text = DECLARED + "\n".join(lines) + "\n"
    site = distribution(tmp_path / "site", "told-reader", entries, {"told_reader": text})
    monkeypatch.syspath_prepend(str(site))

    with pytest.raises(TraceError, match=r"^here: cut off$"):
        formats.read_file(tmp_path, "told", shown="here")


def test_columns_of_another_format_of_a_file_are_not_taken_from_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two packages that read one file, one after the other, with the same number of a version."""
    directory = tmp_path / "job"
    directory.mkdir()
    (directory / "run.txt").write_text("reads of 1\n")
    reader = (EXAMPLE / "ccltui_example" / "kernel_list_reader.py").read_text()
    for name, scale in (("first", 1000), ("second", 5000)):
        text = reader.replace("* 1000", f"* {scale}").replace("kernel_list", name) + DECLARED
        text += (
            f"def read(path, *, shown, **options):\n"
            f"    (path := Path(str(path) + '.{name}')).write_text('of rank 1\\nk 0 10\\n')\n"
            f"    return (read_{name}(path, shown=shown),)\n"
            f"rule = lambda s: Match() if s.text and s.text.startswith('reads') else None\n"
            f"a = make('{name}', rule, read=read, source='torch', version=1, family='{name}')\n"
        )
        module = f"reader_{name}"
        entries = {"ccltui.formats": {"a": f"{module}:a"}}
        site = distribution(tmp_path / name, module, entries, {module: text})
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(site))
            job = opened(directory, tmp_path / "cache", inline=True)
            assert not job.failures
            assert job.ranks[0].group("gpu").dur_ns.tolist() == [10 * scale]
        (directory / f"run.txt.{name}").unlink()
