"""Verbs of ``ccltui``: arguments and purpose in the usage text, and the module that runs each."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ccltui import __version__, exit_codes
from ccltui.parsers.plug_ins import by_distribution, contents

PROG: Final = "ccltui"


class Verb(NamedTuple):
    """One verb."""

    module: str
    """Module in ``commands/`` with a function ``run`` of the arguments after the verb."""
    arguments: str
    purpose: str


VERBS: Final[Mapping[str, Verb]] = {
    "analyse": Verb("analyse", "DIR… [options]", "write all metrics to files beside the traces"),
    "card": Verb("card_command", "init|lint … [options]", "draft or check a workload card"),
    "demo": Verb("demo_command", "[DIR] [options]", "write a synthetic job and open it"),
    "diff": Verb("diff_command", "A [B] [options]", "compare two jobs, runs, ranks or steps"),
    "doctor": Verb(
        "doctor_command", "DIR [options]", "check the files of DIR; --environment: this machine"
    ),
    "explain": Verb(
        "explain_command", "DIR [options]", "explain what slows the job down, and how sure that is"
    ),
    "export": Verb(
        "export_command", "DIR --to FORMAT [options]", "write the job for Perfetto, or as tables"
    ),
    "index": Verb(
        "index_command", "DIR [options]", "read all ranks into the store, here or on a cluster"
    ),
    "inspect": Verb("inspect_command", "DIR [options]", "print all that is recorded of one event"),
    "metrics-report": Verb(
        "metrics_report", "DIR… [options]", "print all metrics of many directories"
    ),
    "report": Verb("report_command", "DIR [options]", "write a page about the job: HTML, Markdown"),
    "schema": Verb("schema_command", "[NAME]", "print the JSON Schema of an output"),
    "seeds-layout": Verb(
        "seeds_layout_command", "[DIR] [options]", "write the paths that the seed documents name"
    ),
    "serve-mcp": Verb(
        "serve_mcp_command",
        "--root DIR [options]",
        "answer an agent about traces, over stdio",
    ),
    "stats": Verb("stats_command", "PATH [options]", "print reports in the form of nsys stats"),
}

WITHOUT_VERB: Final = (
    ("DIR [options]", "explore the traces"),
    ("A B [options]", "explore A, and compare B with it"),
    ("DIR --metric NAME [options]", "print metrics"),
    (
        "DIR --follow [options]",
        "follow a job while it runs: the explorer, or a line for each change",
    ),
    ("--list-metrics", "list the metrics"),
    ("--keys", "list the keys of the explorer"),
)
_PURPOSE_COLUMN: Final = 41
_INDENT: Final = "       "  # as wide as argparse's "usage: "


def usage_of(verb: str) -> str:
    """Usage line of a verb."""
    return f"{PROG} {verb} {VERBS[verb].arguments}"


def usage() -> str:
    """Usage text of ``ccltui``: a line for each way to call it."""
    rows = [
        *((f"{PROG} {arguments}", purpose) for arguments, purpose in WITHOUT_VERB),
        *((usage_of(name), verb.purpose) for name, verb in VERBS.items()),
    ]
    lines = (f"{call:<{_PURPOSE_COLUMN}}{purpose}".rstrip() for call, purpose in rows)
    return f"\n{_INDENT}".join(lines)


def version_lines(program: str) -> list[str]:
    """Return the line of the version, and one for each package that adds something."""
    added = by_distribution().items()
    return [f"{program} {__version__}", *(f"plug-in {name}: {contents(of)}" for name, of in added)]


def run(_: Sequence[str]) -> int:
    """Print the lines and return the exit status."""
    sys.stdout.write("\n".join(version_lines(PROG)) + "\n")
    return exit_codes.OK
