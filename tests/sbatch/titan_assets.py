"""Write a tokenizer and a small corpus for the slow tests: ``titan_assets.py FOLDER``.

They are made from random words, so that nothing is fetched.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

_BEGIN, _END = "<|begin_of_text|>", "<|end_of_text|>"


def texts(chance: random.Random) -> list[str]:
    """Two hundred texts of three hundred words."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(2000)]
    return [" ".join(chance.choices(words, k=300)) for _ in range(200)]


def main() -> None:
    """Write ``tokenizer/`` and ``corpus/``."""
    folder = Path(sys.argv[1])
    corpus, assets = folder / "corpus", folder / "tokenizer"
    corpus.mkdir(parents=True)
    assets.mkdir()
    documents = texts(random.Random(0))
    lines = [json.dumps({"text": text, "timestamp": "", "url": ""}) for text in documents]
    (corpus / "data.json").write_text("\n".join(lines) + "\n")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1000, special_tokens=[_BEGIN, _END], initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(documents, trainer)
    tokenizer.save(str(assets / "tokenizer.json"))
    settings = {"bos_token": _BEGIN, "eos_token": _END}
    (assets / "tokenizer_config.json").write_text(json.dumps(settings))


main()
