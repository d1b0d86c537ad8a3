"""Compiler codes, runtime statuses and texts: complete, dated, and written to be read."""

import re

import pytest
from neuronfit.catalog import compiler_codes, sources
from neuronfit.errors import NotFound

DATE = re.compile(r"20\d\d(-[01]\d(-[0-3]\d)?)?$")


def test_the_documented_codes_are_there():
    """57 codes of the index page of SDK 2.32, with a few that stand elsewhere."""
    codes = {entry.code for entry in compiler_codes.every() if entry.kind == "compiler"}
    verifier = {f"NCC_EVRF{number:03}" for number in (*range(35, 66), 1, 4, 5, 6, 7, 9, 10, 11, 13, 15, 16, 17, 18, 19, 22, 31)}
    others = {
        "NCC_" + name for name in "EARG001 EBIR023 EBVF030 EHCA005 EMOD025 EOOM001 EOOM002 ESFH002 ESPP004 ESPP047 EUOC002 EXSP001 EXTP004".split()
    }
    assert verifier | others <= codes
    assert len(codes) == 71


@pytest.mark.parametrize(
    ("number", "name", "category"),
    [(2, "NRT_INVALID", "core_count"), (4, "NRT_RESOURCE", "device_memory"), (5, "NRT_TIMEOUT", "timeout"), (10, "NRT_UNSUPPORTED_NEFF_VERSION", "neff_version"), (101, "NRT_EXEC_UNIT_UNRECOVERABLE", "hardware"), (1003, "NRT_EXEC_COMPLETED_WITH_NUM_ERR", "numerical"), (1005, "NRT_EXEC_NC_BUSY", "cores_busy"), (1006, "NRT_EXEC_OOB", "bounds")],
)  # fmt: skip
def test_runtime_statuses_by_number_and_name(number, name, category):
    by_number = compiler_codes.runtime_status(number)
    assert by_number is compiler_codes.runtime_status(str(number)) is compiler_codes.runtime_status(name)
    assert (by_number.code, by_number.category) == (name, category)


def test_all_28_runtime_statuses_are_there_once():
    numbers = [entry.number for entry in compiler_codes.every() if entry.kind == "runtime"]
    assert sorted(numbers) == [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 13, 14, 15, 101, 1002, 1003, 1004, 1005, 1006, 1100, *range(1200, 1207)]
    assert compiler_codes.runtime_status(8) is None and compiler_codes.runtime_status("NCC_EVRF001") is None


@pytest.mark.parametrize("spelling", ["NCC_EVRF001", "EVRF001", "[NCC_EVRF001]"])
def test_a_code_is_found_however_it_is_written(spelling):
    assert compiler_codes.find(spelling).code == "NCC_EVRF001"


def test_an_unknown_code_names_the_nearest():
    assert compiler_codes.known("NCC_EVRF999") is None
    with pytest.raises(NotFound, match="NCC_EVRF0"):
        compiler_codes.find("NCC_EVRF099")


def test_rows_are_complete_dated_and_unique():
    known = {source.id for source in sources.every()}
    seen = set()
    for entry in compiler_codes.every():
        assert entry.kind in compiler_codes.KINDS and entry.level in compiler_codes.LEVELS
        assert entry.source in known and DATE.match(entry.as_of), entry
        key = (entry.kind, entry.code, entry.find)
        assert key not in seen, key
        seen.add(key)
        assert (entry.find is not None) == (entry.kind == "signature")
        assert (entry.number is not None) == (entry.kind in ("runtime", "exit"))


def test_titles_and_steps_are_sentences_without_a_full_stop():
    for entry in compiler_codes.every():
        assert entry.title[0].isupper() or entry.title.startswith(("vLLM", "neuron")), entry.title
        assert not entry.title.endswith(".") and len(entry.title) < 130, entry.title
        for step in entry.steps:
            assert step[0].islower() or step.split()[0] in ("TP", "NKI"), step
            assert not step.endswith("."), step


def test_spellings_of_one_signature_agree():
    """A code means one thing: same category for all its spellings but those that are worse or milder."""
    by_code: dict[str, set[str]] = {}
    for entry in compiler_codes.signatures():
        by_code.setdefault(entry.code, set()).add(entry.category)
    mixed = {code for code, categories in by_code.items() if len(categories) > 1}
    assert mixed == {"compile_failed"}, mixed


def test_texts_to_look_for_are_long_enough_and_none_hides_another_code():
    entries = compiler_codes.signatures()
    for entry in entries:
        assert len(entry.find.encode()) >= 6, entry.find
    for one in entries:
        for other in entries:
            if one is not other and one.find in other.find:
                assert (
                    one.code == other.code
                    or (one.category, other.category) in {("harmless", "harmless"), ("host_memory", "host_memory")}
                    or one.level != other.level
                ), (one.find, other.find)
