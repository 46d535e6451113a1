"""Files mapped without a descriptor that stays open."""

from __future__ import annotations

import errno
import gc
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ccltui.parsers.store.stored_columns import PAGE, map_file, mapping_of

BODY = bytes(range(256)) * 64


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    """An open file of `BODY`, at the next page once more."""
    path = tmp_path / "file"
    path.write_bytes(BODY.ljust(-(-len(BODY) // PAGE) * PAGE, b"\0") + BODY)
    opened = os.open(path, os.O_RDONLY)
    yield opened
    os.close(opened)


def num_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def mapped_lines(path: Path) -> int:
    return sum(str(path) in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_the_bytes_are_there_and_cannot_be_written(descriptor: int) -> None:
    array = map_file(descriptor, len(BODY))

    assert array.tobytes() == BODY
    assert (array.dtype, array.flags.writeable) == (np.dtype(np.uint8), False)


def test_no_descriptor_stays_open(descriptor: int) -> None:
    before = num_open()

    arrays = [map_file(descriptor, len(BODY)) for _ in range(100)]

    assert num_open() == before
    assert all(array[-1] == 255 for array in arrays)


def test_bytes_stay_when_the_file_has_gone_and_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "gone"
    path.write_bytes(BODY)
    with path.open("rb") as file:
        array = map_file(file.fileno(), len(BODY))
    path.unlink()

    assert array.tobytes() == BODY


def test_a_mapping_lives_as_long_as_a_view_of_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(BODY)
    with path.open("rb") as file:
        view = np.frombuffer(map_file(file.fileno(), len(BODY)), np.int64, 8, 64)
    gc.collect()

    assert view.tobytes() == BODY[64:128]
    assert mapped_lines(path) == 1

    del view
    gc.collect()
    assert mapped_lines(path) == 0


def test_a_part_of_a_file_begins_at_a_page(descriptor: int) -> None:
    begin = -(-len(BODY) // PAGE) * PAGE

    assert map_file(descriptor, len(BODY), begin).tobytes() == BODY
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        map_file(descriptor, 1, 1)


def test_an_empty_file_needs_no_mapping(descriptor: int) -> None:
    assert len(map_file(descriptor, 0)) == 0


def test_what_cannot_be_mapped_says_why() -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(OSError, match=os.strerror(errno.ENODEV)) as caught:
            map_file(reading, 1)
    finally:
        os.close(reading)
        os.close(writing)
    assert caught.value.errno == errno.ENODEV


def test_pages_that_were_given_back_are_read_again(descriptor: int) -> None:
    array = map_file(descriptor, len(BODY))
    mapping = mapping_of(np.frombuffer(array, np.int32))
    assert mapping is not None

    mapping.madvise(mmap.MADV_DONTNEED)

    assert array.tobytes() == BODY
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        mapping.madvise(12345)


def test_an_array_in_memory_is_mapped_from_no_file() -> None:
    assert mapping_of(np.zeros(3)) is None
    assert mapping_of(np.frombuffer(mmap.mmap(-1, 8), np.uint8)) is None
