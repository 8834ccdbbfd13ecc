"""The examples that people copy are run as they stand."""

import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]


def test_readme(capsys):
    """The README's example, from first line to last."""
    text = (ROOT / "clients/python/README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.S)
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    out = capsys.readouterr().out
    assert "fits now" in out and "\n42\n" in out and "enforced" in out
    assert "by ray" in out or "nothing has been read yet" in out  # it is read now and then
    assert names["cluster"].state in ("stopping", "stopped")


def test_notebook(tmp_path):
    """The notebook, from first cell to last, in a kernel of its own."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(ROOT / "docs/notebook.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "docs/notebook.ipynb is kept without outputs"
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = json.dumps([cell.get("outputs") for cell in notebook.cells if cell.cell_type == "code"])
    assert "<table>" in shown and "role='img'" in shown, "nothing shows itself as HTML"
    assert "ready" in shown
