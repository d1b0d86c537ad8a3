"""Operator statements: a whitelist that never blocks, and documented restrictions that do."""

import pytest
from neuronfit.catalog import operators
from neuronfit.errors import NotFound


@pytest.mark.parametrize("name", ["add", "aten.add.Tensor", "aten::add", "aten::add.Tensor", "torch.ops.aten.add.Tensor", "aten::add_"])
def test_names_with_and_without_overload(name):
    found = operators.status(name)
    assert found.status == "listed"
    assert found.name in ("add", "add_")


def test_the_list_has_41_names():
    listed = [found for found in operators.every() if found.status == "listed"]
    assert len({found.name for found in listed}) == len(listed) == 41


@pytest.mark.parametrize("name", ["aten::gelu", "aten.native_layer_norm.default", "aten::cat", "aten::no_such_one"])
def test_absence_from_the_list_is_not_a_blocker(name):
    found = operators.status(name, "inf2")
    assert found.status == "no_statement"
    assert found.because == "no documented blocker found"


@pytest.mark.parametrize(
    ("name", "generation", "status", "when"),
    [
        ("aten::fft_fft", "inf2", "unsupported", "always"),
        ("aten._fft_r2c.default", "trn2", "unsupported", "always"),
        ("aten::nonzero", "trn1", "unsupported", "always"),
        ("aten::sort", "inf2", "unsupported", "always"),
        ("aten::sort", "trn2", "restricted", "always"),
        ("aten::view_as_complex", "trn1", "unsupported", "always"),
        ("aten::view_as_complex", "trn2", "restricted", "complex input"),
        ("aten.topk.default", "trn1", "restricted", "integer input"),
        ("aten.max_pool2d_with_indices.default", "inf2", "restricted", "dilation > 1"),
        ("aten._local_scalar_dense.default", "inf2", "unsupported", "always"),
        ("aten.scatter_reduce.two", "trn3", "restricted", "integer or boolean input"),
        ("aten.scatter_reduce_.two", "trn3", "restricted", "integer or boolean input"),
        ("aten.mm.default", "trn2", "listed", "integer input"),
        ("aten.conv3d.default", "trn2", "no_statement", None),
    ],
)
def test_documented_statements(name, generation, status, when):
    found = operators.status(name, generation)
    assert (found.status, found.when) == (status, when)
    assert found.because and found.source and found.as_of


def test_without_a_generation_the_most_severe_statement_counts():
    assert operators.status("aten::sort").status == "unsupported"


def test_the_list_says_nothing_about_inf1():
    assert operators.status("aten::add", "inf1").status == "no_statement"


def test_what_stops_a_model_says_what_to_do_instead():
    for found in operators.every():
        assert found.when is None or found.when in operators.WHEN, found
        if found.status in ("unsupported", "restricted"):
            assert found.rewrite and found.when, found


def test_unknown_generation():
    with pytest.raises(NotFound, match="trn2"):
        operators.status("aten::add", "trn9")
