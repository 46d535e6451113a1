"""The notebook of the documentation runs from its first cell to its last, on a new job."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ccltui.demo import Spec, write_job

NOTEBOOK = Path(__file__).parents[1] / "docs" / "python.ipynb"
RUN = """
import sys, nbformat
from nbclient import NotebookClient
book = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(book)
options = {"metadata": {"path": sys.argv[2]}}
NotebookClient(book, timeout=100, kernel_name="python3", resources=options).execute()
print(nbformat.writes(book))
"""


def test_every_cell_of_the_notebook_runs(tmp_path: Path) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    write_job(tmp_path / "demo-job", Spec(tp=2, steps=3, layers=2, gpus_per_node=4))

    done = subprocess.run(
        [sys.executable, "-c", RUN, NOTEBOOK, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    cells = [one for one in json.loads(done.stdout)["cells"] if one["cell_type"] == "code"]
    texts = ["".join(map(_text, one["outputs"])) for one in cells]
    assert all(texts)
    assert "Job('demo-job', 8 ranks)" in texts[0]
    assert texts[1].startswith("# ")
    assert texts[4].split()[:2] == ["('unavailable',", "None,"]


def _text(output: dict[str, object]) -> str:
    """Text of one output."""
    data = output.get("data")
    text = data.get("text/plain", "") if isinstance(data, dict) else output.get("text", "")
    return "".join(text) if isinstance(text, list) else str(text)


def test_the_notebook_is_stored_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]

    code = [one for one in cells if one["cell_type"] == "code"]
    assert len(code) > 5
    assert all(one["outputs"] == [] and one["execution_count"] is None for one in code)
