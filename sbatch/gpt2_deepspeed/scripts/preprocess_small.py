#!/usr/bin/env python
"""Make train_small.bin and val_small.bin of two texts: tokens as uint16, told in a .json beside.

With --tokenizer bytes (the default) the bytes of the texts are the tokens, which needs nothing
else; --tokenizer gpt2 needs the package transformers.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

import torch

sys.path.insert(1, str(Path(__file__).resolve().parents[2]))
from gpt.data import BYTES, Prepared, local_tokens, save

_FIX: Final = "    fix: run download_data.py first, or name other texts: --train A --val B"


def main() -> int:
    """Write both files; return 1 if a text cannot be read or is too short."""
    options = _parser().parse_args()
    for text, name in ((options.train, "train_small.bin"), (options.val, "val_small.bin")):
        try:
            tokens, vocabulary = _tokens(text, options.tokenizer)
        except OSError as error:
            print(f"preprocess_small: {text}: {error.strerror}", file=sys.stderr)
            if isinstance(error, FileNotFoundError):
                print(_FIX, file=sys.stderr)
            return 1
        tokens = tokens[: options.max_tokens]
        about = Prepared(options.dataset or text.name, options.tokenizer, vocabulary, len(tokens))
        save(options.output / name, tokens, about)
        print(f"preprocess_small: {len(tokens):,} tokens in {options.output / name}")
    return 0


def _tokens(text: Path, tokenizer: str) -> tuple[torch.Tensor, int]:
    if tokenizer == "bytes":
        return local_tokens(text), BYTES
    from transformers import AutoTokenizer  # noqa: PLC0415  (bytes need none)

    words = AutoTokenizer.from_pretrained(tokenizer)
    ids = words(text.read_text(encoding="utf-8"))["input_ids"]
    return torch.tensor(ids), len(words)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=Path, default=Path("data/train.txt"))
    parser.add_argument("--val", type=Path, default=Path("data/val.txt"))
    parser.add_argument("--output", type=Path, default=Path())
    parser.add_argument("--tokenizer", default="bytes", help="bytes, or a name of the hub")
    parser.add_argument("--dataset", help="name to be recorded; default: the name of the text")
    parser.add_argument("--max_tokens", type=int, default=30_000_000)
    return parser


if __name__ == "__main__":
    sys.exit(main())
