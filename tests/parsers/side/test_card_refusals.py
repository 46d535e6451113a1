"""What is no card is refused with file, line and column; nothing in a card is ever run."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_card_read import FULL

import ccltui.parsers.text.yaml_tree
from ccltui.parsers.errors import CardError
from ccltui.parsers.side.workload_card import read_card


@pytest.fixture(params=["c", "python"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both parsers of PyYAML: not every build has the fast one."""
    name: str = request.param
    if name == "python":
        monkeypatch.setattr(ccltui.parsers.text.yaml_tree, "_LOADER", yaml.SafeLoader)
    return name


def refusal(tmp_path: Path, content: str | bytes) -> CardError:
    path = tmp_path / "card.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(CardError) as raised:
        read_card(path, shown_path="job/card.yaml")
    assert str(raised.value).startswith("job/card.yaml")
    return raised.value


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    ("text", "line", "column", "why"),
    [
        ("workload:\n  description: X: https://a.b\n", 2, 17, "put text that holds a colon"),
        ("workload:\n  a: 1\n b: 2\n", 3, 2, ""),
        ("workload: {a: 1\n", 2, 1, ""),
        ("workload:\n\ta: 1\n", 2, 1, "cannot start any token"),
        ("workload: 'open\n", 2, 1, "end of stream"),
        ("workload:\n  a: !!python/object/apply:os.system [ls]\n", 2, 6, "is not allowed"),
        ("workload:\n  a: !custom x\n", 2, 6, "the tag !custom is not allowed"),
        ("workload:\n  a: !!binary aGk=\n", 2, 6, "is not allowed"),
        ("workload:\n  ? [a, b]\n  : 1\n", 2, 5, "a key must be plain text"),
        ("workload:\n  a: 1\n  b: 2\n  a: 3\n", 4, 3, "duplicate key 'a', first given in line 2"),
        ("workload: 1\nworkload: 1\n", 2, 1, "duplicate key 'workload'"),
        ("workload:\n  a: *nowhere\n", 2, 6, ""),
        ("workload: &w\n  a: *w\n", 2, 6, "an alias to the value that holds it"),
        (BOMB, 5, 10, "more than 20,000 values"),
        ("a: &a {b: 1}\nworkload:\n  <<: [*a, 3]\n", 3, 3, "only mappings can be merged"),
        ("workload:\n  a: !!int many\n", 2, 6, "not a usable int"),
        ("workload:\n  a: !!float ''\n", 2, 6, "not a usable float"),
        ("workload:\n  a: !!bool maybe\n", 2, 6, "not a usable bool"),
        ("workload:\n  a: " + "9" * 5000 + "\n", 2, 6, "not a usable int"),
        ("workload:\n---\nworkload:\n", 2, 1, "a second document"),
        ("workload: a\x1b[2J\n", 1, 12, "the character \\x1b is not allowed"),
        ("x: " + "[" * 60 + "]" * 60, 1, 43, "nested more than 40 levels"),
        ("- workload\n", 1, 1, "it has no keys"),
        ("just text\n", 1, 1, "it has no keys"),
        ("", 1, 1, "it has no keys"),
        ("# only a comment\n", 1, 1, "it has no keys"),
        ("timestamp: 1\nresults: {}\n", 1, 1, "neither `workload:` nor `metric_source:`"),
        ("version: 1\nworkload: training\n", 2, 1, "`workload:` holds no keys"),
        ("workload: {a: {}}\nModel-executor: [tp, 4]\n", 2, 1, "`Model-executor:` holds no keys"),
        (
            "workload:\n  data: {max-num-seqs: 4, max_num_seqs: 5}\n",
            2,
            27,
            "workload.data.max_num_seqs contradicts the value in line 2",
        ),
        (
            "model_executor: {framework: {name: a}}\n"
            "workload:\n  Model-executor: {framework: {name: b}}\n",
            3,
            32,
            "model_executor.framework.name contradicts the value in line 1",
        ),
    ],
)
def test_refused_with_line_and_column(
    tmp_path: Path, text: str, line: int, column: int, why: str
) -> None:
    error = refusal(tmp_path, text)

    assert (error.line, error.column) == (line, column)
    assert why in error.message
    assert str(error) == f"job/card.yaml:{line}:{column}: {error.message}"


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    error = refusal(tmp_path, b"workload:\n  a: \xff\n")

    assert (error.line, error.column, error.message) == (2, 6, "not valid UTF-8")


def test_other_encodings_that_yaml_allows(tmp_path: Path) -> None:
    for encoding in ("utf-8-sig", "utf-16"):
        (tmp_path / "card.yaml").write_text("workload:\n  model: {moe: yes}\n", encoding)
        assert read_card(tmp_path / "card.yaml").moe is True


def test_a_file_that_is_far_too_large(tmp_path: Path) -> None:
    error = refusal(tmp_path, b"workload:\n" + b"# x\n" * 300_000)

    assert error.message == "larger than 1,048,576 bytes: this is no card"


def test_many_values_without_any_alias(tmp_path: Path) -> None:
    error = refusal(tmp_path, "workload:\n" + "".join(f"  k{n}: {n}\n" for n in range(15_000)))

    assert "more than 20,000 values" in error.message


def test_an_absent_card(tmp_path: Path) -> None:
    with pytest.raises(CardError, match="cannot be read: No such file or directory"):
        read_card(tmp_path / "absent.yaml")


def test_errors_do_not_quote_contact_details(tmp_path: Path) -> None:
    for bad in ("x: y: z", "'open", "*nowhere", "!tag x", "@x", "[a", "\tb"):
        text = f"contact: jane.planted@example.org {bad}\nworkload: {bad}\n"
        assert "planted" not in str(refusal(tmp_path, text))


FRAGMENTS = [
    "workload:", "\n", "\n  ", "a: ", "- ", "&x ", "*x", "<<: ", "{", "}", "[", "]", "? ", ": ",
    "!!int ", "!!map ", "'", '"', "|", ">", "%YAML", "---", "...", "#", "1_0", "0x", ".inf",
    "1:30", "2025-01-01", "~", "é", "\t", ", ",
]  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=300),
        st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(
            lambda parts: "".join(parts).encode()
        ),
    )
)
def test_any_text_is_a_card_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "card.yaml"
    path.write_bytes(content)
    with suppress(CardError):
        assert read_card(path).path == str(path)


def test_every_cut_and_many_flips_of_a_card(tmp_path: Path) -> None:
    whole = FULL.encode()
    chance = random.Random(1)
    path = tmp_path / "card.yaml"
    texts = [whole[:cut] for cut in range(0, len(whole), 3)]
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        texts.append(bytes(damaged))

    for text in texts:
        path.write_bytes(text)
        with suppress(CardError):
            assert read_card(path).path == str(path)
