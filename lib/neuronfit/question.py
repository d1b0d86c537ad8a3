"""One question, opened: its params, the names in it checked against the catalogue, its dossier.

Everything that runs, from a notebook, the command line or a batch, starts here:

    question = Question.open("bert-base-uncased")          # a name in params/, as in the notebooks
    question = Question.from_file("params/roberta-base.yaml")
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Optional, Union

from neuronfit import params as params_module
from neuronfit.catalog import instances, models, prices
from neuronfit.dossier import Dossier
from neuronfit.errors import BadParams, NotFound, nearest
from neuronfit.model import TASKS, config_digest, position_limit, read_config
from neuronfit.params import SECTIONS, Params, Target
from neuronfit.plausibility import Work, work_of
from neuronfit.record import Profile, WorkloadRef
from neuronfit.workload import fingerprint

__all__ = ["CPU", "Question", "params_file", "params_folder", "project_root", "reports_folder"]

CPU = "cpu"
"""Name of the extra target that is always there: the CPU of the host at hand. It is real evidence
for that CPU and never stands in for a GPU or a NeuronCore, so it takes no part in the decision."""


class Question:
    """A params file and everything around it. Opening reads files and writes none."""

    def __init__(self, params: Params, *, origin: Optional[Path] = None, reports: Union[str, Path, None] = None):
        self.params = params
        self.origin = origin
        self.reports = Path(reports) if reports else reports_folder()
        self._check_names()

    @classmethod
    def from_file(cls, path: Union[str, Path], *, reports: Union[str, Path, None] = None) -> "Question":
        """Open a params file. Raises :class:`~neuronfit.errors.BadParams` or ``NotFound``, one line."""
        return cls(params_module.load(path), origin=Path(path), reports=reports)

    @classmethod
    def open(
        cls,
        workload: Union[str, Mapping[str, Any]],
        traffic: Any = None,
        objective: Any = None,
        baseline: Any = None,
        candidates: Any = None,
        evidence: Any = None,
        pricing: Any = None,
        effort: Any = None,
        trial: Any = None,
        policy: Any = None,
    ) -> "Question":
        """Open from a notebook's parameters: a name in ``params/`` or the sections themselves.

        With a name, sections that are not ``None`` replace those of the file. With a mapping,
        ``None`` means the documented default.
        """
        given = {
            name: value
            for name, value in zip(SECTIONS[1:], (traffic, objective, baseline, candidates, evidence, pricing, effort, trial, policy))
            if value is not None
        }
        if not isinstance(workload, str):
            return cls(params_module.parse({"workload": workload, **given}, where="notebook parameters"))
        path = params_file(workload)
        loaded = params_module.load(path)
        if not given:
            return cls(loaded, origin=path)
        sections = {**loaded.model_dump(exclude_unset=True), **given}
        return cls(params_module.parse(sections, where=f"{path} with notebook parameters"), origin=path)

    def __repr__(self) -> str:
        return f"Question({self.name!r}: {', '.join(target.name for target in self.targets)})"

    # -- names ------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.params.workload.name

    @property
    def command_name(self) -> str:
        """What to type for this question on the command line, in the project's or the working folder."""
        if self.origin is None:
            return f"params/{self.name}.yaml"
        file = self.origin.resolve()
        base = next((base for base in (project_root(), Path.cwd()) if file.is_relative_to(base)), None)
        return shlex.quote(str(file.relative_to(base) if base else file))

    @property
    def targets(self) -> tuple[Target, ...]:
        """Baseline first, then the candidates."""
        return self.params.targets

    def target(self, name: str) -> Target:
        """A target by name; ``baseline`` and ``cpu`` always work. Raises ``NotFound``."""
        if name == "baseline":
            return self.params.baseline
        for target in self.targets:
            if target.name == name:
                return target
        if name == CPU:
            return Target(name=CPU, instance_type=instances.THIS_HOST, path="cpu")
        known = [target.name for target in self.targets] + ["baseline", CPU]
        near = nearest(name, known)
        raise NotFound("unknown target", name, allowed=", ".join(known) + (f" (nearest: {near[0]})" if near else ""))

    def _check_names(self) -> None:
        for target in self.targets:
            if target.name == CPU or (target.name == "baseline" and target is not self.params.baseline):
                raise BadParams("a target cannot be named", target.name, allowed="any other name", next="rename it")
            if (target.path, target.instance_type) != ("cpu", "this-host"):  # the CPU at hand, as a declared target
                self._check_instance(target.name, target.instance_type)
            if target.instance_type == instances.THIS_HOST and target.path not in ("cpu", "endpoint"):
                raise BadParams(
                    f"{target.name}: instance_type this-host with path", target.path, allowed="cpu, endpoint", next="name the EC2 type it runs on"
                )
        for entry in self.params.pricing.overrides:
            self._check_instance("pricing.overrides", entry.instance_type)
        pricing = self.params.pricing
        for what, value, known in (
            ("pricing.region", pricing.region, prices.regions()),
            ("pricing.purchase_option", pricing.purchase_option, prices.OPTIONS),
            *(("pricing.overrides: purchase_option", entry.purchase_option, prices.OPTIONS) for entry in pricing.overrides if entry.purchase_option),
        ):
            if value not in known:
                near = nearest(value, known)
                raise BadParams(what, value, allowed=", ".join(known) + (f" (nearest: {near[0]})" if near else ""))
        self._check_task()
        _ = self.ref  # reads the model's config, so that a wrong path is found before anything runs
        self._check_lengths()

    @staticmethod
    def _check_instance(place: str, instance_type: str) -> None:
        try:
            instances.find(instance_type)
        except NotFound as error:
            raise NotFound(f"{place}: {error.what}", error.value, allowed=error.allowed) from None

    def _check_task(self) -> None:
        name = self.params.workload.model.task
        if name not in TASKS:
            near = nearest(name, TASKS)
            raise BadParams("workload.model.task", name, allowed=", ".join(TASKS) + (f" (nearest: {near[0]})" if near else ""))
        if TASKS[name].generates and not all(shape.output_length for shape in self.params.workload.shapes):
            raise BadParams(
                "workload.shapes: output_length is missing for", name, allowed="tokens generated per sequence, from 1", next="add it to each shape"
            )

    def _check_lengths(self) -> None:
        """Lengths of the shapes and of the traffic that the position embeddings cannot hold are refused."""
        self._check_shapes()
        lengths = self.params.traffic.sequence_lengths
        limit = position_limit(self.config) if lengths else None
        if limit is not None and max(lengths) > limit:
            raise BadParams(
                "traffic.sequence_lengths: longer than the model has positions for", max(lengths), allowed=f"1 to {limit} tokens", next="cut or split"
            )

    def _check_shapes(self) -> None:
        """A prompt with the text generated after it has to fit; an encoder-decoder's output has positions of its own."""
        task = self.params.workload.model.task
        limit = position_limit(self.config) if TASKS[task].input == "text" else None
        for shape in self.params.workload.shapes if limit else ():
            after = (shape.output_length or 0) if task == "text-generation" else 0
            what = "sequence_length + output_length" if after else "sequence_length"
            longest = max(shape.sequence_length + after, (shape.output_length or 0) if task == "text2text-generation" else 0)
            if longest > limit:
                raise BadParams(
                    f"workload.shapes: {what} is more than {self.config['model_type']} has positions for",
                    longest,
                    allowed=f"1 to {limit} tokens",
                    next=f"set it to {limit} or less, or choose a model with longer context",
                )

    # -- files ------------------------------------------------------------------------------

    def file(self, written: str) -> Path:
        """Resolve a path written in the params file: as is, beside the file, or in the project."""
        path = Path(written).expanduser()
        if path.is_absolute():
            return path
        bases = [Path.cwd(), *([self.origin.parent, self.origin.resolve().parent.parent] if self.origin else []), project_root()]
        return next((base / path for base in bases if (base / path).exists()), path)

    @cached_property
    def config(self) -> dict[str, Any]:
        """The model's architecture. Raises :class:`~neuronfit.errors.BadParams`."""
        return read_config(self.file(self.params.workload.model.config))

    @cached_property
    def ref(self) -> WorkloadRef:
        """Name and fingerprint, as in every record."""
        digest = fingerprint(self.params.workload, config_digest(self.config))
        return WorkloadRef(name=self.name, fingerprint=digest)

    @cached_property
    def dossier(self) -> Dossier:
        return Dossier(self.reports / self.name, self.work)

    def work(self) -> Optional[Work]:
        """What one result costs at least (:func:`neuronfit.plausibility.work_of`); ``None`` while the number of parameters is not known.

        It is read from step 1's profile, or from the catalogue of models; nothing is built to count it.
        """
        profile = self.dossier.latest(Profile)
        try:
            count = profile.parameters.value if profile else float(models.find(self.published_as).parameters)
        except NotFound:
            count = None
        return work_of(self.config, TASKS[self.params.workload.model.task].result, count) if count else None

    @property
    def published_as(self) -> str:
        """The model's name in published tables."""
        return self.params.workload.published_as or self.name


def project_root() -> Path:
    """The folder that holds ``params/``: the working folder or one above it, else the source tree."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "params").is_dir() and (folder / "notebooks").is_dir():
            return folder
    return Path(__file__).resolve().parents[2]


def params_folder() -> Path:
    return project_root() / "params"


def reports_folder() -> Path:
    """Where dossiers live: ``NEURONFIT_REPORTS`` (set by ``--reports``), else ``reports/``."""
    return Path(os.environ.get("NEURONFIT_REPORTS") or project_root() / "reports")


def params_file(name: str) -> Path:
    """A params file by the name of its workload, as notebooks and records have it; a path is kept.

    Raises :class:`~neuronfit.errors.BadParams` with the names that there are.
    """
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    path = params_folder() / f"{name.rpartition('/')[2]}.yaml"
    if not path.exists():
        known = sorted(entry.stem for entry in params_folder().glob("*.yaml"))
        near = nearest(name, known)
        allowed = ", ".join(known) + (f" (nearest: {near[0]})" if near else "")
        raise BadParams("no params file for workload", name, allowed=allowed or "a file in params/")
    return path
