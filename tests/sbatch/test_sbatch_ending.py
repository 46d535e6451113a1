"""A process that trained ends with its own status, whatever its threads still hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SBATCH = Path(__file__).resolve().parents[2] / "sbatch"
PROGRAM = """\
import atexit
from gpt.ending import end_process, leave_together
atexit.register(print, "taken down in order")
print("trained")
leave_together()
end_process(5)
"""


def ended(directory: Path, *, cuda: bool) -> subprocess.CompletedProcess[str]:
    """What the program says where torch finds CUDA, or none."""
    package = directory / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(
        f"class cuda:\n    @staticmethod\n    def is_available():\n        return {cuda}\n"
    )
    (package / "distributed.py").write_text("def barrier():\n    print('waits for the others')\n")
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        env={**os.environ, "PYTHONPATH": f"{directory}{os.pathsep}{SBATCH}"},
    )


@pytest.mark.parametrize(
    ("cuda", "said"),
    [(False, "trained\nwaits for the others\n"), (True, "trained\ntaken down in order\n")],
)
def test_what_was_printed_and_the_status_survive(tmp_path: Path, cuda: bool, said: str) -> None:
    done = ended(tmp_path, cuda=cuda)

    assert (done.returncode, done.stdout, done.stderr) == (5, said, "")
