"""Which software runs where: pins come from one release, refusals say why."""

import pytest
from neuronfit.catalog import instances, paths, sources, traps
from neuronfit.errors import NotFound


def test_transformers_versions_are_stated_where_a_source_states_them():
    """Release contents of SDK 2.32 (trace, NxD Inference, vLLM Neuron), package metadata of Optimum Neuron 0.4.5; elsewhere no page says."""
    stated = {(one.path, one.transformers) for one in paths.every() if one.supported}
    assert {("neuron_xla", ">=4.52"), ("nxd_inference", "==4.57.*"), ("vllm_neuron", ">=4.56,<5"), ("optimum_neuron", "~=4.57.1")} <= stated
    assert ("neuron_native", None) in stated and ("jax", None) in stated and ("torch_neuron", None) in stated
    assert all((one.transformers is None) == (one.transformers_source is None) for one in paths.every())
    assert {one.transformers_source for one in paths.every()} - {None} <= {source.id for source in sources.every()}
    assert any("version 5" in said for said in paths.find("vllm_neuron", "trn2.48xlarge").contradictions)


@pytest.mark.parametrize(
    ("path", "generation", "model_type", "kind", "codes"),
    [
        ("neuron_xla", "inf2", "yolos", "vision", {"trace_segfault"}),
        ("neuron_xla", "trn1", "wav2vec2", "speech", {"trace_segfault"}),
        ("neuron_xla", "inf2", "bert", "encoder", set()),
        ("neuron_native", "trn2", "yolos", "vision", set()),
        ("neuron_xla", "inf2", "llama", "decoder", {"generation_loop_outside"}),
        ("vllm_neuron", "trn2", "llama", "decoder", {"model_not_in_matrix", "recipe_dropped"}),
        ("vllm_neuron", "trn2", "gpt_oss", "decoder", {"mxfp4_trn3_only"}),
        ("vllm_neuron", "trn3", "gpt_oss", "decoder", set()),
        ("vllm_neuron", "trn2", "bert", "encoder", {"not_a_decoder"}),
        ("nxd_inference", "inf2", "qwen3", "decoder", set()),
        ("nxd_inference", "inf2", "falcon", "decoder", {"model_not_listed"}),
        ("cuda", None, "yolos", "vision", set()),
    ],
)
def test_known_traps_concern_the_models_they_are_about(path, generation, model_type, kind, codes):
    assert {trap.code for trap in traps.known(path, generation, model_type, kind)} == codes


@pytest.mark.parametrize(("versions", "first_out"), [("==4.57.*", (4, 58)), ("~=4.57.1", (4, 58)), (">=4.56,<5", (5,)), (">=4.52", None)])
def test_the_first_release_that_a_range_shuts_out(versions, first_out):
    assert traps.newest_allowed(versions) == first_out


def test_inf2_is_served_by_the_frozen_xla_build():
    path = paths.find("neuron_xla", "inf2.xlarge")
    assert path.supported and path.generation == "inf2"
    assert (path.sdk, path.torch, path.compiler) == ("2.31.1", "2.9", "2.26.6360.0")
    assert path.packages["torch-neuronx"] == "2.9.0.2.15.32035"
    assert path.packages["neuronx-cc"] == "2.26.6360.0"
    assert "maintenance" in path.status and path.until == "not announced"
    assert path.contradictions


def test_native_pytorch_is_refused_on_inf2_with_the_reason():
    path = paths.find("neuron_native", "inf2.xlarge")
    assert not path.supported and "Trn2 and Trn3 only" in path.advice
    trn2 = paths.find("neuron_native", "trn2.3xlarge")
    assert trn2.supported and trn2.sdk == "2.33.0" and trn2.python == ("3.12", "3.13", "3.14")


@pytest.mark.parametrize(
    ("path", "instance_type", "supported"),
    [
        ("cuda", "g6.xlarge", True),
        ("cuda", "inf2.xlarge", False),
        ("neuron_xla", "g6.xlarge", False),
        ("neuron_xla", "inf1.xlarge", False),
        ("torch_neuron", "inf1.xlarge", True),
        ("torch_neuron", "trn1.2xlarge", False),
        ("vllm_neuron", "trn2.48xlarge", True),
        ("vllm_neuron", "inf2.48xlarge", False),
        ("nxd_inference", "inf2.48xlarge", True),
        ("jax", "trn1.32xlarge", True),
        ("tensorflow", "inf2.xlarge", False),
        ("optimum_neuron", "inf2.xlarge", True),
        ("optimum_neuron", "trn3-gen1-ultraserver", False),
        ("cpu", "m7i.xlarge", True),
        ("endpoint", "wherever", True),
    ],
)
def test_support(path, instance_type, supported):
    assert paths.find(path, instance_type).supported is supported


def test_nxd_inference_ends_on_trn2_only():
    assert paths.find("nxd_inference", "trn2.48xlarge").until == "2.33"
    assert paths.find("nxd_inference", "inf2.xlarge").until == "not announced"


def test_every_path_answers_for_every_instance():
    for path in paths.PATHS:
        for instance in instances.every(level=None):
            found = paths.find(path, instance.instance_type)
            assert found.path == path and found.advice and found.status and found.as_of


def test_pins_are_listed_together_by_the_release_they_name():
    for path in paths.every():
        if path.supported and path.packages:
            generation = None if path.sdk == "2.33.0" else path.generation  # only part of 2.33.0 was seen
            listed = paths.packages(path.sdk, generation)
            for name, version in path.packages.items():
                assert version in listed[name], (path.path, path.generation, name)
            assert path.compiler in {path.packages.get("neuronx-cc"), path.packages.get("neuron-cc")}
        if not path.supported:
            assert not path.packages and path.sdk is None


def test_sdk_releases():
    release = paths.sdk("2.31.1")
    assert (release.date, release.complete) == ("2026-08-12", True)
    assert {"trn1", "inf2", "trn2", "trn3"} <= set(release.generations)
    assert not paths.sdk("2.33.0").complete
    assert paths.sdks()[0] == "2.33.0" and paths.sdks()[-1] == "2.3.0"
    assert "torch-neuronx" not in paths.packages("2.32.0")
    assert paths.packages("2.28.1", "inf2")["torch-neuronx"] == (
        "2.9.0.2.12.22436", "2.7.0.2.12.22436", "2.8.0.2.12.22436",
    )  # fmt: skip


def test_unknown_names():
    with pytest.raises(NotFound, match="neuron_xla"):
        paths.find("neuron-xla", "inf2.xlarge")
    with pytest.raises(NotFound, match="inf2.xlarge"):
        paths.find("neuron_xla", "inf2.xlrge")
    with pytest.raises(NotFound, match="2.31.1"):
        paths.sdk("2.31")
