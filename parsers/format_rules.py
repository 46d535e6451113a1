"""Rules that recognise a file by keys, file name or text, for declarations of formats."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ccltui.parsers.format import Match, Priority, Rule

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample


def json_keys(*keys: str) -> Rule:
    """Match a JSON object that has all of the top-level ``keys``."""
    wanted = frozenset(keys)

    def test(sample: FileSample) -> Match | None:
        return Match() if sample.json is not None and wanted <= sample.json.object_keys else None

    return Rule(Priority.JSON_KEYS, test)


def json_name(*parts: str) -> Rule:
    """Match a JSON object whose file name contains one of ``parts``."""

    def test(sample: FileSample) -> Match | None:
        document = sample.json
        if document is None or not document.is_plain_object or document.shape.state == "broken":
            return None
        return Match() if any(part in sample.lower_name for part in parts) else None

    return Rule(Priority.JSON_NAME, test)


def text_search(
    pattern: re.Pattern[str],
    priority: Priority = Priority.TEXT_CONTENT,
    *,
    words: tuple[str, ...],
) -> Rule:
    """Match a text, other than YAML, in whose beginning ``pattern`` occurs.

    ``words`` are texts of which every match contains one. Finding none of them takes a hundredth
    of the time of a search, and most texts are foreign.
    """

    def test(sample: FileSample) -> Match | None:
        text = sample.prose
        if text is None or not any(word in text for word in words):
            return None
        return Match() if pattern.search(text) else None

    return Rule(priority, test)


def text_start(pattern: re.Pattern[str], longest: int) -> Rule:
    """Match a text whose first ``longest`` characters begin with ``pattern``."""

    def test(sample: FileSample) -> Match | None:
        text = sample.prose
        return Match() if text is not None and pattern.match(text[:longest].lstrip()) else None

    return Rule(Priority.TEXT_CONTENT, test)


def text_stem(stem: str) -> Rule:
    """Match a text whose file name without suffix is ``stem``."""

    def test(sample: FileSample) -> Match | None:
        is_named = sample.lower_name.rpartition(".")[0] == stem
        return Match() if sample.prose is not None and is_named else None

    return Rule(Priority.TEXT_NAME, test)


def binary_suffix(*suffixes: str, problem: str) -> Rule:
    """Match bytes that are no text by the end of the file name; ``problem`` is why unused."""

    def test(sample: FileSample) -> Match | None:
        is_named = sample.text is None and sample.lower_name.endswith(suffixes)
        return Match(problem) if is_named else None

    return Rule(Priority.SUFFIX, test)
