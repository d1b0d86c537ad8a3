"""The plan of a controlled test, written for the place where production runs, each with its way back.

:func:`render` returns files as text; nothing here calls a service. Three kinds of requests:

* **SageMaker**: two production variants behind one endpoint, or the candidate as a shadow variant; every
  stage is one ``UpdateEndpointWeightsAndCapacities``.
* **ECS or EC2 behind an Application Load Balancer**: one listener rule with two weighted target groups;
  every stage is one ``ModifyRule``.
* **EKS**: an ``HTTPRoute`` of the Gateway API with two weighted backends (the shadow stage mirrors), or an
  Argo Rollouts ``Rollout`` with an ``AnalysisTemplate`` that watches the guardrails.
* **AWS Batch**: a job queue with ordered compute environments; jobs cannot be split by share, so a stage is
  a queue of its own.

Names, ARNs and images that only the team knows are CAPITALS; :func:`placeholders` lists them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

__all__ = ["Handover", "PLACES", "Stage", "placeholders", "render"]

PLACES = ("sagemaker", "alb", "gateway", "argo", "batch")

WHOLE = 100
"""Weights are whole per cent where a service wants whole numbers; Gateway API and ALB take thousandths as well."""


@dataclass(frozen=True)
class Stage:
    """One stage: ``mode`` is ``shadow`` or ``split``; ``share`` is the candidate's fraction of the traffic."""

    name: str
    mode: str
    share: float
    minutes: float


@dataclass(frozen=True)
class Handover:
    """What every place needs to know of the plan."""

    name: str
    """of the workload; letters, digits, dots, dashes and underscores"""
    baseline_type: str
    candidate_type: str
    stages: tuple[Stage, ...]
    max_error_fraction: float
    max_latency_p99_s: Optional[float] = None
    plan_id: str = ""
    """id of the plan record, written into every object as a tag or label"""

    @property
    def slug(self) -> str:
        """The name as services take it: lower case, digits and dashes, at most 40 characters."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")[:40].rstrip("-")

    @property
    def shadowed(self) -> bool:
        return any(stage.mode == "shadow" for stage in self.stages)

    @property
    def splits(self) -> tuple[Stage, ...]:
        return tuple(stage for stage in self.stages if stage.mode == "split")


def render(plan: Handover) -> dict[str, str]:
    """File name -> text, for every place, in the order of ``PLACES``, and a README with the commands."""
    files = {
        "sagemaker.json": _json(sagemaker(plan)),
        "alb.json": _json(load_balancer(plan)),
        "gateway.yaml": _yaml(gateway(plan)),
        "argo.yaml": _yaml(argo(plan)),
        "batch.json": _json(batch(plan)),
    }
    return {**files, "README.md": _readme(plan, files)}


def placeholders(text: str) -> list[str]:
    """What the team fills in: words of at least three capitals with an underscore, such as ``MODEL_BASELINE``."""
    return sorted(set(re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", text)))


# -- the places -------------------------------------------------------------------------------


def sagemaker(plan: Handover) -> dict[str, Any]:
    """Requests of the SageMaker API by operation, in order; the last is the way back.

    A shadow variant gets a copy of every request and its answers are dropped; an endpoint configuration
    has either shadow variants or two production variants with weights, so the shadow stage is a
    configuration of its own.
    """
    slug = plan.slug
    endpoint = f"{slug}-trial"

    def variant(side: str, weight: float) -> dict[str, Any]:
        kind = plan.baseline_type if side == "baseline" else plan.candidate_type
        return {
            "VariantName": side,
            "ModelName": f"MODEL_{side.upper()}",
            "InstanceType": f"ml.{kind}",
            "InitialInstanceCount": 1,
            "InitialVariantWeight": weight,
        }

    tags = [{"Key": "neuronfit:plan", "Value": plan.plan_id or "none"}]
    requests: list[dict[str, Any]] = []
    if plan.shadowed:
        requests.append(
            _call(
                "CreateEndpointConfig",
                {
                    "EndpointConfigName": f"{slug}-shadow",
                    "ProductionVariants": [variant("baseline", 1.0)],
                    "ShadowProductionVariants": [variant("candidate", 1.0)],
                    "Tags": tags,
                },
                "the baseline answers, the candidate gets a copy",
            )
        )
    requests.append(
        _call(
            "CreateEndpointConfig",
            {"EndpointConfigName": f"{slug}-split", "ProductionVariants": [variant("baseline", 1.0), variant("candidate", 0.0)], "Tags": tags},
            "both answer, at first the baseline alone",
        )
    )
    first = f"{slug}-shadow" if plan.shadowed else f"{slug}-split"
    requests.append(_call("CreateEndpoint", {"EndpointName": endpoint, "EndpointConfigName": first, "Tags": tags}, "once"))
    if plan.shadowed:
        requests.append(_call("UpdateEndpoint", {"EndpointName": endpoint, "EndpointConfigName": f"{slug}-split"}, "after the shadow stage"))
    for stage in plan.splits:
        requests.append(_weights(endpoint, stage.share, f"{stage.name}: at least {stage.minutes:g} minutes"))
    return {"stages": requests, "rollback": [_weights(endpoint, 0.0, "all traffic back to the baseline")]}


def _weights(endpoint: str, share: float, when: str) -> dict[str, Any]:
    weights = [
        {"VariantName": "baseline", "DesiredWeight": round(1 - share, 6)},
        {"VariantName": "candidate", "DesiredWeight": round(share, 6)},
    ]
    return _call("UpdateEndpointWeightsAndCapacities", {"EndpointName": endpoint, "DesiredWeightsAndCapacities": weights}, when)


def load_balancer(plan: Handover) -> dict[str, Any]:
    """Requests of the Elastic Load Balancing v2 API. Weights are whole numbers from 0 to 999; stickiness keeps a user on one side.

    An ALB cannot mirror traffic: the shadow stage needs the splitter, or a copy inside the service.
    """

    def rule(share: float, when: str) -> dict[str, Any]:
        thousandths = round(share * 900)
        groups = [
            {"TargetGroupArn": "TARGET_GROUP_ARN_BASELINE", "Weight": 900 - thousandths},
            {"TargetGroupArn": "TARGET_GROUP_ARN_CANDIDATE", "Weight": thousandths},
        ]
        sticky = {"Enabled": 0 < share < 1, "DurationSeconds": 3600}
        action = {"Type": "forward", "ForwardConfig": {"TargetGroups": groups, "TargetGroupStickinessConfig": sticky}}
        return _call("ModifyRule", {"RuleArn": "LISTENER_RULE_ARN", "Actions": [action]}, when)

    return {
        "stages": [rule(stage.share, f"{stage.name}: at least {stage.minutes:g} minutes") for stage in plan.splits],
        "rollback": [rule(0.0, "all traffic back to the baseline")],
        "not_possible": [f"{stage.name}: an Application Load Balancer cannot copy requests" for stage in plan.stages if stage.mode == "shadow"],
    }


def gateway(plan: Handover) -> list[dict[str, Any]]:
    """One ``HTTPRoute`` (gateway.networking.k8s.io/v1) per stage and one for the way back; apply one at a time."""

    def route(stage: Optional[Stage]) -> dict[str, Any]:
        label = re.sub(r"[^a-z0-9]+", "-", (stage.name if stage else "rollback").lower()).strip("-")
        share = stage.share if stage and stage.mode == "split" else 0.0
        weight = round(share * 1000)
        backends = [
            {"name": f"{plan.slug}-baseline", "port": 8080, "weight": 1000 - weight},
            {"name": f"{plan.slug}-candidate", "port": 8080, "weight": weight},
        ]
        one: dict[str, Any] = {"backendRefs": backends}
        if stage and stage.mode == "shadow":
            mirror = {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": f"{plan.slug}-candidate", "port": 8080}}}
            one = {"filters": [mirror], "backendRefs": backends[:1]}
        return {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {"name": plan.slug, "labels": _labels(plan, label)},
            "spec": {"parentRefs": [{"name": "GATEWAY_NAME"}], "rules": [one]},
        }

    return [*(route(stage) for stage in plan.stages), route(None)]


def argo(plan: Handover) -> list[dict[str, Any]]:
    """A ``Rollout`` whose canary steps are the stages, and the ``AnalysisTemplate`` that aborts it.

    Aborting an Argo rollout sends all traffic to the stable version, which is the way back. Weights are
    whole per cent. The queries are for Prometheus with the metric names of the service filled in.
    """
    steps: list[dict[str, Any]] = []
    for stage in plan.splits:
        steps.append({"setWeight": max(1, round(stage.share * WHOLE)) if stage.share else 0})
        steps.append({"pause": {"duration": f"{max(1, round(stage.minutes))}m"}})
    errors = (
        'sum(rate(HTTP_REQUESTS_TOTAL{service="{{args.service}}",code=~"5.."}[1m])) / sum(rate(HTTP_REQUESTS_TOTAL{service="{{args.service}}"}[1m]))'
    )
    metrics = [_metric("error-rate", errors, f"isNaN(result[0]) || result[0] <= {plan.max_error_fraction:g}", 1)]
    if plan.max_latency_p99_s:
        slow = 'histogram_quantile(0.99, sum by (le) (rate(HTTP_REQUEST_SECONDS_BUCKET{service="{{args.service}}"}[1m])))'
        metrics.append(_metric("latency-p99", slow, f"isNaN(result[0]) || result[0] <= {plan.max_latency_p99_s:g}", 3))
    guard = f"{plan.slug}-guardrails"
    container = {"name": "server", "image": "IMAGE_CANDIDATE", "ports": [{"containerPort": 8080}]}
    if plan.candidate_type.startswith(("inf", "trn")):
        container["resources"] = {"limits": {"aws.amazon.com/neuron": 1}}
    pod = {
        "metadata": {"labels": {"app": plan.slug}},
        "spec": {"nodeSelector": {"node.kubernetes.io/instance-type": plan.candidate_type}, "containers": [container]},
    }
    rollout = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": plan.slug, "labels": _labels(plan, "rollout")},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": plan.slug}},
            "template": pod,
            "strategy": {
                "canary": {
                    "canaryService": f"{plan.slug}-candidate",
                    "stableService": f"{plan.slug}-baseline",
                    "trafficRouting": {"plugins": {"argoproj-labs/gatewayAPI": {"httpRoute": plan.slug, "namespace": "default"}}},
                    "analysis": {"templates": [{"templateName": guard}], "args": [{"name": "service", "value": f"{plan.slug}-candidate"}]},
                    "steps": steps,
                }
            },
        },
    }
    template = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AnalysisTemplate",
        "metadata": {"name": guard, "labels": _labels(plan, "guardrails")},
        "spec": {"args": [{"name": "service"}], "metrics": metrics},
    }
    return [rollout, template]


def _metric(name: str, query: str, condition: str, minutes: int) -> dict[str, Any]:
    return {
        "name": name,
        "interval": "1m",
        "successCondition": condition,
        "failureLimit": minutes - 1,
        "provider": {"prometheus": {"address": "PROMETHEUS_ADDRESS", "query": query}},
    }


def batch(plan: Handover) -> dict[str, Any]:
    """Requests of the AWS Batch API: a queue that prefers the candidate and falls back to the baseline, and the way back.

    Batch fills the first compute environment and overflows into the next; it cannot send a share. A
    job definition runs on one kind of accelerator, so an image must serve both or jobs must be submitted
    to the queue of their side.
    """
    ordered = [
        {"order": 1, "computeEnvironment": "COMPUTE_ENVIRONMENT_CANDIDATE"},
        {"order": 2, "computeEnvironment": "COMPUTE_ENVIRONMENT_BASELINE"},
    ]
    alone = [{"order": 1, "computeEnvironment": "COMPUTE_ENVIRONMENT_BASELINE"}]
    name = f"{plan.slug}-trial"
    tags = {"neuronfit:plan": plan.plan_id or "none"}
    return {
        "stages": [
            _call(
                "CreateJobQueue", {"jobQueueName": name, "state": "ENABLED", "priority": 1, "computeEnvironmentOrder": ordered, "tags": tags}, "once"
            )
        ],
        "rollback": [
            _call("UpdateJobQueue", {"jobQueue": name, "state": "ENABLED", "computeEnvironmentOrder": alone}, "jobs run on the baseline only")
        ],
        "not_possible": [f"{stage.name}: AWS Batch orders environments, it does not split by share" for stage in plan.stages],
    }


# -- text -------------------------------------------------------------------------------------


def _call(operation: str, request: dict[str, Any], when: str) -> dict[str, Any]:
    return {"when": when, "operation": operation, "request": request}


def _labels(plan: Handover, stage: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": plan.slug, "neuronfit/plan": plan.plan_id or "none", "neuronfit/stage": stage[:63]}


def _json(data: Any) -> str:
    return json.dumps(data, indent=2) + "\n"


def _yaml(documents: Sequence[dict[str, Any]]) -> str:
    import yaml

    return "---\n".join(yaml.safe_dump(document, sort_keys=False, width=150) for document in documents)


def _readme(plan: Handover, files: dict[str, str]) -> str:
    said = {
        "sagemaker.json": ("SageMaker", "aws sagemaker {op} --cli-input-json REQUEST", "the last request"),
        "alb.json": ("ECS or EC2 behind a load balancer", "aws elbv2 modify-rule --cli-input-json REQUEST", "the last request"),
        "gateway.yaml": ("EKS, Gateway API", "kubectl apply -f ONE_DOCUMENT", "apply the last document"),
        "argo.yaml": ("EKS, Argo Rollouts", "kubectl apply -f argo.yaml", f"kubectl argo rollouts abort {plan.slug}"),
        "batch.json": ("AWS Batch", "aws batch create-job-queue --cli-input-json REQUEST", "aws batch update-job-queue with the last request"),
    }
    lines = [f"# The controlled test of {plan.name}, where production runs", "", f"Plan {plan.plan_id or '(not recorded)'}. Stages in order:", ""]
    lines += [
        f"{number}. {stage.name}: "
        + ("a copy of every request" if stage.mode == "shadow" else f"{stage.share:.3g} of the traffic")
        + f", {stage.minutes:g} minutes"
        for number, stage in enumerate(plan.stages, 1)
    ]
    lines += ["", "Exercise the way back once before the first stage.", "", "| file | for | apply | way back | fill in |", "|---|---|---|---|---|"]
    for name, text in files.items():
        place, command, back = said[name]
        lines.append(f"| {name} | {place} | `{command.replace('{op}', 'OPERATION')}` | {back} | {', '.join(placeholders(text)) or 'nothing'} |")
    return "\n".join(lines) + "\n"
