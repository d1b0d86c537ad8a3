"""Operator calls with their arguments and their place in the user's source: from an exported graph, or from a run."""

from __future__ import annotations

import contextlib
import linecache
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Optional, Union

from neuronfit.check.rules import Call, Value

if TYPE_CHECKING:
    import torch

__all__ = ["Frame", "from_graph", "from_modules", "recording", "shown_path", "user_frame", "with_helpers"]

Frame = tuple[str, int, str]
"""file, line, source text"""

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_OURS = str(Path(__file__).parents[1])
_NOT_A_CALL = frozenset("aten._assert_tensor_metadata aten._assert_async aten._assert_scalar aten.sym_size aten.sym_stride aten.sym_numel".split())


# --- from an exported graph -------------------------------------------------------------------------


def from_graph(program: Any) -> Iterator[Call]:
    """The calls of an ``ExportedProgram``, ``GraphModule`` or ``fx.Graph``, subgraphs of control flow included."""
    for graph in _graphs(program):
        for node in graph.nodes:
            if node.op == "call_function" and "getitem" not in str(node.target):
                call = _call_of_node(node)
                if call:
                    yield call


def _graphs(program: Any) -> Iterator[Any]:
    import torch

    root = getattr(program, "graph_module", program)
    if isinstance(root, torch.fx.Graph):
        yield root
        return
    for module in root.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield module.graph


def _call_of_node(node: Any) -> Optional[Call]:
    import torch

    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        operator, names = str(target), _named(target, node.args, node.kwargs)
    elif isinstance(target, torch._ops.HigherOrderOperator):
        operator, names = f"higher_order.{target.name()}", {str(index): argument for index, argument in enumerate(node.args)}
    else:
        return None  # arithmetic on sizes
    if operator.rsplit(".", 1)[0] in _NOT_A_CALL:
        return None
    outputs = tuple(_described(node.meta.get("val")))
    fresh = bool(node.meta.get("unbacked_bindings"))
    path, kind = _module_of(node.meta.get("nn_module_stack"))
    frame = user_frame(_frames(node.meta.get("stack_trace") or ""))
    return Call(
        operator=operator,
        arguments={name: _argument(value) for name, value in names.items()},
        outputs=outputs,
        new_size=fresh and bool(outputs),
        new_number=fresh and not outputs,
        indices_used=any("getitem" in str(user.target) and user.args[1] == 1 and user.users for user in node.users),
        module=path,
        module_type=kind,
        file=shown_path(frame[0]) if frame else None,
        line=frame[1] if frame else None,
        text=frame[2] if frame else None,
    )


def _named(target: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by the names of the operator's schema, its defaults filled in."""
    args, names = tuple(args), {}
    for index, argument in enumerate(target._schema.arguments):
        if index < len(args) and not argument.kwarg_only:
            names[argument.name] = args[index]
        else:
            names[argument.name] = kwargs.get(argument.name, argument.default_value)
    return names


def _argument(value: Any) -> Any:
    """A node or tensor as a :class:`Value`, a dtype by name, numbers and strings as they are."""
    import torch

    if isinstance(value, torch.fx.Node):
        value = value.meta.get("val")
    if isinstance(value, torch.Tensor):
        return _value(value)
    if isinstance(value, (list, tuple)):
        return [_argument(part) for part in value]
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    return value if isinstance(value, (bool, int, float, complex, str)) else None


def _value(tensor: torch.Tensor) -> Value:
    shape = tuple(size if isinstance(size, int) else None for size in tensor.shape)
    return Value(str(tensor.dtype).removeprefix("torch."), shape)


def _described(result: Any) -> Iterator[Value]:
    import torch

    if isinstance(result, torch.Tensor):
        yield _value(result)
    elif isinstance(result, (list, tuple)):
        for part in result:
            yield from _described(part)


def _module_of(stack: Optional[Mapping[str, tuple[str, Any]]]) -> tuple[Optional[str], Optional[str]]:
    """Path and type of the innermost module; the wrapper we export through is not part of the path."""
    if not stack:
        return None, None
    path, kind = list(stack.values())[-1]
    name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    path = re.sub(r"^(L__self__\.?|L\['self'\]\.?)", "", path)
    return re.sub(r"^exported_model(\.|$)", "", path), name.rsplit(".", 1)[-1]


@contextlib.contextmanager
def with_helpers() -> Iterator[None]:
    """Exporting under this, a node's stack trace names the helper a call stands in, not only ``forward``.

    PyTorch keeps the frames of functions named ``forward`` and has no setting for it, so its filter is replaced
    while we export; where a version has no such filter, nothing happens and the line of ``forward`` is reported.
    """
    import traceback

    import torch.fx.proxy

    tracer = torch.fx.proxy.TracerBase
    original = getattr(tracer, "_filter_traceback_frames", None)
    if original is None:
        yield
        return

    def inside_the_model(self: Any, summary: Any) -> Any:
        ours = [index for index, frame in enumerate(summary) if frame.filename.startswith(_OURS)]
        return traceback.StackSummary.from_list(summary[ours[-1] + 1 :]) if ours else original(self, summary)

    tracer._filter_traceback_frames = inside_the_model
    try:
        yield
    finally:
        tracer._filter_traceback_frames = original


# --- from a run ------------------------------------------------------------------------------------


def recording(calls: list[Call], limit: int) -> Any:
    """A context in which every dispatched operator is appended to ``calls``; ends the run at ``limit``."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recording(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            if isinstance(function, torch._ops.OpOverload) and len(calls) < limit:
                frame = user_frame(_stack())
                operator = str(function)
                outputs = tuple(_described(result))
                calls.append(
                    Call(
                        operator=operator,
                        arguments={name: _argument(value) for name, value in _named(function, args, kwargs or {}).items()},
                        outputs=outputs,
                        file=shown_path(frame[0]) if frame else None,
                        line=frame[1] if frame else None,
                        text=frame[2] if frame else None,
                    )
                )
            elif len(calls) >= limit:
                raise _Enough(f"stopped after {limit} operators")
            return result

    return Recording()


class _Enough(RuntimeError):
    """A run that has shown enough of itself."""


def _stack() -> list[Frame]:
    """The frames between the call that was dispatched and this package, which runs the model."""
    found: list[Frame] = []
    frame = sys._getframe(2)
    while frame is not None and not frame.f_code.co_filename.startswith(_OURS):
        file, line = frame.f_code.co_filename, frame.f_lineno
        found.append((file, line, linecache.getline(file, line).strip()))
        frame = frame.f_back
    return found[::-1]


# --- from the modules alone ------------------------------------------------------------------------


def from_modules(model: torch.nn.Module) -> Iterator[Call]:
    """What the modules alone give away: poolings, convolutions, and parameters of unusual types."""
    import torch

    for path, module in model.named_modules():
        kind = type(module).__name__
        weight = getattr(module, "weight", None)
        arguments: dict[str, Any] = {"weight": _value(weight)} if isinstance(weight, torch.Tensor) else {}
        for name in ("dilation", "stride", "train"):
            if hasattr(module, name) and name != "train":
                arguments[name] = getattr(module, name)
        if isinstance(module, torch.nn.modules.pooling._MaxPoolNd):
            yield Call(f"aten.max_pool{kind[-2]}d.default", arguments, module=path, module_type=kind)
        elif isinstance(module, torch.nn.modules.conv._ConvTransposeNd):
            yield Call(f"aten.conv_transpose{kind[-2]}d.default", arguments, module=path, module_type=kind)
        elif isinstance(module, torch.nn.Conv3d):
            yield Call("aten.conv3d.default", arguments, module=path, module_type=kind)
        for name, parameter in module.named_parameters(recurse=False):
            yield Call(f"parameter {name}", {"self": _value(parameter)}, module=path, module_type=kind)


# --- places in source ------------------------------------------------------------------------------


def _frames(stack_trace: str) -> list[Frame]:
    """The frames of a node's stack trace, outermost first."""
    matches = list(_FRAME.finditer(stack_trace))
    frames = []
    for match, following in zip(matches, [*matches[1:], None]):
        rest = stack_trace[match.end() : following.start() if following else None].splitlines()[1:]
        text = next((line.strip() for line in rest if line.strip()), "")
        frames.append((match["file"], int(match["line"]), text))
    return frames


def user_frame(frames: Iterable[Frame]) -> Optional[Frame]:
    """The innermost frame that is neither PyTorch nor this package; frames are outermost first."""
    import torch

    inside = (str(Path(torch.__file__).parent), _OURS)
    ours = [frame for frame in frames if not frame[0].startswith(inside) and not frame[0].startswith("<") or frame[0] == "<stdin>"]
    return ours[-1] if ours else None


def shown_path(file: Union[str, Path]) -> str:
    """A source file as shown: below the packages folder, below the working directory, or its last two parts."""
    path = Path(file)
    parts = path.parts
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            return "/".join(parts[parts.index(folder) + 1 :])
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return "/".join(part for part in parts[-2:] if part != "/")
