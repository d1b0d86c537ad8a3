"""The documented restrictions, as functions of one call with its arguments.

Needs no PyTorch: dtypes are names (``"int64"``), a tensor is a :class:`Value`. A rule answers ``None``
where nothing is documented against the call. The list of 41 supported operators plays no part here: it
leaves out operators that every published model needs, so absence from it means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping, Optional

from neuronfit.catalog import operators
from neuronfit.check.findings import BLOCKER, CONDITIONAL, Target

__all__ = ["CODES", "Call", "RULES", "Statement", "STATEMENTS", "Value", "Verdict", "judge"]

INTEGERS = frozenset("int8 int16 int32 int64 uint8 uint16 uint32 uint64".split())
TWO_TO_24, TWO_TO_31 = 2**24, 2**31


@dataclass(frozen=True)
class Value:
    """A tensor as far as the rules look: no data. A size that depends on data is ``None``."""

    dtype: str
    shape: tuple[Optional[int], ...] = ()


@dataclass(frozen=True)
class Call:
    """One call of an operator: ``arguments`` by the names of its schema, tensors as :class:`Value`."""

    operator: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[Value, ...] = ()
    new_size: bool = False
    """whether a size of the result depends on the data"""
    new_number: bool = False
    """whether the result is a number outside the graph that depends on the data"""
    indices_used: bool = False
    """for operators that return (values, indices): whether anything reads the indices"""
    module: Optional[str] = None
    module_type: Optional[str] = None
    file: Optional[str] = None
    line: Optional[int] = None
    text: Optional[str] = None

    @property
    def name(self) -> str:
        """Without namespace, overload and the underscore of in-place variants."""
        name = operators.normalise(self.operator)
        return name[:-1] if name.endswith("_") and not name.endswith("__") else name

    @property
    def inputs(self) -> tuple[Value, ...]:
        return tuple(_values(self.arguments.values()))

    def dtypes(self) -> tuple[str, ...]:
        """Of inputs and outputs, each once."""
        return tuple(dict.fromkeys(value.dtype for value in (*self.inputs, *self.outputs)))

    def of(self, name: str, otherwise: Any = None) -> Any:
        return self.arguments.get(name, otherwise)

    def dtype_of(self, name: str) -> Optional[str]:
        value = self.of(name)
        return value.dtype if isinstance(value, Value) else None


@dataclass(frozen=True)
class Verdict:
    """What a rule says about a call; ``detail`` is the value found, put before the documented reason."""

    severity: str
    code: str
    detail: str
    condition: Optional[str] = None
    kept: Optional[bool] = None


@dataclass(frozen=True)
class Statement:
    """What is documented, and what to write instead."""

    because: str
    rewrite: str
    source: str
    as_of: str


_ERRORS, _TRACE = ("neuron-compiler-errors", "2026-08-21"), ("neuron-trace-docs", "2026-08-21")
_ENVIRONMENT, _DOCS = ("neuron-torchneuron-env", "2026-10-14"), ("neuron-docs-2.32", "2026-08-21")

STATEMENTS: dict[str, Statement] = {
    "fft": Statement(
        "the FFT is the documented example of an unsupported operator, and the complex operators that SDK 2.32 adds do not include it",
        "multiply by a fixed DFT matrix, its cosine and its sine as two real buffers, or transform on the host",
        *_TRACE,
    ),
    "complex": Statement(
        "complex numbers are documented as unsupported (NCC_EVRF004); SDK 2.32 adds about 30 complex64 operators and TorchNeuron decomposes complex operators by default",
        "carry real and imaginary parts as two real tensors: (a+bi)(c+di) = (ac-bd) + (ad+bc)i",
        *_ERRORS,
    ),
    "sort": Statement(
        "aten::sort is named as unsupported in the trace documentation; for the native backend no statement was found",
        "use topk on floating point with k = the length, or sort on the host",
        *_TRACE,
    ),
    "data_dependent_size": Statement(
        "the size of the result depends on the data, and every size is fixed when the model is compiled",
        "keep the full shape: torch.where with the mask (or a multiplication by it) instead of picking elements, or select on the host",
        *_TRACE,
    ),
    "boolean_mask_assignment": Statement(
        "an assignment through a boolean mask is lowered through nonzero unless the framework turns it into a select",
        "use torch.where(mask, value, tensor) or masked_fill",
        *_TRACE,
    ),
    "host_value": Statement(
        "a value is brought to the host in the middle of the model: trace freezes it, torch.compile breaks the graph",
        "keep the value as a tensor, or compute it before the model and pass it in",
        "neuron-agent-guides",
        "2026-08-21",
    ),
    "graph_break": Statement(
        "control flow depends on the data: trace freezes one branch, torch.compile(fullgraph=True) fails",
        "compute every branch and choose with torch.where; give a loop a fixed number of steps and mask the finished ones",
        *_TRACE,
    ),
    "dynamic_shape": Statement(
        "a shape depends on the data or is not fixed, and every dimension must be static (NCC_EMOD025)",
        "pad to a fixed size or to a few buckets and mask the rest; pass lengths in as numbers known before the call",
        *_ERRORS,
    ),
    "export_failed": Statement(
        "the graph could not be exported, so not every operator was seen",
        "make the forward pass exportable (tensors in, tensors out, static shapes), or look at the compiler's own answer",
        *_TRACE,
    ),
    "control_flow": Statement(
        "the known issues of JAX on Neuron name cond as unsupported and while loops as static only; for PyTorch there is no statement",
        "compute both branches and choose with torch.where, or unroll a fixed number of steps",
        "neuron-jax-issues",
        "2026-08-21",
    ),
    "topk_integer": Statement(
        "topk exists for floating point only (NCC_EVRF013)",
        "cast to float32 before topk and cast the values back (exact up to 2^24)",
        *_ERRORS,
    ),
    "integer_product": Statement(
        "a product of integers runs in 32-bit floats and is exact only up to 2^24 (NCC_EVRF035: a warning for int32 on Trn1, an error class from Trn2 on; the command line page says the default still allows it)",
        "cast the operands to float32 or bfloat16, or allow the loss with --implicit-integer-downcast=dot",
        *_ERRORS,
    ),
    "integer_scatter": Statement(
        "a scatter that adds integers runs in 32-bit floats and is exact only up to 2^24 (NCC_EVRF060)",
        "cast to float32 before the scatter, or allow the loss with --implicit-integer-downcast=scatter",
        *_ERRORS,
    ),
    "scatter_reduce_integer": Statement(
        "a scatter with a reduction takes neither integers nor booleans (NCC_EVRF016)",
        "cast source and destination to float32 or bfloat16 first",
        *_ERRORS,
    ),
    "integer_power": Statement(
        "a power of 64-bit integers runs in 32 bits and is exact only up to 2^31 (NCC_EVRF062)",
        "cast to float32, multiply it out, or allow the loss with --implicit-integer-downcast=pow",
        *_ERRORS,
    ),
    "int64": Statement(
        "64-bit integers become 32-bit ones: always on Inf2 and Trn1, on Trn2 and later unless --native-int64=enabled (20 to 30 % slower; the announced new default)",
        "keep values below 2^31 and say so with int32, or set --native-int64 explicitly",
        *_DOCS,
    ),
    "int64_overflow": Statement(
        "64-bit integers become 32-bit ones: always on Inf2 and Trn1, on Trn2 and later unless --native-int64=enabled; this constant does not fit",
        "use a constant below 2^31, for example torch.iinfo(torch.int32).max",
        *_DOCS,
    ),
    "float64": Statement(
        "float64 becomes float32: 24 bits of mantissa instead of 53",
        "compute in float32, or do the double-precision part on the host",
        *_DOCS,
    ),
    "fp8_fnuz": Statement(
        "the FNUZ variants of 8-bit floats are not supported on any Neuron device (NCC_EVRF005)",
        "cast to bfloat16, or store the weights in a supported FP8 format",
        *_ERRORS,
    ),
    "fp8_e4m3fn": Statement(
        "the FP8 format e4m3fn exists from Trn3 on (NCC_EVRF051)",
        "cast to bfloat16, compile for trn3, or pass --experimental-unsafe-fp8e4m3fn-as-fp8e4m3 (values above 240 change)",
        *_ERRORS,
    ),
    "fp4": Statement(
        "the code generator has no 4-bit float (NCC_ESPP004); MXFP4 exists only through Trn3 kernels",
        "convert the weights to bfloat16 when they are loaded",
        *_ERRORS,
    ),
    "dilated_pooling": Statement(
        "a pooling window cannot be dilated (NCC_EVRF018)",
        "use a dilation of 1, or take strided slices first and pool or maximise over them",
        *_ERRORS,
    ),
    "pooling_indices": Statement(
        "a window reduction has one input (NCC_EVRF019); pooling that also returns indices reduces values and positions together",
        "leave out return_indices, or recover the positions by comparing with the up-sampled maximum",
        *_ERRORS,
    ),
    "dilated_transposed_convolution": Statement(
        "a convolution cannot dilate its input and its kernel at once (NCC_EVRF010); the stride of a transposed convolution dilates the input",
        "up-sample first (torch.nn.functional.interpolate) and use a plain dilated convolution",
        *_ERRORS,
    ),
    "conv3d": Statement(
        "no statement about three-dimensional convolution in the compiler; the NKI library has an experimental kernel for Trn2 and later",
        "try it early on the target; a sum of 2-D convolutions over the depth of the kernel is the same",
        *_DOCS,
    ),
    "shift_width": Statement(
        "an arithmetic right shift takes 32-bit integers only (NCC_EVRF022)",
        "cast to int32 before the shift, or divide by the power of two with rounding down",
        *_ERRORS,
    ),
    "triangular_solve": Statement(
        "triangular solve is documented as unsupported (NCC_EUOC002, NCC_EVRF001)",
        "multiply by the inverse, computed beforehand where the matrix is fixed",
        *_ERRORS,
    ),
    "random": Statement(
        "random numbers come from the default generator only (NCC_EVRF006); under JAX randint has a wrong distribution, for PyTorch there is no statement",
        "draw on the host and pass the numbers in, or accept another stream than the GPU's",
        *_ERRORS,
    ),
    "sparse": Statement(
        "the known issues of JAX on Neuron name sparse operators as unsupported; for PyTorch there is no statement",
        "use dense tensors",
        "neuron-jax-issues",
        "2026-08-21",
    ),
    "inf1_cpu": Statement(
        "the compiler of Inf1 (neuron-cc, archived) has lists of its own; torch-neuron leaves what it cannot compile on the CPU, and each such place cuts the graph",
        "the same rewrite as for the newer generations, or choose Inf2",
        *_DOCS,
    ),
}

CODES: dict[str, tuple[str, ...]] = {
    "boolean_mask_assignment": ("note",),
    "complex": ("blocker", "warning", "note"),
    "control_flow": ("note",),
    "conv3d": ("note",),
    "data_dependent_size": ("blocker",),
    "dilated_pooling": ("blocker",),
    "dilated_transposed_convolution": ("blocker",),
    "dynamic_shape": ("blocker",),
    "export_failed": ("note",),
    "fft": ("blocker", "note"),
    "float64": ("note",),
    "fp4": ("blocker", "note"),
    "fp8_e4m3fn": ("blocker",),
    "fp8_fnuz": ("blocker",),
    "graph_break": ("blocker",),
    "host_value": ("blocker",),
    "inf1_cpu": ("note",),
    "int64": ("note",),
    "int64_overflow": ("warning", "note"),
    "integer_power": ("blocker", "warning", "note"),
    "integer_product": ("blocker", "warning", "note"),
    "integer_scatter": ("blocker", "warning", "note"),
    "pooling_indices": ("note",),
    "random": ("note",),
    "scatter_reduce_integer": ("blocker",),
    "shift_width": ("blocker", "warning", "note"),
    "sort": ("blocker", "note"),
    "sparse": ("note",),
    "topk_integer": ("blocker",),
    "triangular_solve": ("blocker",),
}
"""Finding code -> severities in a record: a broken condition is a warning, one that the graph cannot tell a note."""


# --- the rules -------------------------------------------------------------------------------------

_NOT_TRANSFORMS = frozenset("fft_fftshift fft_ifftshift fft_fftfreq fft_rfftfreq".split())
_SORTS = frozenset("sort argsort msort".split())
_PICKING = frozenset(
    "nonzero argwhere nonzero_numpy masked_select unique _unique _unique2 unique_dim unique_consecutive _unique_consecutive bincount".split()
)
_TO_HOST = frozenset("item _local_scalar_dense is_nonzero equal tolist".split())
_PRODUCTS = frozenset(
    "matmul mm bmm addmm addbmm baddbmm addmv addr linear dot vdot inner mv einsum tensordot _int_mm chain_matmul linalg_multi_dot".split()
)
_ADDING = frozenset("scatter_add index_add".split())
_RANDOM = frozenset(
    "rand randn rand_like randn_like randint randint_like randperm bernoulli multinomial normal uniform exponential "
    "geometric log_normal cauchy poisson random native_dropout alpha_dropout rrelu_with_noise".split()
)
_SPARSE = frozenset("to_sparse _to_sparse _sparse_mm sparse_coo_tensor _sparse_coo_tensor_unsafe to_sparse_csr to_sparse_csc".split())
_SOLVES = frozenset("triangular_solve linalg_solve_triangular".split())
_CONDITIONAL_OPS = frozenset("cond while_loop".split())
_COMPLEX_CONDITION = "TORCH_NEURONX_COMPLEX_DECOMPOSE stays on (the default from PyTorch 2.13)"
_ASSERTIONS = frozenset("_assert_tensor_metadata _assert_async _assert_scalar sym_size sym_stride sym_numel".split())


def _fft(call: Call, target: Target) -> Optional[Verdict]:
    name = call.name
    if not name.startswith(("fft_", "_fft_")) and name not in ("stft", "istft") or name in _NOT_TRANSFORMS:
        return None
    if target.native:
        condition = f"{_COMPLEX_CONDITION}, and the decomposition has this transform"
        return Verdict(CONDITIONAL, "fft", "a Fourier transform", condition, None)
    return Verdict(BLOCKER, "fft", "a Fourier transform")


def _complex(call: Call, target: Target) -> Optional[Verdict]:
    found = [dtype for dtype in call.dtypes() if dtype.startswith("complex")]
    if not found:
        return None
    if target.native:
        return Verdict(
            CONDITIONAL,
            "complex",
            f"a tensor of {found[0]}",
            _COMPLEX_CONDITION + ", and complex64 is enough",
            None if found == ["complex64"] else False,
        )
    return Verdict(BLOCKER, "complex", f"a tensor of {found[0]}")


def _sort(call: Call, target: Target) -> Optional[Verdict]:
    if call.name not in _SORTS:
        return None
    if target.native:
        return Verdict(
            CONDITIONAL,
            "sort",
            "a sort",
            "TorchNeuron has the operator (its compatibility table says), or it falls back to the CPU in eager mode",
            None,
        )
    return Verdict(BLOCKER, "sort", "a sort")


def _data_dependent_size(call: Call, target: Target) -> Optional[Verdict]:
    masks = [value for value in _values([call.of("indices")]) if value.dtype in ("bool", "uint8")]
    if call.name in ("index_put", "_index_put_impl", "_unsafe_index_put") and masks:
        return Verdict(
            CONDITIONAL,
            "boolean_mask_assignment",
            "an assignment to the elements that a boolean mask picks",
            "the framework lowers it to a select of full size",
            None,
        )
    if call.name in ("index", "_unsafe_index") and masks:
        return Verdict(BLOCKER, "data_dependent_size", "an index that is a boolean mask")
    open_repeat = call.name == "repeat_interleave" and isinstance(call.of("repeats"), Value) and call.of("output_size") is None
    if call.name in _PICKING or open_repeat or call.name == "where" and isinstance(call.of("condition"), Value) and "self" not in call.arguments:
        return Verdict(BLOCKER, "data_dependent_size", f"{call.name}")
    if call.new_size and call.name not in _TO_HOST:
        return Verdict(BLOCKER, "data_dependent_size", f"{call.name} with a result of unknown size")
    return None


def _host_value(call: Call, target: Target) -> Optional[Verdict]:
    if call.name in _TO_HOST or call.new_number:
        return Verdict(BLOCKER, "host_value", "a number is taken out of a tensor")
    return None


def _control_flow(call: Call, target: Target) -> Optional[Verdict]:
    if call.operator.split(".")[0] == "higher_order" and call.operator.split(".")[-1] in _CONDITIONAL_OPS:
        return Verdict(CONDITIONAL, "control_flow", call.operator.split(".")[-1], "the compiler takes branches that depend on the data", None)
    return None


def _topk(call: Call, target: Target) -> Optional[Verdict]:
    if call.name != "topk":
        return None
    dtype = call.dtype_of("self")
    if dtype in INTEGERS or dtype == "bool":
        return Verdict(BLOCKER, "topk_integer", f"topk on {dtype}")
    return Verdict(CONDITIONAL, "topk_integer", f"topk on {dtype}", "the input is floating point", True)


def _downcast(call: Call, target: Target, code: str, flag: str, detail: str, lossless: str) -> Verdict:
    """Integer arithmetic that runs in floats: refused, lossy with leave, or a warning."""
    condition = f"{lossless}, and --implicit-integer-downcast allows {flag}"
    allowed = target.integer_downcast
    if allowed is not None and target.generation in ("trn2", "trn3") and allowed != "all" and flag not in allowed.split(","):
        return Verdict(BLOCKER, code, f"{detail}, and --implicit-integer-downcast={allowed} refuses it")
    if target.generation in ("trn2", "trn3") and allowed is None:
        return Verdict(CONDITIONAL, code, f"{detail}, and no flag is set", condition, False)
    return Verdict(CONDITIONAL, code, detail, condition, None)


def _integer_product(call: Call, target: Target) -> Optional[Verdict]:
    if call.name not in _PRODUCTS or not call.inputs or any(value.dtype not in INTEGERS for value in call.inputs):
        return None
    return _downcast(call, target, "integer_product", "dot", f"a matrix product of {call.inputs[0].dtype}", "every sum stays below 2^24")


def _integer_scatter(call: Call, target: Target) -> Optional[Verdict]:
    dtype = call.dtype_of("self")
    if dtype not in INTEGERS and dtype != "bool":
        return None
    reduces = call.name in ("scatter_reduce", "index_reduce") or call.name == "scatter" and call.of("reduce") is not None
    if reduces:
        return Verdict(BLOCKER, "scatter_reduce_integer", f"{call.name} with a reduction on {dtype}")
    if call.name in _ADDING or call.name in ("index_put", "_index_put_impl") and call.of("accumulate") is True:
        return _downcast(call, target, "integer_scatter", "scatter", f"{call.name} on {dtype}", "every sum stays below 2^24")
    return None


def _scatter_reduce_kept(call: Call, target: Target) -> Optional[Verdict]:
    if call.name in ("scatter_reduce", "index_reduce"):
        return Verdict(
            CONDITIONAL, "scatter_reduce_integer", f"{call.name} on {call.dtype_of('self')}", "source and destination are floating point", True
        )
    return None


def _integer_power(call: Call, target: Target) -> Optional[Verdict]:
    if call.name != "pow" or not call.outputs or call.outputs[0].dtype not in INTEGERS:
        return None
    return _downcast(call, target, "integer_power", "pow", f"a power of {call.outputs[0].dtype}", "every value stays below 2^31")


def _narrow_floats(call: Call, target: Target) -> Optional[Verdict]:
    for dtype in call.dtypes():
        if dtype.startswith("float8") and dtype.endswith("fnuz"):
            return Verdict(BLOCKER, "fp8_fnuz", f"a tensor of {dtype}")
        if dtype == "float8_e4m3fn" and target.generation != "trn3":
            return Verdict(BLOCKER, "fp8_e4m3fn", f"a tensor of {dtype}, and the target is {target.generation}")
        if dtype.startswith("float4"):
            if target.generation == "trn3":
                return Verdict(CONDITIONAL, "fp4", f"a tensor of {dtype}", "only kernels for MXFP4 read it", None)
            return Verdict(BLOCKER, "fp4", f"a tensor of {dtype}, and the target is {target.generation}")
    return None


def _pooling(call: Call, target: Target) -> Optional[Verdict]:
    if not call.name.startswith("max_pool"):
        return None
    dilation = _numbers(call.of("dilation"))
    if any(step > 1 for step in dilation):
        return Verdict(BLOCKER, "dilated_pooling", f"a pooling window with dilation {_show(dilation)}")
    if call.indices_used:
        return Verdict(
            CONDITIONAL, "pooling_indices", "the indices of a pooling are used", "the compiler splits the reduction of values and indices", None
        )
    return Verdict(CONDITIONAL, "dilated_pooling", "a pooling window without dilation", "dilation is 1", True)


def _transposed_convolution(call: Call, target: Target) -> Optional[Verdict]:
    transposed = call.name.startswith("conv_transpose") or call.name in ("convolution", "_convolution") and call.of("transposed") is True
    if not transposed:
        return None
    stride, dilation = _numbers(call.of("stride")), _numbers(call.of("dilation"))
    found = f"a transposed convolution with stride {_show(stride)} and dilation {_show(dilation)}"
    per_axis = list(zip(_stretched(stride, len(dilation)), _stretched(dilation, len(stride))))
    if any(one > 1 for one, _ in per_axis) and any(other > 1 for _, other in per_axis):
        return Verdict(BLOCKER, "dilated_transposed_convolution", found)
    return Verdict(CONDITIONAL, "dilated_transposed_convolution", found, "stride (which dilates the input) or dilation (of the kernel) is 1", True)


def _conv3d(call: Call, target: Target) -> Optional[Verdict]:
    weight = call.of("weight")
    general = call.name in ("convolution", "_convolution") and isinstance(weight, Value) and len(weight.shape) == 5
    if call.name in ("conv3d", "conv_transpose3d") or general:
        return Verdict(CONDITIONAL, "conv3d", "a three-dimensional convolution", "the compiler has it (nothing is documented)", None)
    return None


def _shift(call: Call, target: Target) -> Optional[Verdict]:
    if call.name not in ("__rshift__", "__irshift__", "bitwise_right_shift"):
        return None
    dtype = call.dtype_of("self") or (call.outputs[0].dtype if call.outputs else "int64")
    if dtype in ("int32", "uint32"):
        return Verdict(CONDITIONAL, "shift_width", f"a right shift of {dtype}", "32-bit integers", True)
    if dtype == "int64":
        casts = target.casts_int64
        if casts is False:
            return Verdict(BLOCKER, "shift_width", "a right shift of int64 with --native-int64=enabled")
        return Verdict(CONDITIONAL, "shift_width", "a right shift of int64", "64-bit integers are cast to 32 bits before it", casts)
    return Verdict(BLOCKER, "shift_width", f"a right shift of {dtype}")


def _triangular_solve(call: Call, target: Target) -> Optional[Verdict]:
    return Verdict(BLOCKER, "triangular_solve", call.name) if call.name in _SOLVES else None


def _random(call: Call, target: Target) -> Optional[Verdict]:
    drops = call.name == "dropout" and call.of("train") is True
    if call.name in _RANDOM or drops:
        return Verdict(
            CONDITIONAL,
            "random",
            f"{call.name} draws random numbers",
            "the default generator, and nothing compares single values with another device",
            None,
        )
    return None


def _sparse(call: Call, target: Target) -> Optional[Verdict]:
    if call.name in _SPARSE:
        return Verdict(CONDITIONAL, "sparse", call.name, "the compiler has sparse tensors (nothing is documented for PyTorch)", None)
    return None


def _float64(call: Call, target: Target) -> Optional[Verdict]:
    if "float64" in call.dtypes():
        return Verdict(CONDITIONAL, "float64", "a tensor of float64", "single precision is enough here", None)
    return None


def _int64_constant(call: Call, target: Target) -> Optional[Verdict]:
    """A constant that becomes an int64 tensor and does not fit into 32 bits; sizes and slice ends are none."""
    written = {
        "full": "fill_value",
        "full_like": "fill_value",
        "fill": "value",
        "masked_fill": "value",
        "scalar_tensor": "s",
        "where": "other",
        "add": "other",
        "sub": "other",
        "mul": "other",
        "bitwise_and": "other",
        "remainder": "other",
        "clamp": "max",
    }
    if call.name not in written or not any(value.dtype == "int64" for value in call.outputs):
        return None
    values = [call.of(written[call.name]), call.of("min") if call.name == "clamp" else None, call.of("self") if call.name == "where" else None]
    large = [value for value in values if isinstance(value, int) and not isinstance(value, bool) and not -TWO_TO_31 <= value < TWO_TO_31]
    if not large:
        return None
    kept = None if target.casts_int64 is None else not target.casts_int64
    return Verdict(CONDITIONAL, "int64_overflow", f"the constant {large[0]} as int64", "the target computes with 64-bit integers", kept)


RULES: tuple[Callable[[Call, Target], Optional[Verdict]], ...] = (
    _fft,
    _complex,
    _sort,
    _control_flow,
    _data_dependent_size,
    _host_value,
    _topk,
    _integer_product,
    _integer_scatter,
    _scatter_reduce_kept,
    _integer_power,
    _narrow_floats,
    _pooling,
    _transposed_convolution,
    _conv3d,
    _shift,
    _triangular_solve,
    _random,
    _sparse,
    _float64,
    _int64_constant,
)
"""In this order; the first that has something to say about a call speaks, broken conditions before kept ones."""


def judge(call: Call, target: Target) -> Optional[Verdict]:
    """What is documented about this call on this target; ``None``: no documented blocker.

    On Inf1 every blocker of the newer compiler becomes a condition: torch-neuron runs the rest on the CPU.
    """
    if call.name in _ASSERTIONS:
        return None
    verdicts = [verdict for verdict in (rule(call, target) for rule in RULES) if verdict]
    if not verdicts:
        return None
    first = next((one for one in verdicts if one.kept is not True), verdicts[0])
    if target.generation != "inf1":
        return first
    if first.severity == BLOCKER:
        return Verdict(CONDITIONAL, "inf1_cpu", first.detail, "the part on the CPU is small enough", None)
    return None


# --- small questions -------------------------------------------------------------------------------


def _values(arguments: Iterable[Any]) -> Iterable[Value]:
    for argument in arguments:
        if isinstance(argument, Value):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from _values(argument)


def _numbers(argument: Any) -> tuple[int, ...]:
    """A size argument as numbers; left out or empty means ones."""
    if isinstance(argument, int):
        return (argument,)
    return tuple(one for one in argument or () if isinstance(one, int)) or (1,)


def _stretched(numbers: tuple[int, ...], length: int) -> tuple[int, ...]:
    return numbers * length if len(numbers) == 1 else numbers


def _show(numbers: tuple[int, ...]) -> str:
    return str(numbers[0]) if len(set(numbers)) == 1 else "x".join(str(number) for number in numbers)
