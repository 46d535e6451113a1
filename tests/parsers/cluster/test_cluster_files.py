"""NCCL's logs and XML, ibstat, nvidia-smi topo -m, nccl-tests: as printed, and hostile."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ccltui.parsers.cluster.machine_files import (
    read_gpu_topology,
    read_ib_status,
    read_nccl_topology,
)
from ccltui.parsers.cluster.nccl_log import read_nccl_log
from ccltui.parsers.cluster.nccl_tests import read_nccl_tests
from ccltui.parsers.errors import TraceError

LOG = """\
some other output
n1:147:147 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0
n1:147:147 [0] NCCL INFO NCCL version 2.26.2+cuda12.8
n1:147:211 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.1.9<0>
n1:147:211 [0] NCCL INFO Using network IB
n1:147:205 [0] NCCL INFO ncclCommInitRank comm 0x55f0 rank 0 nranks 16 cudaDev 0 busId 2d000 \
commId 0xc51 - Init START
n1:147:205 [0] NCCL INFO Channel 00/02 :    0   1   2   3
n1:147:205 [0] NCCL INFO Channel 01/02 :    0   3   2   1
n1:147:205 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1
n1:147:205 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer/read
n1:147:205 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/direct pointer/read
n1:147:205 [0] NCCL INFO Channel 00/0 : 3[3] -> 8[0] [send] via NET/IB/0/GDRDMA
n1:147:205 [0] NCCL INFO Channel 00 : 2[2] -> 3[3] via SHM/direct/direct
n1:147:205 [0] NCCL INFO 24 coll channels, 16 collnet channels, 0 nvls channels, 32 p2p channels
n1:147:205 [0] NCCL INFO ncclCommInitRank comm 0x55f0 rank 0 nranks 16 cudaDev 0 busId 2d000 \
commId 0xc51 - Init COMPLETE
n1:147:205 [0] misc/socket.cc:58 NCCL WARN Connection closed by remote peer n2<123>
n1:147:205 [0] misc/socket.cc:58 NCCL WARN Connection closed by remote peer n2<456>
[rank0]: n2:9:9 [1] NCCL WARN Call failed \x1b[31m!\x1b[0m
"""


def put(root: Path, text: str | bytes) -> Path:
    path = root / "file"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_what_nccl_chose(tmp_path: Path) -> None:
    log = read_nccl_log(put(tmp_path, LOG), shown="n.log")

    assert (log.version, log.cuda, log.networks) == ("2.26.2", "cuda12.8", ("IB",))
    assert log.cards == ("mlx5_0:1/IB", "mlx5_1:1/RoCE")
    assert (log.ranks, log.world_size, log.communicators, log.initialised) == ((0,), 16, 1, 1)
    assert (log.coll_channels, log.p2p_channels, log.rings, log.trees) == (24, 32, 2, 2)
    # a link on two channels is one link
    assert log.transports == {"NET/IB/GDRDMA": 1, "P2P": 1, "SHM": 1}
    assert log.gpu_direct is True


def test_addresses_that_somebody_replaced(tmp_path: Path) -> None:
    text = LOG.replace("0x55f0", "<PTR>").replace("0xc51", "[hidden]")

    log = read_nccl_log(put(tmp_path, text), shown="n.log")

    assert (log.ranks, log.world_size, log.communicators, log.initialised) == ((0,), 16, 1, 1)
    assert log.environment == {"NCCL_SOCKET_IFNAME": "eth0"}
    assert log.hosts == ("n1", "n2")


def test_warnings_that_differ_in_numbers_are_one(tmp_path: Path) -> None:
    log = read_nccl_log(put(tmp_path, LOG), shown="n.log")

    first, second = log.warnings
    assert (first.text, first.count, first.line, first.host) == (
        *("Connection closed by remote peer n2<123>", 2),
        *(16, "n1"),
    )
    assert (second.text, second.count, second.line) == ("Call failed !", 1, 18)


def test_a_log_without_nccl_is_an_empty_one(tmp_path: Path) -> None:
    log = read_nccl_log(put(tmp_path, "hello\n"), shown="n.log")

    assert (log.lines, log.version, log.warnings, log.gpu_direct) == (0, "", (), None)


XML = """\
<system version="1">
  <cpu numaid="0"><pci busid="0000:5e:00.0"><pci busid="0000:60:00.0"><nic>
      <net name="mlx5_0" dev="0" speed="100000" port="1" gdr="0"/></nic></pci>
    <pci busid="0000:61:00.0"><gpu dev="0" sm="70" rank="0" gdr="1">
      <nvlink target="0000:62:00.0" count="2"/><nvlink target="0000:89:00.0" count="1"/>
      <nvlink target="0000:62:00.0" count="1"/></gpu></pci></pci></cpu>
  <cpu numaid="1"><pci busid="0000:8a:00.0"><gpu dev="3" sm="70" rank="3"/></pci></cpu>
</system>
"""


def test_the_topology_of_a_host(tmp_path: Path) -> None:
    found = read_nccl_topology(put(tmp_path, XML), shown="t.xml")

    first, second = found.gpus
    assert (found.version, found.cpus) == ("1", 2)
    assert (first.bus, first.rank, first.numa, first.gpu_direct) == ("0000:61:00.0", 0, "0", True)
    assert first.nvlinks == {"0000:62:00.0": 3, "0000:89:00.0": 1}
    assert (second.device, second.bus, second.nvlinks) == (3, "0000:8a:00.0", {})
    (nic,) = found.nics
    assert (nic.name, nic.speed_gbps, nic.gpu_direct) == ("mlx5_0", 100.0, False)


LAUGHS = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f'<!DOCTYPE s [<!ENTITY l0 "lol">{LAUGHS}]>\n<system>&l9;</system>',
            "t.xml:1: declares a document type",
        ),
        (
            '<?xml version="1.0"?>\n<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
            "<system>&x;</system>",
            "t.xml:2: declares a document type",
        ),
        ('<!DOCTYPE s SYSTEM "http://x/y"><system/>', "t.xml:1: declares a document type"),
        ("<system>&x;</system>", "t.xml:1:9: not valid XML: undefined entity"),
        ("<system><cpu></system>", "t.xml:1:16: not valid XML: mismatched tag"),
        ("<graphs/>", "t.xml:1: its outermost element is graphs, not system"),
        ("", "t.xml:1:1: not valid XML: no element found"),
        (b"\x00\x01\xff", "t.xml:1:1: not valid XML"),
        ("<system>" + "<pci>" * 200, "nested too deeply"),
        ("<system>" + "<a/>" * 200_001, "more than 200,000 elements"),
        (
            '<?xml version="1.0" encoding="klingon"?><system/>',
            "t.xml: not valid XML: its encoding is not known",
        ),
        ("<system>" + " " * (1 << 24), "larger than 16,777,216 bytes"),
    ],
    ids=range(12),
)
def test_hostile_xml_is_one_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_nccl_topology(put(tmp_path, text), shown="t.xml")

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ports_of_two_cards(tmp_path: Path) -> None:
    text = (
        "CA 'mlx5_0'\n\tCA type: MT4119\n\tNumber of ports: 1\n\tFirmware version: 16.35\n"
        "\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 100\n"
        "\t\tLink layer: InfiniBand\n"
        "CA 'mlx5_1'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Polling\n\t\tRate: 2.5\n"
    )

    first, second = read_ib_status(put(tmp_path, text), shown="ib")

    assert (first.card, first.card_type, first.rate_gbps, first.is_up) == (
        *("mlx5_0", "MT4119"),
        *(100.0, True),
    )
    assert (second.card, second.rate_gbps, second.is_up) == ("mlx5_1", 2.5, False)
    assert (first.link_layer, first.firmware) == ("InfiniBand", "16.35")


MATRIX = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV2\tPIX\t0-7\t0\t\tN/A\n"
    "GPU1\tNV2\t X \tSYS\t20-27\t1\t\tN/A\n"
    "NIC0\tPIX\tSYS\t X \t\t\t\t\n\n"
    "Legend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)


def test_the_matrix_with_its_escapes(tmp_path: Path) -> None:
    found = read_gpu_topology(put(tmp_path, MATRIX), shown="topo.txt")

    assert (found.nodes, found.gpus) == (("GPU0", "GPU1", "NIC0"), ("GPU0", "GPU1"))
    assert found.links["GPU1"] == {"GPU0": "NV2", "GPU1": "X", "NIC0": "SYS"}
    assert found.nearest_nics("GPU0") == (("mlx5_0", "PIX"),)
    assert found.nearest_nics("GPU9") == ()


TESTS = """\
# nccl-tests version 2.17.6 nccl-headers=22501 nccl-library=22501
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 1024 maxBytes 4096
# Using devices
#  Rank  0 Group  0 Pid  97166 on host1 device  0 [0000:f9:05] NVIDIA H200
#  Rank  1 Group  0 Pid  97166 on host2 device  1 [0000:fb:05] NVIDIA H200
host1:1:1 [0] NCCL INFO Channel 00/1 : 0[0] -> 1[1] via P2P
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)
        1024           256     float     sum      -1    23.62    0.04    0.06       0    25.85    0\
.03    0.05     N/A
        4096          1024     float     sum      -1    24.00    0.17    0.26       3    23.00    0\
.18    0.27       1
# Out of bounds values : 4 FAILED
# Avg bus bandwidth    : 0.16
"""


def test_tables_of_nccl_tests(tmp_path: Path) -> None:
    (found,) = read_nccl_tests(put(tmp_path, TESTS), shown="t")

    assert (found.collective, found.ranks, found.hosts) == ("all_reduce", 2, ("host1", "host2"))
    assert (found.nccl_version, found.device_names) == ("2.25.1", ("NVIDIA H200",))
    assert found.size_bytes.tolist() == [1024, 4096]
    assert found.out_busbw.tolist() == [0.06, 0.26]
    assert found.in_busbw.tolist() == [0.05, 0.27]
    assert found.wrong.tolist() == [0, 4]
    assert (found.out_of_bounds, found.average_busbw) == (4, 0.16)


def test_older_tables_without_a_root(tmp_path: Path) -> None:
    text = (
        "$ ./build/alltoall_perf -b 8\n"
        "#       size         count      type   redop     time   algbw   busbw  error     time\n"
        "           8             1     float            30.10    0.00    0.00  0e+00    29.9"
        "    0.00    0.00    N/A\n"
        "garbage line\n        16   2  float   x\n"
    )

    (found,) = read_nccl_tests(put(tmp_path, text), shown="t")

    assert (found.collective, len(found), found.ranks) == ("alltoall", 1, None)
    assert found.out_time_us.tolist() == [30.10]


def test_two_tests_in_a_file_and_one_that_failed(tmp_path: Path) -> None:
    failed = (
        "# nccl-tests version 2.19.7 nccl-headers=21803 nccl-library=21803\n"
        "# Collective test starting: reduce_scatter_perf\n"
        "#       size         count      type   redop    root     time   algbw   busbw\n"
        "h: Test CUDA failure common.cu:502 'an illegal memory access was encountered'\n"
    )

    first, second = read_nccl_tests(put(tmp_path, TESTS + failed), shown="t")

    assert (first.collective, second.collective) == ("all_reduce", "reduce_scatter")
    assert len(second) == 0
    assert second.problem.startswith("Test CUDA failure")


READERS: list[Callable[..., Any]] = [
    read_nccl_log,
    read_nccl_topology,
    read_ib_status,
    read_gpu_topology,
    read_nccl_tests,
]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
@pytest.mark.parametrize("text", [LOG, XML, MATRIX, TESTS])
def test_cuts_and_garbage_give_an_answer_or_one_line(
    tmp_path: Path, reader: Callable[..., Any], text: str
) -> None:
    chance = random.Random(f"{reader.__name__}{len(text)}")
    for _ in range(12):
        data = bytearray(text.encode()[: chance.randrange(len(text))])
        for _ in range(chance.randrange(6)):
            data[chance.randrange(len(data) or 1) : 1] = bytes([chance.randrange(256)])
        said = what_it_says(reader, put(tmp_path, bytes(data)))
        assert not said or (said.startswith("file") and "\n" not in said)


def what_it_says(reader: Callable[..., Any], path: Path) -> str:
    """The one line of a file that is refused, "" of one that is read."""
    try:
        reader(path, shown="file")
    except TraceError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "line",
    [
        "# nccl-tests version 2 nccl-library={big}",
        "#  Rank {big} Group 0 Pid 1 on host device  0 [0x1] A100",
        "# Out of bounds values : {big} OK",
        "# Avg bus bandwidth    : {big}",
        "# Avg bus bandwidth    : 1.2.3",
    ],
)
def test_a_number_of_thousands_of_digits_is_not_read(tmp_path: Path, line: str) -> None:
    text = TESTS + line.replace("{big}", "1" * 5000) + "\n"

    assert read_nccl_tests(put(tmp_path, text), shown="t")[0].collective


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        4096          1024", "        " + "9" * 400 + " 1024"),
        ("        4096          1024", "        18446744073709551616 1024"),
        ("        4096          1024", "        ² 1024"),
    ],
)
def test_sizes_that_are_no_integers_of_64_bits(tmp_path: Path, old: str, new: str) -> None:
    (found,) = read_nccl_tests(put(tmp_path, TESTS.replace(old, new)), shown="t")

    assert found.size_bytes.tolist() == [1024]


@pytest.mark.parametrize("printed", ["1e300", "inf", "-7", "9" * 400])
def test_counts_of_wrong_values_that_are_none(tmp_path: Path, printed: str) -> None:
    text = TESTS.replace("0.26       3", f"0.26       {printed}")

    (found,) = read_nccl_tests(put(tmp_path, text), shown="t")

    assert found.wrong.tolist() == [0, 1]
