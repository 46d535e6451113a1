"""Whether a program went on after an error that its log tells of: steps, its end, its own words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

_LOSS: Final = r"(?:[Ll]oss|LOSS)\b"
_RATE: Final = r"(?:tokens?|tok|samples|images)(?:/s|_per_s|[ -]per[ -]s)"
_SIGN: Final = re.compile(
    # of transformers, of a bar of progress, and of servers
    rf"\{{'loss': [^\n]{{0,200}}?'epoch': (?P<epoch>[\d.]{{1,20}})"
    rf"|(?P<serves>throughput: [\d.]{{1,20}} tokens/s)|{_LOSS}|\b{_RATE}"
)
"""What only a line of a step has; whatever is before it names the step."""
_STEP: Final = re.compile(
    # 1/90 [00:09<00:10
    r"(?<!\d)(?P<bar>\d{1,9}/\d{1,9}) \[[\d:]{4,12}<"
    # step 12, "step": 12, Epoch: [0][12/90]
    r"|\b(?:global_step|[Ss]tep|[Ii]ter(?:ation)?|[Ee]poch)\b[\"' :=\[#]{0,6}"
    r"(?!\d{1,9}(?::|\W)[^\n]{0,40}\|[^\n]{0,40}\[[\d:]{4,12}<)(?P<step>\d[\d/\]\[,]{0,30})"
)
_BEFORE: Final = 300
"""Characters before a sign of a step in which the number of the step is."""
_GOES_ON: Final = 3
"""Steps after a failure by which the job has gone on; other ranks may print one or two."""
_COMPLETED: Final = re.compile(
    r"RUN_COMPLETE\b|\[after training is done\]"
    r"|`Trainer\.fit` stopped: `max_|['\"]train_runtime['\"]: "
    r"|\"key\": \"run_stop\"[^\n]{0,400}\"status\": \"success\""
    r"|worker group successfully finished"
    r"|(?P<script>\bTraining (?:is )?(?:completed?|finished|done)\b|\bFinished training\b)"
    r"(?!\?|[^\n]{0,40}\b(?:errors?|fail|unsuccess|abort))",
    re.IGNORECASE,
)
_OF_PART: Final = re.compile(
    r"\b(?:epoch|step|iter\w*|phase|stage|warm-?up|round|fold|until|before|when|once)\b", re.I
)
"""A part of the training is complete, and the next one follows."""
_GOING_ON: Final = re.compile(
    r"\bretrying\b|\bwill (?:be )?retr(?:y|ied)\b|\bskipp(?:ed|ing)\b|\bignor(?:ed|ing)\b"
    r"|\bfall(?:s|ing) back\b",
    re.IGNORECASE,
)
_NOTHING: Final = re.compile(r"Error: (?:0|[Nn]one|null|no errors?)\W*$")
_IGNORED: Final = "Exception ignored in"
_PROCESS: Final = re.compile(r"(?<![\w.-])[\w.-]{1,253}:\d{1,10}:(?=\d{1,10} )")
_CONNECTED: Final = re.compile(
    rf"(?P<process>{_PROCESS.pattern})[^\n]{{0,300}}? NCCL INFO [^\n]{{0,300}}Init COMPLETE"
)
_STACK: Final = 4_000
"""Characters before an exception in which the first line of its stack is looked for."""
_LONGEST: Final = 400


def went_on_at(text: str) -> int:
    """Return where the job has gone on for some steps for the last time, -1 where it never has.

    Lines of the same step count once: each rank may print it.
    """
    steps: set[str] = set()
    for at, step in reversed(list(_steps(text))):
        steps.add(step)
        if len(steps) == _GOES_ON:
            return at
    return -1


def _steps(text: str) -> Iterator[tuple[int, str]]:
    """Yield where each line of a step is, and its number; one a line, or long lines take long."""
    at = 0
    while (sign := _SIGN.search(text, at)) is not None:
        least = max(sign.start() - _BEFORE, at)  # what is before was looked at
        at = sign.end()
        begin = max(text.rfind("\n", least, sign.start()) + 1, least)
        if sign["serves"]:
            yield begin, str(begin)
            continue
        match = _STEP.search(text, begin, sign.start())
        step = sign["epoch"] or (match and (match["bar"] or match["step"]))
        if step:
            yield begin, step
            end = text.find("\n", at)
            at = len(text) if end < 0 else end


def completed_at(text: str) -> re.Match[str] | None:
    """Return the last line in which a program says that it is done, and after which no step is.

    A match of ``script`` may be a word of the script that started it, which prints it always.
    """
    last = None
    for match in _COMPLETED.finditer(text):
        begin = text.rfind("\n", 0, match.start()) + 1
        if match["script"] is None or not _OF_PART.search(text, begin, match.start()):
            last = match
    if last is not None and last[0].startswith('"train_runtime"') and _has_later(text, last):
        return None
    return None if last is None or went_on_at(text[last.end() :]) >= 0 else last


def _has_later(text: str, summary: re.Match[str]) -> bool:
    """Return whether the history that the Trainer of Hugging Face saves has steps after a summary.

    It may be one line, and its evaluations at the end are entries of the same step.
    """
    begin = max(text.rfind("{", 0, summary.start()), 0)
    own = _SAVED_STEP.search(text, begin, summary.start())
    return own is not None and any(
        int(later[1]) > int(own[1]) for later in _SAVED_STEP.finditer(text, summary.end())
    )


_SAVED_STEP: Final = re.compile(r'"step": ?(\d{1,12})')


def says_to_go_on(line: str) -> bool:
    """Return whether a line, or the one behind an error, says that the program goes on."""
    part = line[:_LONGEST]
    return _GOING_ON.search(part) is not None or _NOTHING.search(part) is not None


def is_ignored(text: str, line: int) -> bool:
    """Return whether the stack above the line that begins here is one that Python ignores."""
    stack = text[max(line - _STACK, 0) : line]
    opened = stack.rfind(_IGNORED)
    if opened < 0:
        return False
    return all(
        not one.strip() or one.startswith("  ") or "Traceback (most" in one
        for one in stack[opened:].split("\n")[1:]
    )


def connected_at(text: str) -> Mapping[str, int]:
    """Return where each process last has a communicator of NCCL, by "host:process:"."""
    return {match["process"]: match.end() for match in _CONNECTED.finditer(text)}


def nccl_process(line: str) -> str:
    """Return the "host:process:" that NCCL puts before a line, "" without."""
    match = _PROCESS.search(line)
    return "" if match is None else match[0]
