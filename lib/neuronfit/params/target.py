"""Where it runs or might run, how it is reached there, and files that speak for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Optional, Union

from pydantic import Field, model_validator

from neuronfit.params.credentials import refuse_in_requests
from neuronfit.sections import Section

__all__ = ["Endpoint", "Evidence", "Target"]

Path_ = Literal[
    "cuda",
    "cpu",
    "neuron_xla",
    "neuron_native",
    "vllm_neuron",
    "nxd_inference",
    "torch_neuron",
    "jax",
    "optimum_neuron",
    "endpoint",
]


class Endpoint(Section):
    """Where a target is served. Credentials never belong here, only the name of a variable that holds one."""

    url: str = Field(description="address of the server, such as http://10.0.0.7:8000 or its /v1/completions")
    api: Literal["completions", "chat", "json"] = Field(
        "completions", description="OpenAI-compatible completions or chat, streamed; or a POST of `body` that is answered in one piece"
    )
    model: Optional[str] = Field(None, description="name under which the server knows the model; default: not sent")
    api_key_env: Optional[str] = Field(None, description="name of the environment variable that holds the API key")
    timeout_s: float = Field(60.0, gt=0, description="a request that takes longer has failed, seconds")
    max_connections: int = Field(256, ge=1, le=20000, description="connections that may be open at a time")
    body: dict[str, Any] = Field(
        default_factory=dict,
        description="keys added to each request, e.g. {ignore_eos: true}; with api json the whole body, e.g. {inputs: '{prompt}'}",
    )

    @model_validator(mode="before")
    @classmethod
    def _no_credentials(cls, data: Any) -> Any:
        """Messages here never repeat what was written: it may be a key."""
        if isinstance(data, Mapping):
            refuse_in_requests(data, ["url"], "VLLM_API_KEY")
        return data


class Target(Section):
    """Where it runs, or might run."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="short name used on the command line")
    instance_type: str = Field(description="EC2 instance type, e.g. g6.xlarge")
    path: Path_ = Field(description="software path")
    count: Optional[int] = Field(None, ge=1, description="instances that run; shown as declared beside what the peak needs, which is the default")
    settings: dict[str, Union[bool, int, float, str]] = Field(
        default_factory=dict, description="what was tuned, e.g. {precision: fp16, batch_size: 8}"
    )
    endpoint: Optional[Endpoint] = Field(None, description="where it is served; a target with one is measured through it")


class Evidence(Section):
    """A file to adopt into the dossier."""

    file: str = Field(description="path of a record written by `neuronfit measure`, or of another tool's result file or monitor capture")
    target: str = Field(description="name of the baseline or candidate it speaks for")
    format: Optional[str] = Field(None, description="format of another tool's file; default: found by its content")
    settings: dict[str, Union[bool, int, float, str]] = Field(
        default_factory=dict,
        description="what another tool's file does not say, e.g. {batch_size: 8, precision: bf16, instance_type: inf2.xlarge, concurrency: 16, requests: 500}",
    )
