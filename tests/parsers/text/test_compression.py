"""Uncompressed text whatever the suffix says, and what damage looks like."""

from __future__ import annotations

import gzip
import random
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
import zstandard

from ccltui.parsers.text.compression import TextChunks, ahead, detect

NOISE = random.Random(7).randbytes(300_000)
ZEROS = b"0" * 5_000_000
SIZES = [1000, 7777, 1 << 20]


def read(path: Path, data: bytes, size: int = 1 << 20) -> tuple[bytes, TextChunks]:
    path.write_bytes(data)
    chunks = TextChunks(path, size)
    pieces = list(chunks)
    assert all(len(piece) == size for piece in pieces[:-1])
    return b"".join(pieces), chunks


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("none", NOISE),
        ("none", b""),
        ("none", b"{"),
        ("gzip", gzip.compress(NOISE)),
        ("gzip", gzip.compress(ZEROS)),
        ("zstd", zstandard.compress(NOISE)),
        ("zstd", zstandard.compress(ZEROS)),
    ],
    ids=["plain", "empty", "brace", "gzip noise", "gzip zeros", "zstd noise", "zstd zeros"],
)
def test_magic_bytes_decide(tmp_path: Path, kind: str, data: bytes, size: int) -> None:
    text, chunks = read(tmp_path / "trace.json", data, size)

    expected = {"none": data, "gzip": b"", "zstd": b""}[kind] or text
    assert text == expected
    assert text in (NOISE, ZEROS, b"", b"{")
    assert chunks.compression == kind == detect(data)
    assert chunks.raw_bytes == len(data)
    assert chunks.text_bytes == len(text)
    assert chunks.notes == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_several_members_are_one_text(tmp_path: Path, pack: object, size: int) -> None:
    assert callable(pack)
    text, chunks = read(tmp_path / "a", pack(NOISE) + pack(ZEROS) + pack(b"end"), size)

    assert text == NOISE + ZEROS + b"end"
    assert chunks.notes == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_garbage_after_the_data_is_named_and_loses_nothing(
    tmp_path: Path, pack: object, size: int
) -> None:
    assert callable(pack)
    text, chunks = read(tmp_path / "a", pack(NOISE) + b"garbage", size)

    assert text == NOISE
    assert [(note.code, note.offset) for note in chunks.notes] == [("trailing_data", 300_000)]


def test_zero_padding_after_gzip_is_no_garbage(tmp_path: Path) -> None:
    text, chunks = read(tmp_path / "a", gzip.compress(NOISE) + b"\0" * 600_000)

    assert text == NOISE
    assert chunks.notes == []


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_truncated_data_gives_what_is_there(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    text, chunks = read(tmp_path / "a", pack(NOISE)[:-2000])

    assert len(text) > 200_000
    assert text == NOISE[: len(text)]
    assert [note.code for note in chunks.notes] == ["truncated_trace"]
    assert chunks.notes[0].offset == len(text)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_flipped_bits_never_raise(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    packed = bytearray(pack(ZEROS[:50_000] + NOISE[:50_000]))
    dice = random.Random(3)
    for _ in range(80):
        damaged = bytearray(packed)
        for _ in range(dice.randrange(1, 5)):
            damaged[dice.randrange(4, len(damaged))] ^= 1 << dice.randrange(8)
        read(tmp_path / "a", bytes(damaged), 7777)


def test_progress_counts_raw_bytes(tmp_path: Path) -> None:
    data = gzip.compress(NOISE)
    (tmp_path / "a").write_bytes(data)
    seen: list[int] = []

    list(TextChunks(tmp_path / "a", progress=seen.append))

    assert seen == sorted(seen)
    assert seen[-1] == len(data)


def test_fetching_ahead_keeps_order_and_is_bounded() -> None:
    fetched: list[int] = []

    def pieces() -> Generator[bytes, None, None]:
        for number in range(50):
            fetched.append(number)
            yield bytes([number])

    seen: list[bytes] = []
    for piece in ahead(pieces(), 3):
        assert len(fetched) <= len(seen) + 1 + 3 + 1  # this one, those queued, one in hand
        seen.append(piece)

    assert seen == [bytes([number]) for number in range(50)]


def test_an_error_while_fetching_comes_in_its_place() -> None:
    def pieces() -> Generator[bytes, None, None]:
        yield b"a"
        raise OSError(5, "Input/output error")

    fetched = ahead(pieces(), 3)

    assert next(fetched) == b"a"
    with pytest.raises(OSError, match="Input/output error"):
        next(fetched)


def test_leaving_early_ends_the_thread() -> None:
    def pieces() -> Generator[bytes, None, None]:
        while True:
            yield b"x"

    fetched = ahead(pieces(), 2)
    next(fetched)
    fetched.close()

    assert not [thread for thread in threading.enumerate() if thread.name == "decompress"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("at", [-8, -5, -4, -1])
def test_a_wrong_checksum_keeps_the_text_that_decodes(tmp_path: Path, size: int, at: int) -> None:
    first, data = gzip.compress(ZEROS[:70_000]), bytearray(gzip.compress(NOISE))
    data[at] ^= 1

    text, chunks = read(tmp_path / "f", first + bytes(data), size)

    assert text == ZEROS[:70_000] + NOISE
    assert [note.code for note in chunks.notes] == ["corrupt_gzip"]
    assert "hecksum" in chunks.notes[0].message or at >= -4
