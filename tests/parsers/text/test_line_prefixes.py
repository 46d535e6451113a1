"""Prefixes of launchers and loggers: taken off where they are, nothing else ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.parsers.text.compression import Head
from ccltui.parsers.text.file_sample import FileSample
from ccltui.parsers.text.line_prefixes import Prefixes, plain_text

BODY = [
    "# a comment",
    "  1024   256  float",
    "#",
    "",
    "word: value",
    "[E1218 20:27:21.4 P.cpp:629] x",
]

RANKED = {
    "{0}: ": 3,
    "  {0}: ": 3,
    "[1,{0}]<stdout>:": 3,
    "[1,{0}]<stderr>:": 3,
    "[prterun-node-7-123@1,{0}]<stdout>: ": 3,
    "[prterun-a-1@1,{0}][node:77]<stdout>: ": 3,
    "Tue Oct 28 12:00:01 2025[1,{0}]<stdout>:": 3,
    "2025-10-28T12:00:01.123456789Z [1,{0}]<stdout>:": 3,
    "(Worker[rank={0}] pid=12, ip=10.0.0.1) ": 3,
    "[rank{0}]: ": 3,
    "[default1]: [rank{0}]: ": 3,
    "2025-10-28T12:00:01+02:00 {0}: ": 3,
    "[{0}] ": 3,
    "llama3_8b/{0} ": 3,
    "{0}: 2025-10-28 12:00:01,123 INFO: ": 3,
    "2025-10-28 12:00:01 {0}: ": 3,
    "2025-10-28T12:00:01.5Z [rank{0}]: ": 3,
    "  {0}: [2025-10-28 12:00:01,123] [INFO] ": 3,
}
RANKLESS = (
    "2025-10-28T12:00:01.123456789Z ",
    "2025-10-28T12:00:01+01:00 ",
    "[pod/job-0/main] ",
    "trainer-1  | ",
    "[default3]: ",
    "(EngineCore_DP0 pid=99) ",
    "nodea: ",
    "Oct 28 12:00:01 nodea python[123]: ",
    "[2026-02-02 10:00:00,001] [INFO] [logging.py:96:log_dist] ",
    "[2026-02-02 10:00:00,001] [INFO] [utils.py] ",
    "2026-02-02 10:00:00,001 - train - INFO - ",
    "INFO 10-28 12:00:01 engine.py:12] ",
    "[2025-10-17T11:32:59+08:00] ",
    "[2025-10-17 11:32:59] [WARNING] ",
    "2025-10-17 11:32:59 ",
    "2025-10-17 11:32:59,123 INFO ",
    "2025-10-17T11:32:59 WARNING: ",
    "[NeMo I 2024-06-17 08:36:41 nlp_overrides:480] ",
    "[NeMo W 2024-06-17 08:36:41 rank12 exp_manager.py:7] ",
    "I0102 12:34:56.789012 139 max_logging.py:123] ",
    "W0102 12:34:56.789012   139 a/b.cc:1] ",
)


@pytest.mark.parametrize("prefix", [*RANKED, *RANKLESS])
def test_a_prefix_of_every_line_is_taken_off(prefix: str) -> None:
    tag = prefix.format(3)
    text = "\n".join(tag + line for line in BODY * 2)
    prefixes = Prefixes(text)

    assert plain_text(text) == "\n".join(BODY * 2)
    assert list(prefixes.lines(text)) == [(tag, line) for line in BODY * 2]
    assert {prefixes.rank(tag) for tag, _ in prefixes.lines(text)} == {RANKED.get(prefix)}


def test_lines_of_a_script_around_it_stay_as_they_are() -> None:
    text = "+ srun -l ./x\nloading modules\n" + "\n".join(
        f"{n % 4}: {line}" for n, line in enumerate(BODY)
    )

    assert plain_text(text) == "\n".join(["+ srun -l ./x", "loading modules", *BODY])


@pytest.mark.parametrize(
    "text",
    [
        "key: value\nother: value\nthird: 3\nfourth: 4\nfifth: 5",
        "INFO: a\nINFO: b\nINFO: c\nINFO: d\nINFO: e",
        "12: a line of grep\nwords\nmore words\nand more\n",
        "name | value\nother | value\nthird | value\n",
        "GPU0\t X \tNV2\tPIX\nGPU1\tNV2\t X \tSYS",
        "1024 256 float sum\n2048 512 float sum\n4096 1024 float sum\n",
        "\n\n\n",
        "",
        "step 1/10 done\nstep 2/10 done\nstep 3/10 done\nstep 4/10 done\nstep 5/10 done",
        "I1234 is no date\nW0102 is none\nE9999 neither\n",
        "2025-10-17 11:32:59 a table\nb\nc\nd\n",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert plain_text(text) == text
    assert [line for _, line in Prefixes(text).lines(text)] == text.split("\n")


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        ("[1,0]<stdout>:", "[1,0]<stderr>:", "[1,1]<stdout>:"),
        (
            "2025-10-28T12:00:01Z [1,0]<stdout>:",
            "2025-10-28T13:30:00Z [1,0]<stdout>:",
            "2025-10-28T12:00:01Z [2,0]<stdout>:",
        ),
        (
            "[2026-02-02 10:00:00,001] [INFO] [a.py:1:f] ",
            "[2026-02-03 11:00:00,001] [ERROR] [b.py:2:g] ",
            "[pod/x/y] ",
        ),
    ],
)
def test_the_process_that_wrote_a_line(one: str, same: str, other: str) -> None:
    prefixes = Prefixes("")

    assert prefixes.source(one) == prefixes.source(same) != prefixes.source(other)


@pytest.mark.parametrize(
    ("text", "is_json"),
    [
        ("[rank0]: Traceback", False),
        ("[rank0]:[E1218 20:27:21.4 ProcessGroupNCCL.cpp:629] [Rank 0] x", False),
        ("[2026-02-02 10:00:00,001] [INFO] [logging.py:96] step=10", False),
        ("[1,0]<stdout>:# nccl-tests", False),
        ("[0] NCCL version 2", False),
        ("[INFO] x", False),
        ("[titan] x", False),
        ("{'loss': 0.5, 'epoch': 0.1}", False),
        ("[1, 2, 3]", True),
        ("[1, 2, 3]\n\n", True),
        ("[-1.5e3,", True),
        ("[true, null]", True),
        ('["a"', True),
        ("[", True),
        ("[ ]", True),
        ("[{", True),
        ("[[0", True),
        ("{", True),
        ('  {"a": 1}', True),
        ("{}", True),
    ],
)
def test_what_opens_a_json_document(text: str, is_json: bool) -> None:
    head = Head(text.encode(), whole=True, compression="none", error=None)

    assert FileSample.of("x.log", "x.log", head).looks_like_json == is_json


def test_a_hostile_text_takes_no_time(tmp_path: Path) -> None:
    for line in (
        "[" * 400,
        "(" * 400,
        "1" * 400,
        "a" * 400 + " " * 400,
        "[1," * 200,
        "Mon " * 90,
        "a/" * 200,
        "[NeMo I " * 50,
        "I0102 " * 60,
    ):
        text = f"{line}\n" * 200
        assert plain_text(text) == text


def test_a_word_before_a_colon_on_every_line_is_no_host() -> None:
    """The lines of a trainer: taken for hosts, its log was no log any more."""
    steps = "".join(f"step: {n}  loss: 5.5  tps: 93\n" for n in range(20))
    hosts = "".join(f"gn-0{n % 2}: step: {n}  loss: 5.5\n" for n in range(20))

    assert plain_text(steps) == steps
    assert plain_text(hosts).startswith("step: 0  loss: 5.5\nstep: 1 ")
