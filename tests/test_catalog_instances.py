"""What is inside an instance, checked against the datasheets and architecture pages by hand."""

import pytest
from neuronfit.catalog import instances
from neuronfit.errors import NotFound

GIB = 2**30


def test_l4_instance():
    row = instances.find("g6.xlarge")
    assert (row.vendor, row.vcpus, row.memory_bytes) == ("nvidia", 4, 16 * GIB)
    assert (row.accelerator_name, row.accelerator_count) == ("NVIDIA L4", 1)
    assert row.accelerator_memory_bytes == 22888 * 2**20  # usable MiB, not the 24 GB on the box
    assert row.memory_bandwidth_bytes_per_s == 300e9
    assert row.peak_flops["bf16"] == 121e12  # the headline 242 assumes sparsity
    assert (row.neuroncores, row.generation, row.compiler_target) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "generation", "chips", "cores", "logical", "memory_gib", "bandwidth", "bf16", "target"),
    [
        ("inf1.24xlarge", "inf1", 16, 64, 64, 128, 16 * 50 * GIB, 16 * 64e12, None),
        ("inf2.xlarge", "inf2", 1, 2, 2, 32, 820 * GIB, 190e12, "inf2"),
        ("inf2.48xlarge", "inf2", 12, 24, 24, 384, 9840 * GIB, 2280e12, "inf2"),
        ("trn1.2xlarge", "trn1", 1, 2, 2, 32, 820 * GIB, 190e12, "trn1"),
        ("trn1.32xlarge", "trn1", 16, 32, 32, 512, 13120 * GIB, 3040e12, "trn1"),
        ("trn1n.32xlarge", "trn1", 16, 32, 32, 512, 13120 * GIB, 3040e12, "trn1n"),
        ("trn2.3xlarge", "trn2", 1, 8, 4, 96, 2.9e12, 667e12, "trn2"),
        ("trn2.48xlarge", "trn2", 16, 128, 64, 1536, 46.4e12, 16 * 667e12, "trn2"),
        ("trn3-gen1-ultraserver", "trn3", 64, 512, 256, 9216, 313.6e12, 42944e12, "trn3"),
    ],
)
def test_neuron_instances(name, generation, chips, cores, logical, memory_gib, bandwidth, bf16, target):
    row = instances.find(name)
    assert row.vendor == "aws_neuron"
    assert (row.generation, row.accelerator_count, row.neuroncores) == (generation, chips, cores)
    assert row.logical_neuroncores == logical
    assert row.accelerator_memory_bytes == memory_gib * GIB
    assert row.memory_bandwidth_bytes_per_s == pytest.approx(bandwidth)
    assert row.peak_flops["bf16"] == pytest.approx(bf16)
    assert row.compiler_target == target


def test_trainium2_memory_overrides_the_api_and_says_so():
    for name in ("trn2.3xlarge", "trn2.48xlarge"):
        row = instances.find(name)
        assert row.accelerator_memory_bytes_each == 96 * GIB
        assert "512 GiB" in row.note
    assert "not known" in instances.find("trn2.3xlarge").note


def test_totals_are_count_times_each():
    for row in instances.every(level=None):
        assert row.accelerator_memory_bytes == row.accelerator_count * row.accelerator_memory_bytes_each
        assert row.accelerator_count > 0
        for dtype, total in row.peak_flops.items():
            assert total == pytest.approx(row.peak_flops_each[dtype] * row.accelerator_count)
            assert 1e12 < row.peak_flops_each[dtype] < 1e16, row
        if row.vendor == "aws_neuron":
            assert row.neuroncores == row.neuroncores_per_chip * row.accelerator_count
            assert row.family.startswith(row.generation)
        else:
            assert row.vendor == "nvidia" and row.neuroncores is None and row.logical_neuroncores is None


def test_a_slice_of_a_gpu_has_a_slice_of_its_memory():
    row = instances.find("g6f.xlarge")
    assert row.accelerator_count == 0.125
    assert row.accelerator_memory_bytes == 2861 * 2**20  # 22888 / 8
    assert isinstance(instances.find("g6.xlarge").accelerator_count, int)


def test_formats_the_hardware_lacks_have_no_peak():
    assert not {"bf16", "tf32", "fp8"} & set(instances.find("g4dn.xlarge").peak_flops)
    assert "fp8" not in instances.find("p4d.24xlarge").peak_flops


@pytest.mark.parametrize(("typo", "meant"), [("g6.xlrage", "g6.xlarge"), ("inf2.xlage", "inf2.xlarge"), ("TRN1.2XLARG", "trn1.2xlarge")])
def test_not_found_names_the_nearest_first(typo, meant):
    with pytest.raises(NotFound) as caught:
        instances.find(typo)
    assert typo in str(caught.value)
    assert str(caught.value).split("nearest: ")[1].split(",")[0] == meant


def test_every_is_instances_unless_asked():
    assert {row.level for row in instances.every()} == {"instance"}
    assert len(instances.every(level=None)) - len(instances.every()) == 3
    assert {hash(row) for row in instances.every()}
