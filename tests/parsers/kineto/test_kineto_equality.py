"""Compare the compiled scanner with the general decoder on hostile texts and mutants."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from kineto_fuzz import difference, run

from ccltui.parsers.kineto.scanner import typed_event

pytestmark = pytest.mark.skipif(
    not typed_event.compiled(), reason="the scanner is not compiled here"
)

PLAIN = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1}'


def event(**parts: str) -> str:
    """Return PLAIN with some members replaced; "" omits a member."""
    members = {
        "ph": '"X"',
        "cat": '"kernel"',
        "name": '"k"',
        "pid": "0",
        "tid": "7",
        "ts": "1",
        "dur": "1",
    }
    members.update({name.rstrip("_"): text for name, text in parts.items()})
    return "{" + ",".join(f'"{k}":{v}' for k, v in members.items() if v) + "}"


NUMBERS = [
    *("0", "-0", "00", "01", "-", "+1", "--1", "1.", ".5", "1.5", "-1.5", "1.0005", "-1.0005"),
    *("1e3", "1E+3", "1e-3", "1e", "1e+", "1.5e2", "0.0004999", "0.00049999999999", "1e5.5"),
    *("2305843009213692", "2305843009213693", "2305843009213693.952", "-2305843009213693.951"),
    *("9223372036854775807", "9223372036854775808", "18446744073709551615", "123456789012345678"),
    *("1234567890123456789", "99999999999999999999999", "0x10", "1_000", "Infinity", "NaN", "1 2"),
    *("null", "true", "false", '"5"', '"5.5"', '"x"', "[]", "{}", "tru", "nul", '"1e3"'),
]
TEXTS = [
    *('"a"', '""', '"\\u0061"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00"', '"a\\"b"', '"\\\\"'),
    *('"\\x"', '"\\u12"', '"\\u12g4"', '"tab\there"', '"nul\x00"', '"\x7f"', '"käse"', '"😀"'),
    *("null", "5", "1.5", "true", "[]", "{}", '{"a":1}', "'single'"),
]
UNENDED = ['"unended', '"cut\\']
"""What swallows the members and events behind it."""

ARGUMENTS = (
    *("correlation", "External id", "device", "bytes", "other"),
    *("grid", "blocks per SM", "est. achieved occupancy %", "Record function id"),
)


def events(members: Iterable[str], text: str) -> str:
    """Return an event for each of the members or arguments that has this text, PLAIN between."""
    odd = (
        event(args=f'{{"{name}":{text},"stream":3}}')
        if name in ARGUMENTS
        else event(**{name: text})
        for name in members
    )
    return f",{PLAIN},".join(odd)


CORPUS = {
    **{f"numbers {text}": events(("ts", "dur", "pid"), text) for text in NUMBERS},
    **{f"texts {text}": events(("name", "cat", "ph", "tid"), text) for text in TEXTS},
    **{
        f"arguments {text}": events(ARGUMENTS, text)
        for text in (*NUMBERS, '"\\ud83d"', '"käse"', '{"a":{"b":[1,{}]}}', "[1,]", "[,1]", '{"a"}')
    },
    **{
        f"{name}={text}": event(**{name: text})
        for name in ("name", "cat", "ph", "tid")
        for text in UNENDED
    },
    "args null": event(args="null"),
    "args list": event(args="[1,2]"),
    "args text": event(args='"x"'),
    "args empty": event(args="{}"),
    "args twice": event(args='{"stream":1}')[:-1] + ',"args":{"device":2}}',
    "args key twice": event(args='{"correlation":1,"correlation":2}'),
    "name twice": event()[:-1] + ',"name":"second"}',
    "key with escapes": event().replace('"ph"', '"\\u0070h"'),
    "key of high bytes": event()[:-1] + ',"ké":1}',
    "empty object": "{}",
    "only blanks": "{ }",
    "no phase": event(ph=""),
    "no times": event(ts="", dur=""),
    "long phase": event(ph='"XY"'),
    "trailing comma in args": event(args='{"a":1,}'),
    "trailing comma": event()[:-1] + ",}",
    "no comma": event().replace(',"cat"', ' "cat"'),
    "colon missing": event().replace('"cat":', '"cat"'),
    "unknown members": event()[:-1] + ',"id":5,"bp":"e","s":[{"x":[[]]}],"z":{"y":{}}}',
    "deep": event(args='{"x":' + "[" * 127 + "]" * 127 + "}"),
    "deeper": event(args='{"x":' + "[" * 1500 + "]" * 1500 + "}"),
    "deeper than any stack": event(args='{"x":' + "[" * 200_000 + "]" * 200_000 + "}"),
    "mismatched": event(args='{"x":[1}'),
    "vertical tab": event().replace(",", ",\x0b", 1),
    "vertical tab between events": "\x0b" + event()[1:],
    "carriage returns": event().replace(",", "\r\n,\t ", 3),
    "collective without name": event(args='{"In msg nelems":8}'),
    "collective of null": event(args='{"Collective name":null,"In msg nelems":null}'),
    "operator with shapes": event(
        cat='"cpu_op"', name='"c10d::send"', args='{"Input Dims":[[3]],"Input type":["float"]}'
    ),
    **{
        f"product with shapes {text}": event(
            cat=f'"{cat}"', name='"aten::addmm"', args=f'{{"Input Dims":{text}}}'
        )
        for cat in ("cpu_op", "user_annotation")
        for text in (
            "[[4,2],[2,8]]",
            "[[4, 2],\n [2, 8]]",
            "null",
            '"x"',
            '"\\u0041"',
            "[" + "1," * 300 + "1]",
        )
    },
    **{
        f"{name} with types {text}": event(
            cat='"cpu_op"',
            name=f'"{name}"',
            args=f'{{"Concrete Inputs":{values},"Input type":{text},"Input Dims":[[4,2,1,1]]}}',
        )
        for name in ("aten::mm", "aten::addmm", "aten::convolution", "aten::add")
        for text in ('["float"]', '["c10::Half", ""]', "null", '"\\u0041"')
        for values in ('["","1"]', '["[1, 1]", "\\"x"]')
    },
    "types without shapes": event(
        cat='"cpu_op"', name='"aten::mm"', args='{"Input type":["float"]}'
    ),
    **{
        f"operator numbered {text}": event(
            cat='"cpu_op"',
            name='"c10d::allreduce_"',
            args=f'{{"Input Dims":[[3]],"Input type":["float"],"Record function id":{text}}}',
        )
        for text in ("0", "7", "-5", "null", '"7"', "1.5", "4611686018427387904", "true")
    },
    "shapes without args": event(cat='"cpu_op"', name='"c10d::send"'),
    "python frame like a collective": event(cat='"python_function"', name='"nccl:x"', args="{}"),
    "metadata": event(ph='"M"', name='"thread_name"', args='{"name":"t"}'),
    "metadata of an odd process": event(
        ph='"M"', name='"process_name"', pid='"0"', args='{"name":"p"}'
    ),
    "instant": event(ph='"i"', ts="x"),
    "counter": event(ph='"C"', dur="", args='{"v":1.5}'),
    "begin and end": event(ph='"B"', dur="") + "," + event(ph='"E"', ts="9", dur=""),
    "end first": event(ph='"E"', dur=""),
    "byte order mark": "\ufeff" + event(),
    "not an object": '"text"',
    "list in list": "[[{}]]",
}


def test_the_corpus_is_large() -> None:
    assert len(CORPUS) >= 180


@pytest.mark.parametrize("name", CORPUS)
def test_hostile_texts_are_read_equally(tmp_path: Path, name: str) -> None:
    odd = CORPUS[name]
    path = tmp_path / "trace.json"
    # one byte ends a piece at every place; an event fills about two pieces of 64
    for text, sizes in (
        (f"[{PLAIN},{odd},{PLAIN}]", (1, 64)),
        (f'{{"traceEvents":[{odd}],"distributedInfo":{{"rank":1}}}}', (64,)),
        (f"[{PLAIN} , {odd}", (1,)),
    ):
        path.unlink(missing_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        assert difference(path, *(sizes if len(text) < 5000 else (4096,))) is None


@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\x80"]
)
@pytest.mark.parametrize("place", ["name", "cat", "tid", "pid", "dtype", "other"])
def test_broken_utf8_is_read_equally(tmp_path: Path, bad: bytes, place: str) -> None:
    if place in ("dtype", "other"):
        text = event(args=f'{{"{place}":"a@"}}')
    else:
        text = event(**{place: '"a@"'})
    path = tmp_path / "trace.json"
    path.write_bytes(f"[{PLAIN},{text},{PLAIN}]".encode().replace(b"@", bad))

    assert difference(path, 1, 64) is None


@pytest.mark.parametrize("seed", range(4))
def test_mutants_are_read_equally(tmp_path: Path, seed: int) -> None:
    """A few of each seed; ``make fuzz-nightly`` reads two hundred thousand."""
    assert run(250, seed, tmp_path) == []
