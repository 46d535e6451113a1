"""Records of NCCL Inspector, as lines and as metrics of Prometheus."""

from __future__ import annotations

from pathlib import Path

import pytest
from inspector_lines import START_US, call, line, write_job

from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.view.job_view import View
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError
from ccltui.parsers.inspector import NCCL_INSPECTOR, NCCL_INSPECTOR_PROM, read_records
from ccltui.parsers.inspector.read_records import LONGEST_LINE, read_inspector, read_prometheus
from ccltui.parsers.inspector.record_columns import Communicator, InspectorFile, Records, Series
from ccltui.parsers.job import open_job

WORLD = Communicator("0x6f3a91c27d5e08", "default_pg", 8, 2)


def one(number: int, exec_us: int = 900) -> str:
    return line(3, call("AllReduce", number, 4096, exec_us), second=number)


def read(folder: Path, text: str | bytes) -> InspectorFile:
    path = folder / "node-a-pid1.log"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_inspector(path, shown="a.log")


def test_every_field_of_a_record(tmp_path: Path) -> None:
    found = read(tmp_path, one(7, 901))

    facts = found.facts
    assert (facts.version, facts.host, facts.pid) == ("v4.0", "node-a", 40_003)
    assert facts.series == (Series(WORLD, 3, "AllReduce", "kernel_gpu", is_p2p=False),)
    records = found.records(0)
    assert (records.number[0], records.size[0], records.exec_us[0]) == (7, 4096, 901)
    assert records.written_us.tolist() == [START_US + 7_000_000]
    assert (facts.first_us, facts.last_us) == (START_US + 7_000_000, START_US + 7_000_000)
    assert (facts.num_records, facts.notes) == (1, ())


def test_a_job_is_recognised_by_its_first_line(tmp_path: Path) -> None:
    found = discover(write_job(tmp_path)).files

    assert len(found) == 8
    assert {file.format for file in found} == {NCCL_INSPECTOR}


def test_sends_are_series_of_their_own(tmp_path: Path) -> None:
    sent = {"p2p": "Send", "p2p_sn": 1, "p2p_peer": 4, "p2p_msg_size_bytes": 9,
            "p2p_exec_time_us": 5, "p2p_timing_source": "kernel_gpu"}  # fmt: skip
    found = read(tmp_path, one(1) + line(3, sent, kind="p2p_perf") + one(2))

    assert [series.is_p2p for series in found.facts.series] == [False, True]
    assert [len(found.records(series)) for series in (0, 1)] == [2, 1]


def test_dropped_records_that_the_writer_states(tmp_path: Path) -> None:
    stats = [line(3, {"coll_dropped_total": total}, kind="dump_stats") for total in (4, 11)]

    assert read(tmp_path, stats[0] + one(1) + stats[1]).facts.dropped == ((WORLD, 11),)


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (b"\x00\xff\xfe binary\n", "inspector_damaged"),
        (b'{"header":3}\n', "inspector_damaged"),
        (one(2).replace('"coll_sn":2', '"coll_sn":"2"').encode(), "inspector_damaged"),
        (one(2).replace('"coll_sn":2', '"coll_sn":-2').encode(), "inspector_damaged"),
        (one(2).replace('"coll_sn":2', '"coll_sn":' + "9" * 40).encode(), "inspector_damaged"),
        (one(2).replace('"rank":3', '"rank":9').encode(), "inspector_damaged"),
        (b"x" * (2 * LONGEST_LINE + 5) + b"\n", "inspector_long"),
    ],
)
def test_a_damaged_line_is_one_note_and_the_others_are_read(
    tmp_path: Path, damage: bytes, kind: str
) -> None:
    found = read(tmp_path, one(1).encode() + damage + one(3).encode())

    assert found.records(0).number.tolist() == [1, 3]
    assert [note.code for note in found.facts.notes] == [kind]
    assert "a.log: line 2: " in found.facts.notes[0].message


def test_damaged_lines_are_counted_in_one_note(tmp_path: Path) -> None:
    (note,) = read(tmp_path, one(1) + "{\n" * 5 + one(2)).facts.notes

    assert note.count == 5


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    found = read(tmp_path, one(1) + one(2)[:-20])

    assert found.records(0).number.tolist() == [1]
    assert [note.code for note in found.facts.notes] == ["inspector_cut"]
    assert "line 2" in found.facts.notes[0].message


def test_a_bandwidth_that_is_no_number_is_no_damage(tmp_path: Path) -> None:
    text = one(1) + one(2).replace('"coll_busbw_gbs":1.5', '"coll_busbw_gbs":-nan')
    found = read(tmp_path, text)

    assert found.records(0).number.tolist() == [1, 2]
    assert found.facts.notes == ()


def test_a_file_without_a_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="holds no record"):
        read(tmp_path, "nothing\n")


def test_lines_are_read_alike_with_and_without_compiled_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = mixed_lines()
    compiled = read(tmp_path, lines)
    monkeypatch.setenv("CCLTUI_ACCEL", "0")
    decoded = read(tmp_path, lines)

    assert compiled.facts == decoded.facts
    for series in range(len(decoded.facts.series)):
        for name in Records.__struct_fields__:
            mine, other = (getattr(f.records(series), name) for f in (compiled, decoded))
            assert mine.tolist() == other.tolist()


def mixed_lines() -> str:
    """Records of several series, and among them what the compiled scanner must not take."""
    found = [one(number) for number in range(1, 40)]
    sent = {"p2p": "Send", "p2p_sn": 1, "p2p_peer": 4, "p2p_msg_size_bytes": 9,
            "p2p_exec_time_us": 5, "p2p_timing_source": "kernel_gpu",
            "p2p_algobw_gbs": 1.5, "p2p_busbw_gbs": 1.5}  # fmt: skip
    found[5:5] = [line(3, {**sent, "p2p_sn": number}, kind="p2p_perf") for number in (1, 2, 3)]
    found[9:9] = [line(3, {"coll_dropped_total": 4}, kind="dump_stats")]
    found[12:12] = [
        one(90).replace('"coll_sn":90', '"coll_sn":090'),
        one(91).replace('"coll_sn":91', '"coll_sn":' + "9" * 18),
        one(92).replace('"coll_sn":92', '"coll_sn":' + "9" * 19),
        one(93, 1 << 31),
        one(94).replace(":1.5,", ":-0.5,"),
        one(95).replace(":1.5,", ":01.5,"),
        one(96).replace(":1.5,", ":nan,"),
        one(97).replace(":1.5,", ":15,"),
        one(98).replace("}}\n", "}} \n"),
        one(99).replace('"rank":3', '"rank":9'),
        one(100).replace('"pid":40003', '"pid":"_sn\\":7"'),
        "\n",
    ]
    return "".join(found)


def test_parts_are_joined_in_order_of_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_records, "PART_ROWS", 4)
    found = read(tmp_path, "".join(map(one, (1, 2, 3, 4, 9, 8, 7, 6, 5, 9, 10))))

    assert found.facts.num_parts == 3
    assert found.records(0).number.tolist() == list(range(1, 11))
    assert found.records(0).written_us.tolist() == [
        START_US + number * 1_000_000 for number in range(1, 11)
    ]


def text(gpu: int, rate: float) -> str:
    labels = (
        f'version="v5.1",slurm_job_id="4",node="n1",gpu="GPU{gpu}",comm_name="dp",n_nodes="2",'
        'nranks="8",collective="AllReduce",message_size="64-65MB",algo_proto="RING_SIMPLE"'
    )
    rates = f"nccl_bus_bandwidth_gbs{{{labels}}} {rate}\n"
    return rates + f"nccl_collective_exec_time_microseconds{{{labels}}} 1050.5\n"


def test_every_field_of_a_value(tmp_path: Path) -> None:
    (tmp_path / "a.prom").write_text(text(2, 111.8))
    found = read_prometheus(tmp_path / "a.prom", shown="a.prom")
    first = found.gauges[0]

    assert (first.name, first.value) == ("nccl_bus_bandwidth_gbs", 111.8)
    assert (first.node, first.gpu, first.communicator) == ("n1", "GPU2", "dp")
    assert (first.operation, first.size, first.n_ranks) == ("AllReduce", "64-65MB", "8")
    assert (len(found.gauges), found.unread) == (2, 0)


def test_damaged_lines_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.prom").write_text(text(0, 1) + 'nccl_x{a="} 1\nnccl_x{} --\n\n# HELP\n')

    assert read_prometheus(tmp_path / "a.prom", shown="a.prom").unread == 2


def test_a_file_without_a_value_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.prom").write_text("nothing\n")
    with pytest.raises(TraceError, match="holds no value"):
        read_prometheus(tmp_path / "a.prom", shown="a.prom")


def test_the_answer_states_how_far_devices_are_apart(tmp_path: Path) -> None:
    for gpu, rate in enumerate((110, 50, 112)):
        (tmp_path / f"nccl_inspector_metrics_{gpu}.prom").write_text(text(gpu, rate))
    assert {file.format for file in discover(tmp_path).files} == {NCCL_INSPECTOR_PROM}
    finding = answer_of(View(open_job(tmp_path))).findings[0]

    assert finding.text == (
        "AllReduce of 64-65MB in dp reaches 110 GB/s of bus bandwidth and takes 1.05 ms (50 to 112 "
        "by device) on 3 devices, at the last dump of NCCL Inspector."
    )
