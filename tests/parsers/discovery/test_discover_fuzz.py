"""Whatever bytes lie in a directory, discovery lists them and raises nothing."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
from pathlib import Path

import pytest
import zstandard
from found_files import trace_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.text.file_sample import object_shape

NAMES = ["rank0.json", "a.json.gz", "a.yaml", "a.txt", "a.sqlite", "a.nsys-rep", "a.pt", "x"]
FRAGMENTS = [
    b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b" ", b"\n", b"\0", b"\xff", b"\xef\xbb\xbf",
    b'"traceEvents"', b'"distributedInfo"', b'"rank"', b'"schema"', b'"nodes"', b"3", b"-1", b"NaN",
    b'"ph":"X"', b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"SQLite format 3\0", b"\x80\x04",
    b"workload:", b"Time (%)", b"Processing [", b"] with [", b" ** x (y):", b"../a.json",
]  # fmt: skip


def tar_bytes() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("x" * 150)
        info.size = 3
        archive.addfile(info, io.BytesIO(b"abc"))
    return buffer.getvalue()


WHOLE = {
    "trace": trace_text(3, 4),
    "late": trace_text(3, 4, last=True),
    "gzip": gzip.compress(trace_text(3, 4), mtime=0),
    "zstd": zstandard.compress(trace_text(3, 4)),
    "tar": tar_bytes(),
    "tar.gz": gzip.compress(tar_bytes(), mtime=0),
}


def look(folder: Path, content: bytes, name: str) -> None:
    (folder / name).write_bytes(content)
    (found,) = discover(folder).files
    assert (found.kind != "unknown") or found.problem
    (folder / name).unlink()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(
        st.binary(max_size=700), st.lists(st.sampled_from(FRAGMENTS), max_size=30).map(b"".join)
    ),
    name=st.sampled_from(NAMES),
)
def test_any_bytes(tmp_path: Path, content: bytes, name: str) -> None:
    look(tmp_path, content, name)


@pytest.mark.parametrize("form", WHOLE)
def test_every_cut_and_many_flips(tmp_path: Path, form: str) -> None:
    whole = WHOLE[form]
    chance = random.Random(form)
    cuts = range(len(whole)) if len(whole) < 600 else chance.sample(range(len(whole)), 150)

    for cut in cuts:
        look(tmp_path, whole[:cut], "rank1.json")
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        look(tmp_path, bytes(damaged), "rank1.json")


def test_random_cuts_of_public_files(shared: Path, tmp_path: Path) -> None:
    chance = random.Random(7)
    files = sorted(
        path
        for part in ("golden", "nsys", "recorded/fake_1024", "traces/hta/call_stack")
        for path in (shared / part).rglob("*")
        if path.is_file() and path.stat().st_size < 1 << 20
    )
    for path in chance.sample(files, 40):
        whole = path.read_bytes()
        for _ in range(5):
            look(tmp_path, whole[: chance.randrange(len(whole) + 1)], path.name)


@pytest.mark.parametrize("after", [b"", b'"name', b'"a\\" b'])
def test_a_long_list_that_is_cut_is_looked_at_once(after: bytes) -> None:
    """Looking at the rest of it from each of its bytes, this would take hours."""
    text = b'{"rank": 3, "ranks": [' + b"0, " * 1_000_000 + after

    found = object_shape(text)

    assert [member.key for member in found.members] == ["rank", "ranks"]
    assert (found.members[1].end, found.state) == (None, "cut")


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(b"".join), st.data())
def test_a_cut_text_shows_a_beginning_of_the_same_members(text: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))

    whole, part = object_shape(text), object_shape(text[:cut])

    assert len(part.members) <= len(whole.members)
    for one, other in zip(part.members, whole.members, strict=False):
        assert (one.key, one.start) == (other.key, other.start)
        assert one.end in (other.end, None)


NOISE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    noise=st.dictionaries(st.text(min_size=1, max_size=12), NOISE, max_size=5),
    order=st.randoms(use_true_random=False),
    indent=st.sampled_from([None, 0, 4]),
    long=st.booleans(),
)
def test_any_order_of_keys_with_anything_between(
    tmp_path: Path, noise: dict[str, object], order: random.Random, indent: int | None, long: bool
) -> None:
    events = [{"ph": "X", "name": '"}]', "args": {"distributedInfo": {"rank": 9}}}]
    members = [
        ("traceEvents", events * (2000 if long else 1)),
        ("distributedInfo", {"pg_config": [{"rank": 8}], "rank": 5, "world_size": 6}),
        *((key, value) for key, value in noise.items() if key not in ("schema", "nodes")),
    ]
    order.shuffle(members)
    (tmp_path / "a.json").write_text(json.dumps(dict(members), indent=indent), "utf-8")

    (found,) = discover(tmp_path).files

    assert (found.kind, found.rank, found.world_size) == ("kineto", 5, 6)
