"""The card of a run: lines that change, lines that do not, and text that is not plain in YAML."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_card import main
from sbatch_scripts import SBATCH

from ccltui.parsers.side.workload_card import read_card

WORKLOAD = SBATCH / "workloads" / "llama3.1-8b-torchtitan-tp-perlmutter-16"
CARD = WORKLOAD / "workload_card.yaml"


def made(folder: Path, capsys: pytest.CaptureFixture[str], *pairs: tuple[str, str]) -> Path:
    """The card of a run with this text in its configuration; what was noted stays in ``capsys``."""
    text = (WORKLOAD / "train_config.toml").read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    config = folder / "train_config.toml"
    config.write_text(text)
    assert main([str(CARD), str(config), "4"]) == 0
    out, notes = capsys.readouterr()
    card = folder / "workload_card.yaml"
    card.write_text(out)
    (folder / "notes").write_text(notes)
    return card


def test_an_unchanged_configuration_leaves_the_card_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = made(tmp_path, capsys)

    assert card.read_bytes() == CARD.read_bytes()
    assert (tmp_path / "notes").read_text() == ""


def test_what_differs_is_noted_by_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = read_card(made(tmp_path, capsys, ("steps = 80", "steps = 20")))

    assert card.iteration == 20
    assert (tmp_path / "notes").read_text() == (
        "note: the card of the run: workload.model.iteration 20, 80 in that of the workload\n"
    )


@pytest.mark.parametrize(
    "name",
    [
        "c4",
        "a/b-c.d",
        "true",
        "No",
        "123",
        "x: y # z",
        "[1, 2]",
        "{a}",
        "*alias",
        "true or not",
        "'quoted'",
        "#",
    ],
)
def test_a_data_set_of_any_name_is_one_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    card = read_card(made(tmp_path, capsys, ('dataset = "c4"', f'dataset = "{name}"')))

    assert card.values["workload.data.dataset"] == name
    assert card.seq_len == 2048
