"""The engines by name, and the one that reads files in processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ccltui.index.index_engine import BytesRead, Engine, EngineEvent, EngineOptions, Work
from ccltui.index.index_state import FileRecord
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.ingest.load import Failed, Loaded, Progress, Reading
from ccltui.parsers.system.machine_limits import workers_for


class LocalEngine:
    """The worker processes that also load a job; one that is killed costs a second attempt."""

    name = "local"
    reduces = False

    def __init__(self, options: EngineOptions) -> None:
        self._options = options

    def run(self, work: Work, cancelled: Callable[[], bool]) -> Iterator[EngineEvent]:
        """Read the largest files first; see :class:`ccltui.index.index_engine.Engine`."""
        pending = sorted(work.pending, key=lambda number: -work.plan.files[number].size_bytes)
        files = [work.found[number] for number in pending]
        keys = {work.found[number].path: work.plan.files[number].key for number in pending}
        sizes = [(work.plan.files[n].size_bytes, work.plan.files[n].form) for n in pending]
        workers = workers_for(sizes, self._options.workers)
        reading = Reading((work.plan.store_path(),), workers, cancelled, for_other_processes=False)
        ranks: dict[str, list[int | None]] = {}
        for event in reading.run(files, None):
            if isinstance(event, Progress):
                yield BytesRead(event.path, event.done_bytes)
            elif isinstance(event, Loaded):
                # A file with several ranks yields them one after another.
                found = ranks.setdefault(event.path, [])
                found.append(event.trace.rank)
                if len(found) == event.trace.source.parts:
                    done = FileRecord(
                        keys[event.path], event.path, tuple(found), seconds=event.seconds
                    )
                    work.state.write_record(done)
                    yield done
            elif isinstance(event, Failed):
                failed = FileRecord(
                    keys[event.path],
                    event.path,
                    error=event.error,
                    is_lost=event.is_lost,
                    defect=event.defect,
                )
                work.state.write_record(failed)
                yield failed


ENGINES: Final = ("local", "slurm", "dask", "tcp://HOST:PORT")


def engine_named(name: str, options: EngineOptions) -> Engine:
    """Return the engine of ``--engine``. Raises GrammarError.

    Only the module of the engine that is named is imported.
    """
    if name == "local":
        from ccltui.index.engine_choice import LocalEngine  # noqa: PLC0415

        return LocalEngine(options)
    if name == "slurm":
        from ccltui.index.slurm_engine import SlurmEngine  # noqa: PLC0415

        return SlurmEngine(options)
    if name == "dask" or name.startswith(("tcp://", "tls://")):
        from ccltui.index.dask_engine import DaskEngine  # noqa: PLC0415

        return DaskEngine(options, None if name == "dask" else name)
    raise GrammarError(f"{name[:40]!r} is no engine: {', '.join(ENGINES)}")
