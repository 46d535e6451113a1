"""Answer in a process of its own: a file that ends it does not end the server."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ccltui.parsers.errors import TraceError, internal_error
from ccltui.parsers.ingest.rank_worker import ignore_sigint
from ccltui.parsers.ingest.worker_pool import starting
from ccltui.parsers.safe_text import safe_text

if TYPE_CHECKING:
    from ccltui.mcp_server.job_answers import OpenedJobs, Question

_END_S: Final = 2.0
_LONGEST_LINE: Final = 1000
"""Characters of a refusal."""


class RefusedError(Exception):
    """A question has no answer; the message is one line."""


class AnswerWorker:
    """A process that opens jobs and answers about them, started when it is first asked."""

    def __init__(self, folders: tuple[str, ...], cache_dir: Path | None) -> None:
        self._arguments = (folders, cache_dir)
        self._lock = threading.Lock()
        self._process: Any = None
        self._pipe: Connection | None = None

    def ask(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Return the JSON text of an answer; one question at a time.

        Raises:
            RefusedError: the question is refused, or the process ended over it.
        """
        with self._lock:
            pipe = self._started()
            try:
                pipe.send((tool, dict(arguments)))
                # Processes that it started may hold the pipe open after it ended.
                if pipe not in wait([pipe, self._process.sentinel]):
                    raise EOFError
                is_answer, text = pipe.recv()
            except (EOFError, OSError):
                code = self._ended()
                raise RefusedError(
                    f"the process that reads traces ended ({code}): perhaps a file is too large "
                    "for memory; other questions are answered as before"
                ) from None
        if not is_answer:
            raise RefusedError(text)
        return str(text)

    def stop(self) -> None:
        """End the process, also in the middle of an answer."""
        if self._process is not None:
            self._process.kill()

    def _started(self) -> Connection:
        if self._pipe is not None and self._process.is_alive():
            return self._pipe
        self._ended()
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        # Not a daemon: it starts processes that read large files, which a daemon may not.
        self._process = context.Process(target=_answer_all, args=(theirs, *self._arguments))
        with theirs, starting():
            self._process.start()
        return self._pipe

    def _ended(self) -> str:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self._process is None:
            return ""
        self._process.join(_END_S)
        code = self._process.exitcode
        return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"


def _answer_all(pipe: Connection, folders: tuple[str, ...], cache_dir: Path | None) -> None:
    """Answer until the server closes the pipe, or ends."""
    ignore_sigint()
    os.dup2(2, 1)  # standard output carries the protocol
    sys.stdout = sys.stderr
    from ccltui.mcp_server.job_answers import OpenedJobs  # noqa: PLC0415  (numpy)
    from ccltui.mcp_server.roots import Roots  # noqa: PLC0415

    jobs = OpenedJobs(Roots(folders), cache_dir)
    with contextlib.suppress(EOFError, OSError):
        while True:
            tool, arguments = pipe.recv()
            pipe.send(_answered(tool, arguments, jobs))


def _answered(tool: str, arguments: Mapping[str, Any], jobs: OpenedJobs) -> tuple[bool, str]:
    from ccltui.mcp_server.row_answers import QUESTIONS  # noqa: PLC0415  (numpy)
    from ccltui.report.printable_json import json_bytes  # noqa: PLC0415

    try:
        question = _question(arguments, QUESTIONS[tool])
        return True, json_bytes(question.answer(jobs)).decode().rstrip("\n")
    except msgspec.ValidationError as error:
        return False, _line(f"{tool}: {error}")
    except TraceError as error:
        return False, _line(str(error))
    except OSError as error:
        return False, _line(f"{error.filename or 'a file'}: {error.strerror or error}")
    except MemoryError:
        return False, "not enough memory for this answer"
    except Exception as error:
        return False, _line(internal_error(error))


def _question(arguments: Mapping[str, Any], of: type[Question]) -> Question:
    """Return the question of some arguments. Raises ValidationError where they are none."""
    # Not strict: clients write numbers as texts, too. A text stays one where one may stand:
    # the regular expression [12] is JSON of a list as well.
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(arguments, of, strict=False)
    return msgspec.convert(_decoded(arguments), of, strict=False)


def _decoded(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with lists and mappings that a client wrote as JSON text, as some do."""
    return {name: _list_or_mapping(value) for name, value in arguments.items()}


def _list_or_mapping(value: Any) -> Any:
    if not (isinstance(value, str) and value.startswith(("[", "{"))):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value


def _line(text: str) -> str:
    return safe_text(" ".join(text.split()))[:_LONGEST_LINE]
