"""The pinned parameter counts, and that they belong to the configs beside them."""

import re
from pathlib import Path

import pytest
from neuronfit.catalog import models, published
from neuronfit.errors import NotFound

CONFIGS = Path(__file__).parent.parent / "params" / "models"

PUBLISHED = {
    # model_key: what the named source prints
    "albert-base-v2": 11_683_584,
    "bert-base-uncased": 109_482_240,
    "bert-large-uncased": 335_141_888,
    "distilbert-base-uncased": 66_362_880,
    "xlm-roberta-base": 278_295_186,
    "flan-t5-xl": 2_849_757_184,
}
"""The sources of the others count a different set of layers; the difference is in the next table."""

PUBLISHED_OTHERWISE = {
    # model_key: what the source prints, what to add for the model measured by the vendor
    "electra-base-discriminator": (109_482_240, -(768 * 768 + 768)),
    "roberta-base": (124_052_736, 768 * 768 + 768 + 2 * 768 + 768),
    "roberta-large": (354_307_072, 1024 * 1024 + 1024 + 2 * 1024 + 1024),
}


def test_ten_models_with_a_config_each():
    keys = [facts.model_key for facts in models.every()]
    assert len(keys) == len(set(keys)) == 10
    assert sorted(keys) == sorted(folder.name for folder in CONFIGS.iterdir() if (folder / "config.json").is_file())


@pytest.mark.parametrize("facts", models.every(), ids=lambda facts: facts.model_key)
def test_formula_gives_the_count(facts):
    assert re.fullmatch(r"[\d+*() ]+", facts.formula)
    assert eval(facts.formula) == facts.parameters


@pytest.mark.parametrize("model_key, count", PUBLISHED.items())
def test_count_agrees_with_its_source(model_key, count):
    facts = models.find(model_key)
    assert facts.parameters == count
    assert str(count) in facts.source


@pytest.mark.parametrize("model_key, printed, difference", [(key, *row) for key, row in PUBLISHED_OTHERWISE.items()])
def test_count_follows_from_its_source(model_key, printed, difference):
    facts = models.find(model_key)
    assert facts.parameters == printed + difference
    assert str(printed) in facts.source


@pytest.mark.parametrize("facts", models.every(), ids=lambda facts: facts.model_key)
def test_every_row_has_a_source_and_a_date(facts):
    assert facts.source and facts.note
    assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", facts.as_of)


def test_every_model_of_the_vendor_page_is_here():
    named = {row.model for row in published.every() if row.model in {facts.name for facts in models.every()}}
    assert named == {facts.name for facts in models.every()}


def test_find_takes_the_folder_name_and_the_full_name():
    assert models.find("flan-t5-xl") is models.find("google/flan-t5-xl")


def test_unknown_model_names_the_nearest():
    with pytest.raises(NotFound, match="bert-base-cased.*bert-base-uncased"):
        models.find("bert-base-cased")
