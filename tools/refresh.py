"""Write what is committed although it is generated. `make sample`, `make notebooks`, `make schema`.

sample      reports/sample/: records, report.html and report.json of bert-base-uncased
notebooks   executes notebooks/*.ipynb in place, so that they read well where they are only looked at
schema      params/params.schema.json, for editors
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORKLOAD = "bert-base-uncased"


def sample() -> None:
    from neuronfit import Dossier, report
    from neuronfit.question import Question
    from neuronfit.series import run

    with tempfile.TemporaryDirectory() as folder:
        question = Question.from_file(Path("params") / f"{WORKLOAD}.yaml", reports=folder)
        outcome = run(question)
        if outcome.failed:
            sys.exit(f"step {outcome.failed.step} failed: {outcome.failed}")
        target = ROOT / "reports" / "sample"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(question.dossier.records_folder, target / "records")
    report.write(Dossier(target))


def notebooks() -> None:
    import nbformat
    from nbclient import NotebookClient
    from neuronfit.series import ENVIRONMENT, ORDER, notebook

    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(ENVIRONMENT, NEURONFIT_REPORTS=folder)
        for step in ORDER:
            path = notebook(step)
            print(path.name)
            book = nbformat.read(path, as_version=4)
            NotebookClient(book, kernel_name="python3", timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
            for cell in book.cells:
                cell.metadata.pop("execution", None)
            text = nbformat.writes(book)
            path.write_text(text.replace(folder, "reports") + "\n", encoding="utf-8")


def schema() -> None:
    from neuronfit.params import json_schema

    path = ROOT / "params" / "params.schema.json"
    path.write_text(json.dumps(json_schema(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.chdir(ROOT)
    {"sample": sample, "notebooks": notebooks, "schema": schema}[sys.argv[1]]()
