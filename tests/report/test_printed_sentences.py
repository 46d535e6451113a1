"""The page of all sentences: what is collected, and how fields become examples."""

from __future__ import annotations

import re
from pathlib import Path

from ccltui.tools import sentences

SOURCE = '''
"""A docstring is not printed by anybody here."""

NAMES = ("one", "two words")


def why(label: str, ns: int, found: int) -> str:
    """A docstring of a function is left out."""
    waited = f"rank {label} makes the others wait {duration(ns)}"
    if found == "this text is compared only":
        raise ValueError(f"{path} holds no trace of rank {label}")
    verb = "is" if found == 1 else "are"
    return f"nothing worth fixing: {waited}, {counted(found, 'rank')} {verb} late"


parser.add_argument("--x", help="a file that is written")
'''


def test_sentences_are_collected_with_examples(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "one.py").write_text(SOURCE)

    collected = sentences.sentences(tmp_path)

    assert [(one.section, one.text) for one in collected] == [
        ("metrics", "rank 3 makes the others wait 29.1 ms"),
        ("errors", "run/trace_3.json holds no trace of rank 3"),
        (
            "metrics",
            "nothing worth fixing: rank 3 makes the others wait 29.1 ms, 4 ranks are late",
        ),
        ("help", "a file that is written"),
    ]


def test_every_section_has_sentences() -> None:
    assert {one.section for one in sentences.sentences()} == {key for key, _ in sentences.SECTIONS}


FORBIDDEN = re.compile(
    # persons, where a thing or a fact is meant; riddles; words that only we have used
    r"\b(wants?|told|says?|said|stands?|knows|strangers?|harm|furniture|met|kept|mends?|mending)\b"
    r"|\b(handed on|(its|their|his) like|like it|in no time|of course|word on|waits for hosts)\b"
    r"|\b(is kept by|Without that on all ranks together|take them for)\b",
    re.IGNORECASE,
)
"""Words and phrases that no sentence for people may have."""


def test_no_sentence_has_a_forbidden_word() -> None:
    # names of variables, in angle brackets, are not printed
    texts = {one.text: re.sub(r"‹[^›]*›", "", one.text) for one in sentences.sentences()}

    assert [text for text, plain in texts.items() if FORBIDDEN.search(plain)] == []
