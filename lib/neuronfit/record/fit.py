"""Steps 2 and 3: may it run, and does it compile?"""

from __future__ import annotations

from typing import Literal, Optional

from pydantic import Field

from neuronfit.provenance import Grade, Quantity
from neuronfit.record.header import Finding, Frozen, Record
from neuronfit.system import System


class OperatorUse(Frozen):
    """One operator of the exported graph with its documented status."""

    name: str
    calls: int
    status: Literal["listed", "restricted", "unsupported", "no_statement"]
    because: str


class CompatibilityOfTarget(Frozen):
    """Software path, its horizon, and whether the weights fit."""

    target: str
    instance_type: str
    path: str
    supported: Optional[bool] = Field(description="null: nothing documented")
    title: str
    sdk: Optional[str] = None
    torch: Optional[str] = None
    python: Optional[str] = None
    status: str
    until: Optional[str] = None
    as_of: Optional[str] = None
    advice: Optional[str] = None
    command: Optional[str] = Field(None, description="what compiles or serves this workload on this path, every value filled in")
    command_host: Optional[str] = Field(None, description="where the command runs")
    command_notes: tuple[str, ...] = Field((), description="what the command leaves open, and why there is none")
    tp_degree: Optional[int] = Field(None, description="the best tensor-parallel degree on this instance; null: its memory is not known")
    transformers: Optional[str] = Field(None, description="versions of Hugging Face transformers; null: not stated")
    transformers_source: Optional[str] = Field(None, description="id of the source that states them")
    packages: dict[str, str] = Field(default_factory=dict, description="pins as the one release lists them together")
    contradictions: tuple[str, ...] = ()
    source: Optional[str] = None
    memory_needed: Quantity
    memory_available: Quantity
    fits: Optional[bool]
    findings: tuple[Finding, ...] = ()


class SmallestFit(Frozen):
    """The smallest instance of one vendor on which the model fits, with one tensor-parallel degree."""

    vendor: Literal["aws_neuron", "nvidia"]
    instance_type: str
    tp_degree: int
    copies: int = Field(description="copies of the model side by side on the instance")
    used: Quantity = Field(description="bytes of one rank (logical NeuronCore or GPU) in use")
    room: Quantity = Field(description="bytes of one rank")
    headroom: Quantity = Field(description="free fraction of a rank's memory")
    remarks: tuple[str, ...] = Field((), description="what is padded or copied at this degree")


class Compatibility(Record):
    """Step 2. The strongest positive statement is `no documented blocker found`."""

    schema_: Literal["compatibility/1"] = Field("compatibility/1", alias="schema")
    bottom_line: str
    targets: tuple[CompatibilityOfTarget, ...]
    graph_how: str = Field(description="how the operators were obtained")
    operators: tuple[OperatorUse, ...] = ()
    smallest: tuple[SmallestFit, ...] = ()


# -- step 3: does it compile ------------------------------------------------------------------


class CompileOfBucket(Frozen):
    """One compilation: one shape on one target, in a process of its own."""

    shape: dict[str, Optional[int]] = Field(description="batch_size, sequence_length, output_length")
    status: Literal["compiled", "failed", "waiting"]
    because: str
    next: Optional[str] = None
    code: Optional[str] = Field(None, description="of a failure: the vendor's code, or our own name")
    steps: tuple[str, ...] = Field((), description="of a failure: what to try, in order")
    proof: Optional[str] = Field(None, description="why this counts as compiled")
    compile_time: Optional[Quantity] = None
    peak_memory: Optional[Quantity] = Field(None, description="host memory of the compiling process and its children together, bytes")
    artefact_size: Optional[Quantity] = Field(None, description="bytes")
    artefact_sha256: Optional[str] = None
    cached: Optional[bool] = Field(None, description="null: not stated")
    cached_because: Optional[str] = None
    versions: dict[str, str] = Field(default_factory=dict)
    flags: tuple[str, ...] = ()
    log: Optional[str] = Field(None, description="file with what the process printed, in the dossier; kept where it failed")


class UnsupportedOperator(Frozen):
    """An operator that ``torch_neuronx.analyze`` does not take, in its own words."""

    name: str
    failure_at: Optional[str] = None
    call: Optional[str] = Field(None, description="where it is called, the innermost line")


class OperatorAnalysis(Frozen):
    """What ``torch_neuronx.analyze`` says: each operator compiled alone. Names are those of a TorchScript trace."""

    shape: dict[str, Optional[int]]
    support: Quantity = Field(description="share of operators that are taken, fraction")
    supported: dict[str, int] = Field(default_factory=dict, description="operator -> calls")
    unsupported: tuple[UnsupportedOperator, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)
    because: str = ""


class CompileOfTarget(Frozen):
    """The compilations of one target, or the wait for them. Sums are over its buckets."""

    target: str
    path: str
    status: Literal["compiled", "failed", "waiting", "not_needed"]
    because: str
    next: Optional[str] = None
    instance_type: Optional[str] = None
    compile_time: Optional[Quantity] = Field(None, description="all buckets together, s")
    peak_memory: Optional[Quantity] = Field(None, description="host memory of the hungriest bucket, bytes")
    artefact_bytes: Optional[int] = Field(None, description="all buckets together")
    artefact_sha256: Optional[str] = Field(None, description="where there is one bucket")
    versions: dict[str, str] = Field(default_factory=dict)
    flags: tuple[str, ...] = ()
    shape: Optional[dict[str, Optional[int]]] = Field(None, description="where there is one bucket")
    code: Optional[str] = None
    steps: tuple[str, ...] = ()
    buckets: tuple[CompileOfBucket, ...] = ()
    analysis: Optional[OperatorAnalysis] = None
    grade: Optional[Grade] = Field(None, description="of this row's evidence; null: that of the record")
    record: Optional[str] = Field(None, description="id of the record the row was taken from; null: this one")


class BucketChoice(Frozen):
    """Some sequence lengths to compile for; an input is padded to the next one."""

    count: int = Field(ge=1, description="number of buckets")
    edges: tuple[int, ...] = Field(description="tokens, ascending")
    waste: Quantity = Field(description="share of the tokens computed that are padding, fraction")
    compilations: Quantity = Field(description="batch sizes x buckets x targets")


class BucketAdvice(Frozen):
    """How many compiled lengths the traffic needs, and which."""

    sentence: str
    rule: str
    present: Optional[BucketChoice] = Field(None, description="the lengths written in workload.shapes")
    choices: tuple[BucketChoice, ...] = Field((), description="for each number of buckets the edges that pad least")
    recommended: Optional[int] = Field(None, description="number of buckets; null: the distribution of lengths is not known")
    batch_sizes: tuple[int, ...] = ()
    targets: tuple[str, ...] = Field((), description="the targets that are compiled for ahead of time")


class Compile(Record):
    """Step 3."""

    schema_: Literal["compile/1"] = Field("compile/1", alias="schema")
    bottom_line: str
    targets: tuple[CompileOfTarget, ...]
    advice: Optional[BucketAdvice] = None
    system: Optional[System] = None

    def row(self, target: str) -> Optional[CompileOfTarget]:
        """The row of a target with the grade of its evidence and the record it comes from filled in."""
        found = next((row for row in self.targets if row.target == target), None)
        if found is None or found.status not in ("compiled", "failed"):
            return found
        return found.model_copy(update={"grade": found.grade or self.grade, "record": found.record or self.id or None})
