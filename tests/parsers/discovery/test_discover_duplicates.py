"""One recording counts once, under however many names it lies there."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from found_files import by_path, codes, put, trace_text

from ccltui.parsers.discovery.discover import Discovery, discover


def repeated(discovery: Discovery) -> dict[str, str | None]:
    return {file.path: file.duplicate_of for file in discovery.files}


def used(discovery: Discovery) -> list[str]:
    return [file.path for capture in discovery.captures for file in capture.files]


def test_a_symlink_and_its_target_are_one_file(tmp_path: Path) -> None:
    put(tmp_path, "profile_trace/rank0_trace.json", trace_text(0, 1))
    (tmp_path / "kineto_trace_0.json").symlink_to("profile_trace/rank0_trace.json")

    discovery = discover(tmp_path)

    assert repeated(discovery) == {
        "kineto_trace_0.json": "profile_trace/rank0_trace.json",
        "profile_trace/rank0_trace.json": None,
    }
    link = by_path(discovery)["kineto_trace_0.json"]
    assert (link.kind, link.rank) == ("kineto", 0)
    assert link.real_path == str((tmp_path / "profile_trace" / "rank0_trace.json").resolve())
    assert used(discovery) == ["profile_trace/rank0_trace.json"]
    assert discovery.notes[0].message == (
        "the same trace under two names counts once: "
        "kineto_trace_0.json is profile_trace/rank0_trace.json"
    )


def test_a_symlink_that_was_stored_as_text(tmp_path: Path) -> None:
    put(tmp_path, "profile_trace/rank0_trace.json", trace_text(0, 1))
    put(tmp_path, "kineto_trace_0.json", "profile_trace/rank0_trace.json")
    put(tmp_path, "torch_et_0.json", "profile_trace/absent.json\n")

    discovery = discover(tmp_path)

    assert repeated(discovery)["kineto_trace_0.json"] == "profile_trace/rank0_trace.json"
    assert used(discovery) == ["profile_trace/rank0_trace.json"]
    absent = by_path(discovery)["torch_et_0.json"]
    assert absent.problem == (
        "a symlink stored as text; profile_trace/absent.json is not among the files here"
    )


def test_a_stored_symlink_opened_by_itself_opens_its_target(tmp_path: Path) -> None:
    put(tmp_path, "job/profile_trace/rank3_trace.json", trace_text(3, 4))
    link = put(tmp_path, "job/kineto_trace_3.json", "profile_trace/rank3_trace.json")
    outside = put(tmp_path, "job/profile_trace/up.json", "../../secret.json")
    put(tmp_path, "secret.json", trace_text(7, 8))

    (found,) = discover(link).files
    assert (found.path, found.kind, found.rank) == ("kineto_trace_3.json", "kineto", 3)
    assert found.real_path.endswith("rank3_trace.json")

    (refused,) = discover(outside).files
    assert (refused.kind, refused.rank) == ("unknown", None)


def test_stored_symlinks_in_a_circle(tmp_path: Path) -> None:
    put(tmp_path, "a.json", "b.json")
    put(tmp_path, "b.json", "a.json")
    put(tmp_path, "itself.json", "itself.json")
    put(tmp_path, "real.json", trace_text(0, 1))
    put(tmp_path, "chain1.json", "chain2.json")
    put(tmp_path, "chain2.json", "real.json")

    discovery = discover(tmp_path)

    assert {path: found.duplicate_of for path, found in by_path(discovery).items()} == {
        "a.json": None,
        "b.json": None,
        "chain1.json": "real.json",
        "chain2.json": "real.json",
        "itself.json": None,
        "real.json": None,
    }
    assert used(discovery) == ["real.json"]


def test_many_repetitions_are_one_note(tmp_path: Path) -> None:
    for rank in range(9):
        put(tmp_path, f"t/rank{rank}.json", trace_text(rank, 9))
        (tmp_path / f"kineto_trace_{rank}.json").symlink_to(f"t/rank{rank}.json")

    (note,) = discover(tmp_path).notes

    assert (note.code, note.count) == ("duplicate_file", 9)
    assert note.message.endswith("kineto_trace_3.json is t/rank3.json and 5 more")


def test_hard_links_are_one_file(tmp_path: Path) -> None:
    file = put(tmp_path, "a/rank0.json", trace_text(0, 1))
    os.link(file, tmp_path / "rank0.json")

    discovery = discover(tmp_path)

    assert len(used(discovery)) == 1
    assert codes(discovery) == ["duplicate_file"]


def test_plain_and_compressed_of_one_content(tmp_path: Path) -> None:
    put(tmp_path, "rank0.json", trace_text(0, 2))
    put(tmp_path, "rank0.json.gz", trace_text(0, 2))
    put(tmp_path, "rank1.json.gz", trace_text(1, 2))

    discovery = discover(tmp_path)

    assert repeated(discovery) == {
        "rank0.json": None,
        "rank0.json.gz": "rank0.json",
        "rank1.json.gz": None,
    }
    assert codes(discovery) == ["duplicate_file"]


def test_plain_and_compressed_that_differ_are_a_conflict(tmp_path: Path) -> None:
    put(tmp_path, "rank0.json", trace_text(0, 1))
    put(tmp_path, "rank0.json.gz", trace_text(0, 1, ts=2))

    discovery = discover(tmp_path)

    assert used(discovery) == ["rank0.json", "rank0.json.gz"]
    assert codes(discovery) == ["rank_conflict"]


def test_equal_beginnings_alone_make_no_duplicate(tmp_path: Path) -> None:
    same = b'{"traceEvents":[' + b'{"ph":"X","name":"a"},' * 5000
    put(tmp_path, "a.json", same + b'{"ph":"X","name":"b"}],"distributedInfo":{"rank":0}}')
    put(tmp_path, "b.json", same + b'{"ph":"X","name":"c"}],"distributedInfo":{"rank":1}}')
    put(tmp_path, "c.json", same + b'{"ph":"X","name":"cc"}],"distributedInfo":{"rank":2}}')

    discovery = discover(tmp_path)

    assert [(f.rank, f.duplicate_of) for f in discovery.files] == [(0, None), (1, None), (2, None)]


def test_a_copy_beside_an_iteration_belongs_to_the_iteration(tmp_path: Path) -> None:
    put(tmp_path, "kineto_trace_0.json", trace_text(0, 1))
    put(tmp_path, "profile_trace/iteration_20/rank0_trace.json.gz", trace_text(0, 1))

    discovery = discover(tmp_path)

    assert [(c.name, len(c.files)) for c in discovery.captures] == [("iteration_20", 1)]
    copy = by_path(discovery)["kineto_trace_0.json"]
    assert copy.duplicate_of == "profile_trace/iteration_20/rank0_trace.json.gz"


def test_damaged_copies_are_not_called_equal(tmp_path: Path) -> None:
    whole = gzip.compress(trace_text(0, 2) + b" " * 100)
    (tmp_path / "a.json.gz").write_bytes(whole[:-10])
    (tmp_path / "b.json.gz").write_bytes(whole[:-10])

    assert codes(discover(tmp_path)) == ["rank_conflict"]


def test_a_linked_folder_counts_once(tmp_path: Path) -> None:
    put(tmp_path, "zz_real/rank0.json", trace_text(0, 1))
    (tmp_path / "aa_link").symlink_to("zz_real")

    discovery = discover(tmp_path)

    assert repeated(discovery) == {"zz_real/rank0.json": None}
    assert [(n.code, n.message) for n in discovery.notes] == [
        ("linked_folder", "aa_link: the same folder as zz_real")
    ]


def test_a_folder_elsewhere_is_followed(tmp_path: Path) -> None:
    put(tmp_path, "scratch/traces/rank0.json", trace_text(0, 1))
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "traces").symlink_to(tmp_path / "scratch" / "traces")

    discovery = discover(tmp_path / "job")

    assert used(discovery) == ["traces/rank0.json"]
    assert discovery.captures[0].complete
