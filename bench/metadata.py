"""Time an opening where each call on the metadata of a file takes longer, as over a network.

``python -m bench.metadata DIR --us 1000`` compiles ``slow_metadata.c`` and opens DIR
twice with it: into an empty store, then from it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_OPEN = """\
import resource, sys, time
from pathlib import Path
begun = time.perf_counter()
from ccltui.parsers.job import open_job
job = open_job(sys.argv[1], cache_dir=Path(sys.argv[2]))
used = resource.getrusage(resource.RUSAGE_SELF)
print(f"{len(job.ranks)} ranks, {time.perf_counter() - begun:.2f} s, "
      f"{used.ru_utime + used.ru_stime:.2f} CPU-s, {used.ru_maxrss >> 10} MiB")
"""


def compiled(folder: Path) -> Path:
    """Compile the library into ``folder``. Raises OSError and CalledProcessError."""
    library = folder / "slow_metadata.so"
    source = Path(__file__).with_name("slow_metadata.c")
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library


def main(arguments: list[str] | None = None) -> int:
    """Print how long both openings take."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--us", type=int, default=1000, help="added to each call")
    parser.add_argument("--store", type=Path, help="below which calls are slow too; kept")
    chosen = parser.parse_args(arguments)
    directory = chosen.directory.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        store = (chosen.store or Path(scratch) / "store").resolve()
        below = os.path.commonpath([directory, store])
        environment = {
            "LD_PRELOAD": str(compiled(Path(scratch))),
            "CCLTUI_SLOW_US": str(chosen.us),
            "CCLTUI_SLOW_BELOW": str(directory) if below == "/" else below,
        }
        for _ in range(2):
            command = [sys.executable, "-c", _OPEN, str(directory), str(store)]
            subprocess.run(command, check=True, env={**os.environ, **environment})
    return 0


if __name__ == "__main__":
    sys.exit(main())
