"""Every row of every catalogue file has a source and a date, and the files are complete."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import neuronfit.catalog
import pytest
from neuronfit.catalog import sources, tables
from neuronfit.errors import NotFound

FOLDER = Path(neuronfit.catalog.__file__).parent
ROWS = {
    "instances": 86,
    "prices": 1715 + 28,
    "claims": 22,
    "deployments": 6,
    "published": 20 + 138 + 381 + 18,
    "collections": 9,
    "paths": 46,
    "traps": 10,
    "sdk_versions": 819,
    "operators": 134,
    "hlo_opcodes": 106,
    "compiler_codes": 323,
}
SINGLE_KEY = {
    "sources": ("id",),
    "instances": ("instance_type",),
    "published": ("row_id",),
    "collections": ("collection",),
    "claims": ("id",),
    "deployments": ("option",),
    "paths": ("path", "generation"),
    "traps": ("path", "generations", "code"),
    "operators": ("name", "generations"),
    "hlo_opcodes": ("opcode",),
    "compiler_codes": ("kind", "code", "find"),
    "prices": ("instance_type", "region", "purchase_option", "as_of", "source"),
    "sdk_versions": ("sdk", "package", "version", "generations"),
}
DATE = re.compile(r"20\d\d(-[01]\d(-[0-3]\d)?)?$")


@pytest.mark.parametrize("name", ROWS)
def test_row_count(name):
    assert len(tables.read(name)) == ROWS[name]


@pytest.mark.parametrize("name", ROWS)
def test_every_row_has_a_known_source_and_a_date(name):
    known = {source.id for source in sources.every()}
    for row in tables.read(name):
        assert row["source"] in known, row
        assert DATE.match(row["as_of"]), row


@pytest.mark.parametrize("name", SINGLE_KEY)
def test_no_duplicate_keys(name):
    keys = [tuple(row[column] for column in SINGLE_KEY[name]) for row in tables.read(name)]
    assert len(keys) == len(set(keys)), sorted(key for key in keys if keys.count(key) > 1)[:5]


@pytest.mark.parametrize("name", [*ROWS, "sources"])
def test_rows_have_exactly_the_columns_of_the_header(name):
    for row in tables.read(name):
        assert None not in row and None not in row.values(), row


def test_every_source_is_complete_and_used():
    used = {row["source"] for name in ROWS for row in tables.read(name)}
    used |= {row["accelerator_source"] for row in tables.read("instances")}
    for source in sources.every():
        assert source.title and source.location and source.trust, source
        assert DATE.match(source.as_of), source
    assert {source.id for source in sources.every()} == used


def test_published_conditions_are_json_of_texts_and_collections_exist():
    known = {row["collection"] for row in tables.read("collections")}
    for row in tables.read("published"):
        assert row["collection"] in known
        assert row["row_id"].startswith(row["collection"] + "/")
        for key, value in json.loads(row["conditions"] or "{}").items():
            assert isinstance(key, str) and isinstance(value, str) and value, row


def test_unknown_source_names_the_nearest():
    with pytest.raises(NotFound, match="trt-bert-10.8"):
        sources.find("trt-bert-10.9")


def test_files_stay_small_and_free_of_local_paths():
    for path in FOLDER.iterdir():
        if path.suffix in (".csv", ".py"):
            text = path.read_text(encoding="utf-8")
            assert path.stat().st_size < 400_000, path
            assert not re.search(r"/(work|tmp|home)/|localhost", text), path


def test_modules_are_small_and_import_without_reading_files():
    names = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
    script = (
        "import sys\n"
        "def refuse(event, details):\n"
        "    assert event != 'open' or not str(details[0]).endswith('.csv'), f'{details[0]} read at import'\n"
        "sys.addaudithook(refuse)\n"
        + "".join(f"import neuronfit.catalog.{name}\n" for name in names)
        + "assert 'pandas' not in sys.modules and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=FOLDER.parents[1], timeout=60)
    for name in names:
        source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        assert ast.get_docstring(ast.parse(source)), name
        assert len(source.splitlines()) < 450, name


def test_table_of_contents_names_every_module():
    for path in FOLDER.glob("*.py"):
        if path.stem != "__init__":
            assert f"``{path.stem}``" in neuronfit.catalog.__doc__, path.stem
