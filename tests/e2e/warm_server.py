"""Import the commands once, then run each request in a fork: see ``warm_shell``.

``python -P warm_server.py DESCRIPTOR``: a request is a line of JSON with ``argv``, ``cwd`` and
``env``, and the descriptors of standard output and error; the answers are two lines, the process
number and, when it has ended, its exit status as ``subprocess`` states it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import socket
import sys
import types
from pathlib import Path
from typing import Any


def main() -> None:
    """Serve requests until the other end of the socket is closed."""
    # A command's own path starts with the folder of its script; -P leaves this script's out.
    sys.path.insert(0, str(Path(sys.executable).parent))
    _import_commands()
    gc.collect()
    gc.freeze()  # a fork copies only pages that something writes to
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        while True:
            data, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 2)
            if not data:
                return
            while not data.endswith(b"\n"):
                data += connection.recv(1 << 20)
            request = json.loads(data)
            if {"--environment", "--bundle"} & set(request["argv"]):
                _import_packages()
            pid = os.fork()
            if pid == 0:
                connection.detach()
                _become(request, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            connection.sendall(b"%d\n" % pid)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            connection.sendall(b"%d\n" % status)


def _import_commands() -> None:
    """Import everything but the explorer."""
    for name in ("commands", "report", "doctor", "demo", "export", "parsers", "metrics"):
        package = importlib.import_module(f"ccltui.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"ccltui.{name}."):
            importlib.import_module(module.name)


@functools.cache
def _import_packages() -> None:
    """Import what ``doctor`` tries to import: 1.3 CPU-s, which most servers need not spend."""
    from ccltui.doctor.environment_checks import OPTIONAL, REQUIRED

    for module in (*REQUIRED.values(), *(module for module, _, _ in OPTIONAL.values())):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    gc.freeze()


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Run a command in this process, and end it as Python would have."""
    for target, descriptor in zip((1, 2), descriptors, strict=True):
        os.dup2(descriptor, target)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ |= request["env"]
    sys.argv = sys.orig_argv = list(request["argv"])
    # Worker processes import the main module again: a command's own script, not this one.
    script = types.ModuleType("__main__")
    script.__file__ = sys.argv[0]
    sys.modules["__main__"] = script
    from ccltui import __main__ as commands

    commands.leave_working_directory()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    command = commands.main_metrics if Path(sys.argv[0]).name == "ccl-metrics" else commands.main
    sys.exit(command())


if __name__ == "__main__":
    main()
