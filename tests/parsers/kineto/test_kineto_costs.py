"""Test that hostile text costs time in proportion to its length: CPU time against other text."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from kineto_fuzz import read_in_pieces

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.kineto.scanner.typed_event import compiled

LAST = '{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1,"pid":0,"tid":7}'


def read(path: Path, events: str, chunk_bytes: int = 1 << 20) -> tuple[RankTrace, float]:
    """Read a list of events; return the trace and the seconds of CPU."""
    path.unlink(missing_ok=True)
    path.write_text(f'{{"traceEvents":[{events}{LAST}]}}')
    begun = time.process_time()
    trace = read_in_pieces(path, chunk_bytes)
    return trace, time.process_time() - begun


@pytest.mark.usefixtures("decoder")
@pytest.mark.parametrize("element", ["1,", '{"a":NaN},', "{},1,", '{"ph":"E","ts":1},'])
def test_short_elements_do_not_copy_their_chunk(tmp_path: Path, element: str) -> None:
    text = element * (150_000 // len(element))

    small, seconds_small = read(tmp_path / "trace.json", text, 1 << 13)
    large, seconds_large = read(tmp_path / "trace.json", text, 1 << 20)

    assert [(n.code, n.count) for n in large.notes] == [(n.code, n.count) for n in small.notes]
    assert len(large.group("gpu")) == len(small.group("gpu")) == 1
    assert seconds_large < 2 * seconds_small + 0.5


@pytest.mark.usefixtures("decoder")
def test_a_value_nested_millions_deep_is_damage(tmp_path: Path) -> None:
    depth = 2_500_000
    deep = '{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":1,"dur":1,"args":{"Input Dims":'

    trace, seconds = read(tmp_path / "trace.json", f"{deep}{'[' * depth}{']' * depth}}}}},")

    assert [note.code for note in trace.notes] == ["malformed_event"]
    assert len(trace.group("gpu")) == 1
    assert seconds < 4


def colliding_names(count: int) -> list[str]:
    """Return texts of 24 letters whose unkeyed multiply-and-shift hash ends in 20 zero bits."""
    factor, first = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0x9E3779B97F4A7C15 ^ 24)
    inverse, half = np.uint64(pow(0xFF51AFD7ED558CCD, -1, 1 << 64)), np.uint64(32)
    random = np.random.default_rng(1)
    found: list[str] = []
    while len(found) < count:
        words = random.integers(97, 123, (1 << 20, 16), dtype=np.uint8).view(np.uint64)
        value = np.full(len(words), first)
        for column in range(2):
            value = (value ^ words[:, column]) * factor
            value ^= value >> half
        wanted = random.integers(0, 1 << 44, len(words), dtype=np.uint64) << np.uint64(20)
        last = ((wanted ^ (wanted >> half)) * inverse) ^ value
        octets = last.view(np.uint8).reshape(-1, 8)
        plain = (octets >= 32) & (octets < 127) & (octets != 34) & (octets != 92)
        usable = plain.all(axis=1)
        texts = np.column_stack([words[usable], last[usable]]).view(np.uint8)
        found += [bytes(text).decode() for text in texts]
    return found[:count]


@pytest.mark.skipif(not compiled(), reason="the scanner was not compiled")
def test_names_that_collide_without_a_key_take_no_longer(tmp_path: Path) -> None:
    def events(names: list[str]) -> str:
        return "".join(f'{{"ph":"i","name":"{name}","ts":1}},' for name in names)

    hostile = colliding_names(4000)
    plain = [f"{number:024}" for number in range(len(hostile))]

    _, usual = read(tmp_path / "trace.json", events(plain))
    _, taken = read(tmp_path / "trace.json", events(hostile))

    assert taken < 3 * usual + 0.1
