"""``ccltui serve-mcp``: answer an agent's questions about traces, over stdio."""

from __future__ import annotations

from collections.abc import Sequence

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.mcp_server.roots import Roots
from ccltui.parsers.errors import NotFoundError

_DESCRIPTION = """\
Serve the Model Context Protocol on standard input and output, for a program that starts this
command. Tools: open, explain, metric, table, collective, kernel, compare and window. They only
read, and only below the directories of --root: a path that leads out of them, also through a link,
is refused. Answers are at most about 16 KiB and continue at a cursor. Needs ccltui[mcp]."""


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui serve-mcp``."""
    result = args.of_verb("serve-mcp", _DESCRIPTION)
    result.add_argument(
        "--root",
        action="append",
        required=True,
        metavar="DIR",
        help="directory that may be read, with all that is below it; may be repeated",
    )
    return args.completed(result, args.add_cache_dir)


def run(arguments: Sequence[str]) -> int:
    """Serve until standard input ends, and return the exit status."""
    options = parser().parse_args(arguments)
    roots = Roots(options.root)
    try:
        from ccltui.mcp_server.tool_server import serve  # noqa: PLC0415
    except ImportError as error:
        raise NotFoundError("serve-mcp needs mcp: pip install 'ccltui[mcp]'", path="mcp") from error
    from ccltui.mcp_server.answer_worker import AnswerWorker  # noqa: PLC0415

    worker = AnswerWorker(roots.folders, options.cache_dir)
    try:
        serve(worker)
    finally:
        worker.stop()
    return exit_codes.OK
