"""What a static check says: findings about single operators, three-valued.

A ``blocker`` is documented as refused with the arguments this model uses. A ``conditional`` is allowed
under a condition: ``kept`` says whether the arguments and the target keep it (``True``), break it
(``False``: it runs, but is lossy or depends on a flag), or whether the graph cannot tell (``None``).
Everything else has no finding, which means *no documented blocker* and not *supported*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

__all__ = ["BLOCKER", "CONDITIONAL", "RAN", "ModuleCheck", "OperatorFinding", "Target"]

RAN = "recorded run on cpu"
BLOCKER = "blocker"
CONDITIONAL = "conditional"


@dataclass(frozen=True)
class Target:
    """What the model shall run on, as far as the rules differ.

    ``path`` is ``"neuron_xla"``, ``"neuron_native"`` (TorchNeuron) or ``"torch_neuron"`` (Inf1);
    ``native_int64`` (``"enabled"``, ``"disabled"``) and ``integer_downcast`` (``"all"``, ``"none"``, or a
    comma-separated list of ``dot,scatter,pow``) are the two compiler flags, ``None`` where they are not set.
    """

    generation: str
    path: str
    native_int64: Optional[str] = None
    integer_downcast: Optional[str] = None

    @property
    def native(self) -> bool:
        return self.path == "neuron_native"

    @property
    def casts_int64(self) -> Optional[bool]:
        """Whether 64-bit integers become 32-bit ones; ``None`` where it hangs on a flag that is not set."""
        if self.generation in ("inf1", "inf2", "trn1"):
            return True
        return None if self.native_int64 is None else self.native_int64 == "disabled"


@dataclass(frozen=True)
class OperatorFinding:
    """One documented statement that concerns one place of the model."""

    severity: str
    """``"blocker"`` or ``"conditional"``"""
    code: str
    """stable: ``"fft"``, ``"topk_integer"``, ``"graph_break"``"""
    operator: str
    """the ATen operator: ``"aten.topk.default"``; a module type where only the modules could be looked at"""
    because: str
    """what is documented, with the value found here"""
    rewrite: str
    condition: Optional[str]
    """what has to hold; ``None`` for blockers"""
    kept: Optional[bool]
    """whether it holds: ``None`` where the graph cannot tell"""
    calls: int
    """calls of this kind at this line; a line in a repeated layer counts once per layer"""
    module: Optional[str]
    """path of the first module it occurs in (``"encoder.layer.0.attention"``); ``""`` is the model itself"""
    module_type: Optional[str]
    file: Optional[str]
    """the user's source file: the innermost frame outside PyTorch"""
    line: Optional[int]
    text: Optional[str]
    """that line of source"""
    generations: tuple[str, ...]
    """the accelerator generations, each on its usual path, for which the same would be said"""
    source: str
    """id in the catalogue of sources"""
    as_of: str

    @property
    def where(self) -> str:
        """``"modeling_x.py:120, in encoder.layer.0"``, as far as known."""
        place = f"{self.file}:{self.line}" if self.file else "source line unknown"
        return f"{place}, in {self.module}" if self.module else place


@dataclass(frozen=True)
class ModuleCheck:
    """The findings about a model, and how they were found.

    ``how`` is ``"torch.export non-strict on meta"`` (or ``cpu``, ``fake cpu``), ``"recorded run on cpu"`` or
    ``"module inspection"``. ``complete`` is whether every operator of a forward pass was seen: where the
    export fails, branches not taken and operators after the failure are not. ``error`` says why it failed.
    """

    findings: tuple[OperatorFinding, ...]
    how: str
    complete: bool
    operators: dict[str, int]
    torch_version: str
    error: Optional[str] = None

    @property
    def looked(self) -> bool:
        """Whether a whole forward pass was seen: exported, or run to its end."""
        return self.complete or self.how.startswith(RAN)

    @property
    def blockers(self) -> tuple[OperatorFinding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == BLOCKER)
