"""Objects sent between processes with their arrays in a mapped file, and the channel."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ccltui.tui.engine import array_transfer
from ccltui.tui.engine.array_transfer import Channel


def no_reference(_: object) -> None:
    return None


def round_trip(thing: object) -> Any:
    data, file = array_transfer.pack(thing, no_reference)
    try:
        return array_transfer.unpack(data, None if file is None else file.fileno(), no_reference)
    finally:
        if file is not None:
            file.close()


def test_large_arrays_are_equal_and_read_only_after_a_round_trip() -> None:
    wide = np.arange(6000, dtype=np.int64).reshape(3, 2000)
    thing = {"wide": wide, "turned": wide.T, "small": np.arange(3), "none": np.empty(0)}

    back = round_trip(thing)

    for name, array in thing.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype
    assert not back["wide"].flags.writeable
    assert not back["turned"].flags.writeable


def test_an_array_in_two_places_stays_one_array() -> None:
    array = np.arange(5000)

    one, other = round_trip((array, array))

    assert one is other


def test_small_arrays_need_no_file() -> None:
    data, file = array_transfer.pack({"a": np.arange(10)}, no_reference)

    assert file is None
    assert array_transfer.unpack(data, None, no_reference)["a"].tolist() == list(range(10))


def test_referenced_objects_are_sent_as_their_reference() -> None:
    rank = object()
    data, _ = array_transfer.pack([rank, 1], lambda one: "r0" if one is rank else None)

    assert array_transfer.unpack(data, None, lambda name: f"here {name}") == ["here r0", 1]


def test_without_disk_space_the_file_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)

    assert round_trip(np.arange(5000)).sum() == 5000 * 4999 // 2


def test_released_pages_are_read_again_at_the_next_access() -> None:
    back = round_trip(np.arange(100_000))

    array_transfer.release_pages()

    assert back.sum() == 100_000 * 99_999 // 2


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    one, other = (Channel(end) for end in socket.socketpair())
    yield one, other
    one.close()
    other.close()


def test_messages_arrive_whole_and_in_order(ends: tuple[Channel, Channel]) -> None:
    one, other = ends
    parts = [b"", os.urandom(3_000_000), b"end"]

    def send_all() -> None:
        for part in parts:
            one.send(part)

    sender = threading.Thread(target=send_all)
    sender.start()

    received = [other.receive() for _ in parts]
    assert [(bytes(data), descriptor) for data, descriptor in received] == [
        (part, None) for part in parts
    ]
    sender.join()


def test_an_open_file_is_sent_beside_a_message(ends: tuple[Channel, Channel]) -> None:
    one, other = ends
    with tempfile.TemporaryFile() as file:
        file.write(b"columns")
        file.flush()
        one.send(pickle.dumps("rank"), file.fileno())

    data, descriptor = other.receive()

    assert pickle.loads(data) == "rank"
    assert descriptor is not None
    assert os.pread(descriptor, 7, 0) == b"columns"
    os.close(descriptor)


def test_the_end_of_the_connection_is_an_error_also_within_a_message() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(theirs)
    ours.sendall(b"\0" + struct.pack("!i", 1000) + b"half")
    ours.close()

    with pytest.raises(EOFError):
        channel.receive()
    with pytest.raises(EOFError):
        channel.receive()
    with pytest.raises(OSError, match=r"Broken pipe|reset"):
        channel.send(b"anyone?" * 1000)
    channel.close()
    with pytest.raises(EOFError):
        channel.receive()
