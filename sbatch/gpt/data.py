"""Load token sequences from a local text, a data set of the hub, or prepared files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch

BYTES: Final = 256
"""Vocabulary of a local text: its bytes are its tokens, so that it needs nothing else."""


def local_tokens(path: Path) -> torch.Tensor:
    """Return the bytes of a file as tokens, int64. Raises OSError where it cannot be read."""
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8).long()


def hub_tokens(name: str, config: str, tokenizer: str) -> tuple[torch.Tensor, int]:
    """Return the tokens of the training part of a data set, and the size of the vocabulary.

    Needs the packages ``datasets`` and ``transformers``, and their caches or the network.
    """
    from datasets import load_dataset  # noqa: PLC0415  (a local text needs neither)
    from transformers import AutoTokenizer  # noqa: PLC0415

    words = AutoTokenizer.from_pretrained(tokenizer)
    texts = load_dataset(name, config, split="train")
    found: list[int] = []
    for batch in texts.iter(batch_size=1000):
        for ids in words([text for text in batch["text"] if text.strip()])["input_ids"]:
            found += [*ids, words.eos_token_id]
    return torch.tensor(found), len(words)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Metadata of a file of tokens, stored in a ``.json`` beside it because it has no header."""

    dataset: str
    tokenizer: str
    vocabulary: int
    tokens: int


def save(path: Path, tokens: torch.Tensor, about: Prepared) -> None:
    """Write tokens as little-endian uint16, and their metadata beside them."""
    path.write_bytes(tokens.numpy().astype("<u2").tobytes())
    path.with_suffix(".json").write_text(json.dumps(asdict(about), indent=2) + "\n")


def load(path: Path) -> tuple[torch.Tensor, Prepared]:
    """Return the tokens (int64) of a prepared file, and their metadata.

    Raises OSError where a file is absent, ValueError where the two do not belong together.
    """
    stated = Prepared(**json.loads(path.with_suffix(".json").read_text()))
    tokens = torch.from_numpy(np.fromfile(path, "<u2").astype(np.int64))
    if len(tokens) != stated.tokens:
        raise ValueError(f"{path} has {len(tokens)} tokens, its .json says {stated.tokens}")
    return tokens, stated


def batches(
    tokens: torch.Tensor, *, batch: int, length: int, rank: int, world: int, seed: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield one epoch of inputs and targets (batch, length); ranks get different sequences.

    Raises ValueError where the tokens do not make one batch for every rank.
    """
    count = (len(tokens) - 1) // length
    per_rank = count // world // batch * batch
    if per_rank == 0:
        raise ValueError(
            f"{len(tokens)} tokens are {count} sequences of {length}: too few for {world} ranks "
            f"with batches of {batch}"
        )
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    for chosen in order[rank : rank + per_rank * world : world].split(batch):
        starts = (chosen * length).tolist()
        yield (
            torch.stack([tokens[start : start + length] for start in starts]),
            torch.stack([tokens[start + 1 : start + 1 + length] for start in starts]),
        )
