"""The engines by name."""

from __future__ import annotations

from typing import Final

from ccltui.index.index_engine import Engine, EngineOptions
from ccltui.parsers.errors import GrammarError

ENGINES: Final = ("local", "slurm", "dask", "tcp://HOST:PORT")


def engine_named(name: str, options: EngineOptions) -> Engine:
    """Return the engine of ``--engine``. Raises GrammarError.

    Only the module of the engine that is named is imported.
    """
    if name == "local":
        from ccltui.index.local_engine import LocalEngine  # noqa: PLC0415

        return LocalEngine(options)
    if name == "slurm":
        from ccltui.index.slurm_engine import SlurmEngine  # noqa: PLC0415

        return SlurmEngine(options)
    if name == "dask" or name.startswith(("tcp://", "tls://")):
        from ccltui.index.dask_engine import DaskEngine  # noqa: PLC0415

        return DaskEngine(options, None if name == "dask" else name)
    raise GrammarError(f"{name[:40]!r} is no engine: {', '.join(ENGINES)}")
