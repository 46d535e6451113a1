"""What is said of workload cards."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ccltui.commands.card_command import LAYOUT, Complaint, Line, card_text, lint
from ccltui.demo import Spec, write_job
from ccltui.metrics.card.check_and_draft import Fact
from ccltui.parsers.job import Job, open_job
from ccltui.parsers.runs.run_records import TrainConfig
from ccltui.parsers.side.workload_card import FIELDS, Card, known_keys, read_card


def card_of(tmp_path: Path, text: str) -> Card:
    path = tmp_path / "workload_card.yaml"
    path.write_text(text)
    return read_card(path)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Job:
    directory = tmp_path_factory.mktemp("demo") / "job"
    write_job(directory, Spec(tp=1, steps=2, layers=2, gpus_per_node=2, stragglers=()))
    return open_job(directory)


def test_the_card_of_the_demo_is_clean(demo: Job) -> None:
    assert demo.card is not None

    assert lint(demo.card, demo, None) == ()


def test_against_its_traces(demo: Job) -> None:
    assert demo.card is not None
    values = {**demo.card.values, "workload.hardware.xpu_spec.total_count": 8}
    other = Card(demo.card.path, values, places=demo.card.places)

    found = lint(other, demo, None)

    assert [complaint.level for complaint in found] == ["error", "error"]
    assert found[0].message.startswith("the card's parallel degrees multiply to 4")
    assert found[1].message.endswith("the trace a world of 4 ranks")


def test_against_its_configuration(demo: Job) -> None:
    assert demo.card is not None
    config = TrainConfig("train_config.toml", {"training.seq_len": 7})

    messages = [complaint.message for complaint in lint(demo.card, demo, config)]

    assert (
        f"the card states {demo.card.seq_len} (workload.data.seq_len), the configuration makes it 7"
        in messages
    )


def test_errors_come_first_and_unknown_keys_have_lines_and_neighbours(tmp_path: Path) -> None:
    card = card_of(
        tmp_path,
        "workload:\n  data:\n    batch_size: two\n    seq_length: 8\n  model:\n    num_params: 5\n"
        "    num_params_embedding: 1\n    num_layers: 1\n    num_heads: 1\n    head_dim: 1\n",
    )

    assert lint(card, None, None) == (
        Complaint("error", None, "workload.data.batch_size is not a positive whole number"),
        Complaint(
            "warning",
            4,
            "workload.data.seq_length is not a known key; did you mean workload.data.seq_len?",
        ),
        Complaint("warning", None, "seq_len is not stated: no throughput_tokens"),
    )


def test_an_unknown_key_of_the_top_level_has_its_line(tmp_path: Path) -> None:
    card = card_of(tmp_path, "workload:\n  data:\n    seq_len: 8\nfoo: 1\n")

    (found,) = [one for one in lint(card, None, None) if "not a known key" in one.message]

    assert (found.line, found.message) == (4, "foo is not a known key")


def test_what_contradicts_itself_needs_no_traces(tmp_path: Path) -> None:
    card = card_of(
        tmp_path,
        "workload:\n  model: {moe: false}\n"
        "Model-executor:\n  model_plan_parallelization: {ep: 4}\n",
    )

    errors = [found.message for found in lint(card, None, None) if found.level == "error"]

    assert errors == [
        "the card states moe: false (workload.model.moe), and yet expert parallelism of 4"
    ]


def read_back(tmp_path: Path, facts: dict[str, Fact]) -> Card:
    path = tmp_path / "workload_card.yaml"
    path.write_bytes(card_text(facts))
    return read_card(path)


def lines() -> list[tuple[str, Line]]:
    """Each line that sets a field, with the keys above it."""
    found: list[tuple[str, Line]] = []
    above: list[str] = []
    for line in LAYOUT:
        above[len(line.indent) // 2 :] = [line.key]
        if line.field:
            found.append((".".join(above), line))
    return found


def test_every_line_of_the_layout_is_a_known_key_and_fills_its_field() -> None:
    for key, line in lines():
        normalised = key.lower().replace("-", "_")
        assert normalised in known_keys(), key
        if line.field in FIELDS:
            assert normalised in FIELDS[line.field], key


def test_nothing_is_known(tmp_path: Path) -> None:
    card = read_back(tmp_path, {})

    assert card.values == {"version": 1}
    assert (card.unknown_keys, card.notes) == ((), ())


def test_known_values_stand_with_their_source() -> None:
    text = card_text({"tp": Fact(4, "traces, process groups")}).decode()

    assert "    tp: 4  # traces, process groups\n" in text
    assert "    # pp:  # degree of pipeline parallelism\n" in text
    assert "todo" not in text.lower()


def test_a_full_draft_reads_back(tmp_path: Path) -> None:
    facts: dict[str, int | str | bool | tuple[str, ...]] = {
        "phase": "training",
        "moe": False,
        "model_family": "llama3-8B",
        "batch_size": 8,
        "batch_size_scope": "global",
        "seq_len": 2048,
        "gpu_model": "nvidia_a100",
        "total_count": 4,
        "tp": 2,
        "dp_shard": 2,
        "communication_library": "NCCL",
        "communication_library_version": "2.20",
        "traces": ("kineto_trace", "torch_et"),
    }

    card = read_back(tmp_path, {name: Fact(value, "traces") for name, value in facts.items()})

    assert {name: getattr(card, name) for name in facts} == facts
    assert [found for found in lint(card, None, None) if found.level == "error"] == []


@pytest.mark.parametrize(
    "text", ["yes", "null", "2.20", "a: b", "# c", "x\x1b[2J", "😀", "~", "0x1f"]
)
def test_a_text_stays_a_text(tmp_path: Path, text: str) -> None:
    written = yaml.safe_load(card_text({"dataset": Fact(text, "traces")}))

    value = written["workload"]["data"]["dataset"]
    assert value == text.replace("\x1b", "\\x1b")


@given(st.text(max_size=40))
def test_any_text_makes_valid_yaml(text: str) -> None:
    written = yaml.safe_load(card_text({"model_family": Fact(text, "traces")}))

    assert isinstance(written["workload"]["model"]["model_family"], str)
