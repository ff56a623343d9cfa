"""The notebooks of the documentation run from the first cell to the last."""

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert [path.stem for path in NOTEBOOKS] == ["first_run", "own_environment_and_sweep"]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:  # shorter, since only that it runs is tested
        cell.source = cell.source.replace("STEPS = 30_000", "STEPS = 3_000").replace("STEPS = 8_000", "STEPS = 1_500")
    nbclient.NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [output.text for cell in notebook.cells for output in cell.get("outputs", []) if "text" in output]
    assert any("mean return" in text for text in printed)
