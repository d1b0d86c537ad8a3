"""The notebooks keep their budget: the program lives in the library, notebooks tell."""

from __future__ import annotations

import ast
import json
import re
import statistics
from pathlib import Path

import pytest
from neuronfit.params import SECTIONS
from neuronfit.record import STEPS

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NAMES = [path.name for path in NOTEBOOKS]

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)


def cells(path: Path, kind: str) -> list[dict]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def code_lines(cell: dict) -> list[str]:
    """Lines that are neither empty nor a comment."""
    return [line for line in "".join(cell["source"]).splitlines() if line.strip() and not line.lstrip().startswith("#")]


def test_there_are_nine_named_after_their_steps():
    assert NAMES == sorted(f"{step:02d}_{name}.ipynb" for step, (name, _) in STEPS.items())


@each
def test_budget(path):
    code = cells(path, "code")
    lengths = [len(code_lines(cell)) for cell in code]
    assert statistics.median(lengths) <= 3
    assert max(lengths) <= 12
    assert len(json.loads(path.read_text())["cells"]) <= 30
    trees = [ast.parse("".join(cell["source"])) for cell in code]
    assert not [node for tree in trees for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda))]


@each
def test_five_words_of_prose_for_each_line_of_code(path):
    words = sum(len(re.findall(r"\w+", "".join(cell["source"]))) for cell in cells(path, "markdown"))
    lines = sum(len(code_lines(cell)) for cell in cells(path, "code"))
    assert words >= 5 * lines


@each
def test_one_cell_of_parameters_with_a_unit_or_meaning_on_each_line(path):
    tagged = [cell for cell in cells(path, "code") if "parameters" in cell["metadata"].get("tags", [])]
    assert len(tagged) == 1
    lines = code_lines(tagged[0])
    assert [line.split(" = ")[0] for line in lines] == list(SECTIONS)
    assert all(re.search(r"  # \w+", line) for line in lines)
    values = [ast.literal_eval(node.value) for node in ast.parse("".join(tagged[0]["source"])).body]
    assert values == ["bert-base-uncased", *[None] * (len(SECTIONS) - 1)]


@each
def test_at_most_five_imported_names(path):
    trees = [ast.parse("".join(cell["source"])) for cell in cells(path, "code")]
    names = [alias.name for tree in trees for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names]
    assert 2 <= len(names) <= 5


@each
def test_what_is_said_is_not_printed(path):
    """JupyterLab breaks printed lines in the middle of a word, and the bottom line is the sentence that is read most."""
    calls = [node for cell in cells(path, "code") for node in ast.walk(ast.parse("".join(cell["source"]))) if isinstance(node, ast.Call)]
    names = [ast.unparse(call.func) for call in calls]
    assert "print" not in names and "show.sentences" in names


@each
def test_skeleton(path):
    text = ["".join(cell["source"]) for cell in cells(path, "markdown")]
    headings = [line for part in text for line in part.splitlines() if line.startswith("#")]
    assert headings[0].startswith("# ") and headings[0].endswith("?")
    assert headings[1:3] == ["## Parameters", "## Bottom line"]
    assert any(heading.startswith("## What could make this wrong?") for heading in headings)
    assert headings[-1].startswith("## What was written")
    assert "**Host:**" in text[0] and "**You need**" in text[0] and "**You will have**" in text[0]


@each
def test_outputs_are_committed_and_hold_no_path_of_a_machine(path):
    code = cells(path, "code")
    shown = [cell for cell in code[2:] if cell["outputs"]]
    assert len(shown) == len(code[2:]), "run `make notebooks`"
    text = json.dumps([cell["outputs"] for cell in code])
    assert not re.search(r"/(home|root|tmp|work|Users)/", text)
    assert '"error"' not in text and "Traceback" not in text


@each
def test_compared_cells_hold_no_measured_number(path):
    """The mark M stands beside measured numbers; nbval must not compare those."""
    for cell in cells(path, "code"):
        if "NBVAL_CHECK_OUTPUT" in "".join(cell["source"]):
            text = json.dumps(cell["outputs"])
            assert 'title=\\"measured\\"' not in text and not re.search(r"\d M\b(?! parameters|\s*\()", text), "".join(cell["source"])
