"""The static operator check: each restriction in a model that breaks it, and in the same model rewritten."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from neuronfit import check, model
from neuronfit.catalog import models, operators, sources
from neuronfit.check import rules
from neuronfit.check.findings import Target
from neuronfit.check.rules import Call, Value
from neuronfit.errors import NotFound
from torch import nn

CONFIGS = Path(__file__).parent.parent / "params" / "models"
SOURCE = Path(__file__).read_text(encoding="utf-8").splitlines()


def line_of(mark):
    """The line of this file that ends with ``# <- mark``."""
    (number,) = [number for number, text in enumerate(SOURCE, 1) if text.endswith(f"# <- {mark}")]
    return number


# --- pairs: broken, and rewritten as the finding advises ---------------------------------------------


class Spectrum(nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x).abs()  # <- fft


class SpectrumAsProduct(nn.Module):
    def __init__(self, n=8):
        super().__init__()
        angle = 2 * math.pi * torch.outer(torch.arange(n), torch.arange(n // 2 + 1)) / n
        self.register_buffer("cosine", torch.cos(angle))
        self.register_buffer("sine", torch.sin(angle))

    def forward(self, x):
        return torch.sqrt((x @ self.cosine) ** 2 + (x @ self.sine) ** 2)


class SumOfPositive(nn.Module):
    def forward(self, x):
        rows = torch.nonzero(x > 0)  # <- nonzero
        return x[rows].sum()


class SumOfPositiveMasked(nn.Module):
    def forward(self, x):
        return torch.where(x > 0, x, 0.0).sum()


class PickedByMask(nn.Module):
    def forward(self, x):
        return x[x > 0].sum()  # <- mask


class Settle(nn.Module):
    def forward(self, x):
        while x.sum() > 1:  # <- loop
            x = x * 0.5
        return x


class SettleInFixedSteps(nn.Module):
    def forward(self, x):
        for _ in range(8):
            x = torch.where(x.sum() > 1, x * 0.5, x)
        return x


class ComplexLinear(nn.Module):
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(8, 8, dtype=torch.complex64, generator=generator))

    def forward(self, x):
        return (x.to(torch.complex64) @ self.weight).real  # <- complex


class ComplexLinearInParts(nn.Module):
    def __init__(self):
        super().__init__()
        weight = ComplexLinear().weight.detach()
        self.real = nn.Parameter(weight.real.clone())

    def forward(self, x):
        return x @ self.real


class Pooled(nn.Module):
    def __init__(self, dilation=2):
        super().__init__()
        self.pool = nn.MaxPool2d(2, stride=1, dilation=dilation)

    def forward(self, x):
        image = x.view(1, 1, 8, 8)
        return self.pool(image)  # <- pool


class PooledByHand(nn.Module):
    """A 2x2 window with dilation 2 as the maximum of four shifted slices."""

    def forward(self, x):
        image = x.view(1, 1, 8, 8)
        rows = torch.maximum(image[:, :, :-2], image[:, :, 2:])
        return torch.maximum(rows[..., :-2], rows[..., 2:])


class LargestIntegers(nn.Module):
    def forward(self, x):
        whole = (x * 100).long()
        return torch.topk(whole, 2).values  # <- topk


class LargestIntegersAsFloats(nn.Module):
    def forward(self, x):
        whole = (x * 100).long()
        return torch.topk(whole.float(), 2).values.long()


class Ordered(nn.Module):
    def forward(self, x):
        return torch.sort(x, descending=True).values  # <- sort


class OrderedByTopk(nn.Module):
    def forward(self, x):
        return torch.topk(x, x.shape[-1]).values


class Scaled(nn.Module):
    def forward(self, x):
        factor = x.max().item()  # <- item
        return x / factor


class ScaledByTensor(nn.Module):
    def forward(self, x):
        return x / x.max()


class Upsampled(nn.Module):
    def __init__(self, stride=2, dilation=2):
        super().__init__()
        self.up = nn.ConvTranspose2d(1, 1, 3, stride=stride, dilation=dilation, bias=False)

    def forward(self, x):
        return self.up(x.view(1, 1, 8, 8))  # <- transposed


class UpsampledFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 1, 3, dilation=2)

    def forward(self, x):
        return self.convolution(nn.functional.interpolate(x.view(1, 1, 8, 8), scale_factor=2))


class Solved(nn.Module):
    def forward(self, x):
        triangle = torch.tril(x.view(8, 8)) + torch.eye(8)
        return torch.linalg.solve_triangular(triangle, x.view(8, 8), upper=False)  # <- solve


class SolvedByInverse(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("inverse", torch.eye(8))

    def forward(self, x):
        return self.inverse @ x.view(8, 8)


class Reduced(nn.Module):
    def forward(self, x):
        whole = (x.view(8, 8) * 10).to(torch.int32)
        index = torch.zeros(8, 8, dtype=torch.int64)
        return torch.zeros(8, 8, dtype=torch.int32).scatter_reduce(0, index, whole, "amax")  # <- reduce


class ReducedAsFloats(nn.Module):
    def forward(self, x):
        index = torch.zeros(8, 8, dtype=torch.int64)
        return torch.zeros(8, 8).scatter_reduce(0, index, x.view(8, 8), "amax")


class Shifted(nn.Module):
    def forward(self, x):
        small = (x * 10).to(torch.int8)
        return small >> 1  # <- shift


class ShiftedIn32Bits(nn.Module):
    def forward(self, x):
        return (x * 10).to(torch.int32) >> 1


class Quantised(nn.Module):
    def forward(self, x):
        return x.to(torch.float8_e4m3fnuz).to(torch.float32)  # <- fnuz


class QuantisedToBfloat(nn.Module):
    def forward(self, x):
        return x.to(torch.bfloat16).to(torch.float32)


PAIRS = {
    "fft": (Spectrum, SpectrumAsProduct, 8, "fft", "aten.fft_rfft.default"),
    "nonzero": (SumOfPositive, SumOfPositiveMasked, 8, "data_dependent_size", "aten.nonzero.default"),
    "mask": (PickedByMask, SumOfPositiveMasked, 8, "data_dependent_size", "aten.index.Tensor"),
    "loop": (Settle, SettleInFixedSteps, 8, "graph_break", "aten.item.default"),
    "complex": (ComplexLinear, ComplexLinearInParts, 8, "complex", "aten.to.dtype"),
    "pool": (Pooled, PooledByHand, 64, "dilated_pooling", "aten.max_pool2d.default"),
    "topk": (LargestIntegers, LargestIntegersAsFloats, 8, "topk_integer", "aten.topk.default"),
    "sort": (Ordered, OrderedByTopk, 8, "sort", "aten.sort.default"),
    "item": (Scaled, ScaledByTensor, 8, "host_value", "aten.item.default"),
    "transposed": (Upsampled, UpsampledFirst, 64, "dilated_transposed_convolution", "aten.conv_transpose2d.input"),
    "solve": (Solved, SolvedByInverse, 64, "triangular_solve", "aten.linalg_solve_triangular.default"),
    "reduce": (Reduced, ReducedAsFloats, 64, "scatter_reduce_integer", "aten.scatter_reduce.two"),
    "shift": (Shifted, ShiftedIn32Bits, 8, "shift_width", "aten.__rshift__.Scalar"),
    "fnuz": (Quantised, QuantisedToBfloat, 8, "fp8_fnuz", "aten.to.dtype"),
}


def values(size):
    return torch.linspace(-1, 1, size)


@pytest.mark.parametrize("mark", PAIRS)
@pytest.mark.parametrize("generation", ["inf2", "trn1"])
def test_a_blocker_is_found_at_its_line_and_goes_away_when_rewritten(mark, generation):
    broken, rewritten, size, code, operator = PAIRS[mark]
    found = check.check_module(broken(), values(size), generation).blockers
    assert {(one.code, one.line) for one in found if one.code == code} == {(code, line_of(mark))}
    one = next(one for one in found if one.code == code)
    assert one.operator == operator
    assert one.file == "tests/test_check.py"
    assert one.text and one.text in SOURCE[one.line - 1]
    assert one.rewrite and generation in one.generations
    assert sources.find(one.source) and one.as_of

    after = check.check_module(rewritten(), values(size), generation)
    assert after.complete and after.how == "torch.export non-strict on cpu"
    assert after.blockers == ()


@pytest.mark.parametrize("mark", ["fft", "mask", "loop", "complex", "pool", "topk", "sort"])
def test_the_rewrite_computes_the_same(mark):
    broken, rewritten, size, _, _ = PAIRS[mark]
    with torch.no_grad():
        torch.testing.assert_close(rewritten()(values(size)), broken()(values(size)), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mark", ["nonzero", "mask", "loop", "pool", "topk", "item", "transposed", "solve", "reduce", "shift", "fnuz"])
@pytest.mark.parametrize("generation", ["trn2", "trn3"])
def test_the_same_blockers_on_the_native_backend(mark, generation):
    broken, rewritten, size, code, _ = PAIRS[mark]
    assert code in {one.code for one in check.check_module(broken(), values(size), generation).blockers}
    assert check.check_module(rewritten(), values(size), generation).blockers == ()


@pytest.mark.parametrize(("mark", "code"), [("fft", "fft"), ("complex", "complex"), ("sort", "sort")])
def test_what_the_native_backend_may_take_is_conditional_there_and_a_blocker_on_xla(mark, code):
    broken, rewritten, size, _, _ = PAIRS[mark]
    native = check.check_module(broken(), values(size), "trn2")
    assert native.blockers == ()
    (one,) = {one.code: one for one in native.findings if one.code == code}.values()
    assert (one.severity, one.kept, one.line) == ("conditional", None, line_of(mark))
    assert one.condition and set(one.generations) == {"trn2", "trn3"}
    xla = check.check_module(broken(), values(size), "trn2", path="neuron_xla")
    assert code in {one.code for one in xla.blockers}
    assert code not in {one.code for one in check.check_module(rewritten(), values(size), "trn2").findings}


def test_the_fallback_still_finds_what_lies_behind_a_graph_break():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.settle, self.pool = Settle(), Pooled()

        def forward(self, x):
            return self.pool(self.settle(x))

    found = check.check_module(Both(), values(64) + 1, "inf2")
    assert not found.complete and found.how == "recorded run on cpu" and "data-dependent" in found.error
    assert {"graph_break", "dilated_pooling"} <= {one.code for one in found.blockers}
    (pool,) = [one for one in found.blockers if one.code == "dilated_pooling"]
    assert pool.line == line_of("pool")


def test_without_data_the_modules_still_tell():
    with torch.device("meta"):
        both = nn.Sequential(Settle(), Pooled())
    found = check.check_module(both, torch.empty(64, device="meta"), "inf2")
    assert not found.complete
    codes = {one.code: one for one in found.blockers}
    assert codes["graph_break"].line == line_of("loop")
    assert codes["dilated_pooling"].module == "1.pool"


def test_a_model_that_fails_for_another_reason_is_not_called_unsupported():
    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError("no such thing")  # <- fails

    found = check.check_module(Broken(), values(4), "inf2")
    (one,) = found.findings
    assert (one.code, one.severity, one.kept, one.line) == ("export_failed", "conditional", None, line_of("fails"))
    assert found.blockers == () and not found.complete


def test_a_finding_in_a_repeated_layer_is_one_finding_with_its_calls():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Pooled() for _ in range(5))

        def forward(self, x):
            return [layer(x) for layer in self.layers]

    (one,) = check.check_module(Stack(), values(64), "inf2").blockers
    assert (one.code, one.calls, one.module, one.module_type) == ("dilated_pooling", 5, "layers.0.pool", "MaxPool2d")
    assert one.where == f"tests/test_check.py:{line_of('pool')}, in layers.0.pool"


def test_without_a_line_of_the_user_every_module_is_named():
    found = check.check_module(nn.Sequential(nn.MaxPool1d(2, dilation=2), nn.MaxPool1d(2, dilation=2)), torch.ones(1, 1, 16), "inf2").blockers
    assert [(one.module, one.line) for one in found] == [("0", None), ("1", None)]


def sorted_in_a_helper(x):
    return torch.sort(x).values  # <- helper


def test_the_line_is_that_of_the_helper_a_call_stands_in():
    class Calls(nn.Module):
        def forward(self, x):
            return sorted_in_a_helper(x)

    (one,) = check.check_module(Calls(), values(8), "inf2").blockers
    assert (one.code, one.line) == ("sort", line_of("helper"))
    import torch.fx.proxy

    assert "check" not in torch.fx.proxy.TracerBase._filter_traceback_frames.__module__


def test_a_mixture_of_experts_sorts_unless_told_otherwise():
    config = {
        "model_type": "mixtral",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 101,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    }
    shape = {"batch_size": 1, "sequence_length": 16}
    default = check.check_config(config, "text-generation", shape, "inf2", experts="grouped_mm")
    (one,) = default.blockers
    assert (one.code, one.calls, one.file) == ("sort", 2, "transformers/integrations/moe.py")
    assert "batched_mm" in one.rewrite
    assert check.check_config(config, "text-generation", shape, "inf2", experts="batched_mm").blockers == ()


def test_training_mode_is_put_back():
    module = nn.Sequential(nn.Linear(8, 8), nn.Dropout())
    module[0].eval()
    assert check.check_module(module, values(8), "inf2").blockers == ()
    assert [part.training for part in module.modules()] == [True, False, True]


def test_check_graph_takes_a_program_its_module_or_its_graph():
    program = torch.export.export(LargestIntegers(), (values(8),), strict=False)
    for given in (program, program.graph_module, program.graph):
        codes = [one.code for one in check.check_graph(given, "trn1") if one.severity == "blocker"]
        assert codes == ["topk_integer"]


def test_branches_of_control_flow_are_looked_into():
    class Branches(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: torch.sort(x).values, lambda x: x.clone(), (x,))

    found = {one.code: one for one in check.check_module(Branches(), values(8), "inf2").findings}
    assert found["sort"].severity == "blocker"
    assert (found["control_flow"].severity, found["control_flow"].kept) == ("conditional", None)


# --- the models on the vendor's page -----------------------------------------------------------------


@pytest.mark.parametrize("facts", models.every(), ids=lambda facts: facts.model_key)
def test_the_ten_published_models_have_no_blocker(facts):
    """On any generation: all of them publish results there."""
    config = model.read_config(CONFIGS / facts.model_key)
    for name in ("num_hidden_layers", "num_layers", "num_decoder_layers", "n_layers"):
        if name in config:
            config[name] = 2  # the layers are alike
    inputs = model.example_inputs(config, facts.task, 1, 32, device="meta")
    skeleton = model.skeleton(config, facts.task)
    for generation in operators.GENERATIONS:
        found = check.check_module(skeleton, inputs, generation)
        assert found.complete
        assert found.blockers == (), generation
        assert all(one.kept is not False for one in found.findings)


def test_a_config_is_checked_without_weights():
    found = check.check_config(model.read_config(CONFIGS / "t5-3b"), "text2text-generation", {"batch_size": 1, "sequence_length": 16}, "trn1")
    assert found.complete and found.blockers == () and found.operators["aten.linear.default"] > 100


def test_the_list_of_41_operators_decides_nothing():
    """Every operator of the ten models that is not on it, with floating-point arguments."""
    for name in ("linear", "layer_norm", "gelu", "convolution", "softmax", "matmul", "no_such_operator"):
        call = Call(f"aten.{name}.default", {"self": Value("float32", (2, 2)), "weight": Value("float32", (2, 2))}, (Value("float32", (2, 2)),))
        assert operators.status(name).status != "listed"
        for generation, path in (("inf1", "torch_neuron"), ("inf2", "neuron_xla"), ("trn2", "neuron_native")):
            assert rules.judge(call, Target(generation, path)) is None


def test_no_listed_operator_is_blocked_for_its_name():
    for entry in operators.every():
        if entry.status == "listed":
            call = Call(f"aten.{entry.name}.default", {"self": Value("float32", (2,))}, (Value("float32", (2,)),))
            verdict = rules.judge(call, Target("inf2", "neuron_xla"))
            assert verdict is None or verdict.severity == "conditional", entry.name


# --- rules on single calls ---------------------------------------------------------------------------


def call(name, dtype="float32", out=None, **arguments):
    tensor = Value(dtype, (4, 4))
    return Call(f"aten.{name}.default", {"self": tensor, **arguments}, (Value(out or dtype, (4, 4)),))


def said(call, generation="inf2", path="neuron_xla", **flags):
    verdict = rules.judge(call, Target(generation, path, **flags))
    return (verdict.severity, verdict.code, verdict.kept) if verdict else None


NATIVE = {"generation": "trn2", "path": "neuron_native"}


@pytest.mark.parametrize("name", ["mm", "bmm", "matmul", "linear", "addmm", "dot"])
def test_integer_products(name):
    whole = call(name, "int32", mat2=Value("int32", (4, 4)))
    assert said(whole) == ("conditional", "integer_product", None)  # a warning on Inf2 and Trn1
    assert said(whole, **NATIVE) == ("conditional", "integer_product", False)  # no flag set: likely refused
    assert said(whole, **NATIVE, integer_downcast="none") == ("blocker", "integer_product", None)
    assert said(whole, **NATIVE, integer_downcast="all") == ("conditional", "integer_product", None)
    assert said(whole, **NATIVE, integer_downcast="dot,pow") == ("conditional", "integer_product", None)
    assert said(whole, **NATIVE, integer_downcast="scatter") == ("blocker", "integer_product", None)
    assert said(call(name)) is None


def test_integer_scatter_and_power():
    assert said(call("scatter_add", "int64")) == ("conditional", "integer_scatter", None)
    assert said(call("index_put", "int64", accumulate=True), **NATIVE) == ("conditional", "integer_scatter", False)
    assert said(call("index_put", "int64", accumulate=False), **NATIVE) is None
    assert said(call("scatter_add")) is None
    assert said(call("scatter", "int32", reduce="add")) == ("blocker", "scatter_reduce_integer", None)
    assert said(call("scatter", "int32")) is None
    assert said(call("scatter_reduce", "bool")) == ("blocker", "scatter_reduce_integer", None)
    assert said(call("scatter_reduce")) == ("conditional", "scatter_reduce_integer", True)
    assert said(call("pow", "int64", exponent=2), **NATIVE, integer_downcast="none") == ("blocker", "integer_power", None)
    assert said(call("pow", "int64", out="float32", exponent=0.5), **NATIVE, integer_downcast="none") is None
    assert said(call("pow", exponent=2)) is None


def test_scatter_and_products_in_place_are_the_same_operators():
    assert said(call("scatter_add_", "int64")) == ("conditional", "integer_scatter", None)


@pytest.mark.parametrize(
    ("dtype", "inf2", "trn3"),
    [
        ("float8_e4m3fnuz", ("blocker", "fp8_fnuz", None), ("blocker", "fp8_fnuz", None)),
        ("float8_e5m2fnuz", ("blocker", "fp8_fnuz", None), ("blocker", "fp8_fnuz", None)),
        ("float8_e4m3fn", ("blocker", "fp8_e4m3fn", None), None),
        ("float4_e2m1fn_x2", ("blocker", "fp4", None), ("conditional", "fp4", None)),
        ("float8_e5m2", None, None),
        ("float64", ("conditional", "float64", None), ("conditional", "float64", None)),
        ("bfloat16", None, None),
    ],
)
def test_narrow_and_wide_floats_per_generation(dtype, inf2, trn3):
    assert said(call("mul", dtype)) == inf2
    assert said(call("mul", dtype), "trn3", "neuron_native") == trn3


def test_shifts_by_width_and_generation():
    for dtype in ("int8", "int16", "uint8"):
        assert said(call("__rshift__", dtype)) == ("blocker", "shift_width", None)
    assert said(call("__rshift__", "int32")) == ("conditional", "shift_width", True)
    assert said(call("bitwise_right_shift", "int64")) == ("conditional", "shift_width", True)  # always cast to 32 bits
    assert said(call("bitwise_right_shift", "int64"), **NATIVE) == ("conditional", "shift_width", None)
    assert said(call("bitwise_right_shift", "int64"), **NATIVE, native_int64="enabled") == ("blocker", "shift_width", None)
    assert said(call("bitwise_right_shift", "int64"), **NATIVE, native_int64="disabled") == ("conditional", "shift_width", True)


@pytest.mark.parametrize(
    ("stride", "dilation", "severity"),
    [([2, 2], [2, 2], "blocker"), ([2, 1], [1, 2], "blocker"), ([1, 1], [2, 2], "conditional"), ([2, 2], [1, 1], "conditional")],
)
def test_input_and_kernel_dilation_only_together(stride, dilation, severity):
    for name, more in (("conv_transpose2d", {}), ("convolution", {"transposed": True})):
        verdict = said(call(name, stride=stride, dilation=dilation, weight=Value("float32", (1, 1, 3, 3)), **more))
        assert verdict == (severity, "dilated_transposed_convolution", None if severity == "blocker" else True)
    assert said(call("convolution", stride=stride, dilation=dilation, transposed=False, weight=Value("float32", (1, 1, 3, 3)))) is None


def test_three_dimensional_convolution_has_no_statement():
    weight = Value("float32", (1, 1, 3, 3, 3))
    for name in ("conv3d", "convolution"):
        assert said(call(name, weight=weight, transposed=False)) == ("conditional", "conv3d", None)


def test_pooling_with_indices_is_a_question_only_where_they_are_used():
    plain = Call("aten.max_pool2d_with_indices.default", {"self": Value("float32"), "dilation": [1, 1]}, (Value("float32"), Value("int64")))
    used = Call(plain.operator, plain.arguments, plain.outputs, indices_used=True)
    assert said(plain) == ("conditional", "dilated_pooling", True)
    assert said(used) == ("conditional", "pooling_indices", None)


def test_a_constant_beyond_32_bits():
    mask = call("full", "int64", fill_value=2**62)
    assert said(mask) == ("conditional", "int64_overflow", False)
    assert said(mask, **NATIVE) == ("conditional", "int64_overflow", None)
    assert said(mask, **NATIVE, native_int64="enabled") == ("conditional", "int64_overflow", True)
    assert said(call("full", "int64", fill_value=2**31 - 1)) is None
    assert said(call("full", "int64", fill_value=-(2**31))) is None
    assert said(call("slice", "int64", end=2**63 - 1)) is None


def test_random_numbers_and_repeats():
    assert said(call("randint", "int64")) == ("conditional", "random", None)
    assert said(call("dropout", train=True)) == ("conditional", "random", None)
    assert said(call("dropout", train=False)) is None
    assert said(call("repeat_interleave", "float32", repeats=Value("int64", (4,)))) == ("blocker", "data_dependent_size", None)
    assert said(call("repeat_interleave", "float32", repeats=Value("int64", (4,)), output_size=8)) is None
    assert said(call("index_put", indices=[Value("bool", (4,))])) == ("conditional", "boolean_mask_assignment", None)


def test_fft_helpers_are_not_transforms():
    assert said(call("fft_fftfreq")) is None
    assert said(call("fft_fftshift")) is None


def test_inf1_runs_the_rest_on_the_cpu():
    assert said(call("topk", "int64"), "inf1", "torch_neuron") == ("conditional", "inf1_cpu", None)
    assert said(call("mm", "int64"), "inf1", "torch_neuron") is None


def test_int64_is_said_once_and_only_open_where_something_is_computed():
    class Positions(nn.Module):
        def forward(self, x):
            return x + torch.arange(8)

    class Products(nn.Module):
        def forward(self, x):
            whole = x.long()
            return whole * whole * 3

    (one,) = [one for one in check.check_module(Positions(), values(8), "inf2").findings if one.code == "int64"]
    assert one.kept is True
    (one,) = [one for one in check.check_module(Products(), values(8), "inf2").findings if one.code == "int64"]
    assert (one.kept, one.calls) == (None, 2) and "aten.mul.Tensor" in one.because
    (one,) = [one for one in check.check_module(Products(), values(8), "trn2", native_int64="enabled").findings if one.code == "int64"]
    assert one.kept is True


# --- manners -----------------------------------------------------------------------------------------


def test_every_statement_has_a_source_and_a_rewrite():
    for code, statement in rules.STATEMENTS.items():
        assert sources.find(statement.source) and statement.as_of and statement.rewrite and statement.because, code


def test_unknown_generation_and_path():
    with pytest.raises(NotFound, match="trn2"):
        check.check_module(Pooled(), values(64), "trn9")
    with pytest.raises(NotFound, match="neuron_xla"):
        check.check_module(Pooled(), values(64), "trn2", path="cuda")
    with pytest.raises(NotFound, match="trn3"):
        check.check_module(Pooled(), values(64), "inf2", path="neuron_native")


def test_nothing_is_printed(capfd):
    check.check_module(Settle(), values(8), "inf2")
    assert capfd.readouterr() == ("", "")
