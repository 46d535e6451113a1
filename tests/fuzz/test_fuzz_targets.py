"""A short run of every fuzz target, and that the guard reports what is a finding."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from pathlib import Path

import fuzz_guard
import pytest
from fuzz_guard import Guard, Target, kept
from fuzz_mutators import Mutator, any_bytes, database, json_tree, lines, packed, pages
from fuzz_seeds import METRICS, NCCL_LOG, exports, kineto
from fuzz_targets import TARGETS

from ccltui.parsers.errors import InternalError, TraceError

MUTANTS = 25


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_read_and_mutants_give_no_finding(tmp_path: Path, name: str) -> None:
    target = TARGETS[name]
    seeds = target.seeds()
    if not seeds:
        pytest.skip("what writes its seeds is not installed")
    guard = Guard(target, tmp_path)

    assert [guard.run(seed) for seed in seeds] == [None] * len(seeds)
    assert guard.refused == 0
    dice = random.Random(zlib.crc32(name.encode()))
    for _ in range(MUTANTS):
        data = target.mutate(dice, dice.choice(seeds))
        found = guard.run(data)
        assert found is None, f"{data!r:.2000}\n{found.report}"
    assert guard.inputs == len(seeds) + MUTANTS


def finding(run: Callable[[bytes, Path], object], folder: Path) -> str | None:
    target = Target("t", "", lambda: [b""], any_bytes, run)
    found = Guard(target, folder).run(b"data")
    return None if found is None else found.key


def raising(error: BaseException) -> Callable[[bytes, Path], object]:
    def run(_data: bytes, _path: Path) -> None:
        raise error

    return run


def endless(_data: bytes, _path: Path) -> None:
    while True:
        pass


def test_what_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert finding(lambda data, path: path.read_bytes() == data, tmp_path) is None
    assert finding(raising(TraceError("no such table", path="input")), tmp_path) is None
    for error in (KeyError("x"), RecursionError(), MemoryError(), OSError(5, "x")):
        assert finding(raising(error), tmp_path) == f"{type(error).__name__} outside"
    assert finding(raising(InternalError("internal error")), tmp_path) is not None
    assert finding(raising(AssertionError("gzip: a is not b")), tmp_path) is not None
    assert finding(raising(TraceError("two\nlines")), tmp_path) == "message outside"
    assert finding(raising(TraceError("red \x1b[31m")), tmp_path) == "message outside"
    monkeypatch.setattr(fuzz_guard, "CPU_S", 0.05)
    assert finding(endless, tmp_path) == "HangError outside"


def test_memory_is_a_finding_whatever_the_process_took_before(tmp_path: Path) -> None:
    def large(*_: object) -> int:
        return bytearray(256 << 20).count(1)

    if not fuzz_guard.forget_peak():
        pytest.skip("this system does not let a process set its peak memory back")
    large()
    assert finding(large, tmp_path) == "memory"
    assert finding(lambda *_: None, tmp_path) is None


def test_a_finding_is_kept_once(tmp_path: Path) -> None:
    one = fuzz_guard.Finding("t", "KeyError a.py:3", "report")

    path = kept(tmp_path / "new", one, b"first")
    assert kept(tmp_path / "new", one, b"second") == path
    assert path.read_bytes() == b"first"
    assert path.with_suffix(".txt").read_text() == "KeyError a.py:3\nreport"


@pytest.mark.parametrize(
    ("mutate", "data"),
    [(any_bytes, b"text"), (json_tree, METRICS), (lines, NCCL_LOG), (database, exports()[0]),
     (pages, exports()[0]), (packed(json_tree), kineto()[-1])],
)  # fmt: skip
def test_mutants_follow_from_the_random_numbers(mutate: Mutator, data: bytes) -> None:
    first, again = ([mutate(random.Random(n), data) for n in range(40)] for _ in range(2))

    assert first == again
    assert len(set(first)) > 25
    assert all(isinstance(one, bytes) for one in first)


@pytest.mark.parametrize("mutate", [any_bytes, json_tree, lines, database, pages])
def test_mutators_take_anything(mutate: Mutator) -> None:
    for data in (b"", b"\xff", b"[" * 5000, b'{"a": 1}', b"\x1f\x8b", b"SQLite format 3\0"):
        for seed in range(30):
            mutate(random.Random(seed), data)
