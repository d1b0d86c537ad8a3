"""Objects of the Gateway API and of Argo Rollouts."""

from __future__ import annotations

from typing import Any, Optional

from neuronfit.handover.plan import Handover, Side, Stage, label

__all__ = ["argo", "argo_before", "gateway"]

WHOLE = 100
"""Argo's weights are whole per cent."""

PARTS = 10_000
"""Sum of the weights of a route; the Gateway API takes up to 1,000,000 each."""

ENOUGH = 1000
"""Requests from which on a p99 is looked at: ten beyond it."""


def gateway(plan: Handover) -> list[dict[str, Any]]:
    """One ``HTTPRoute`` (gateway.networking.k8s.io/v1) per stage and one for the way back; apply one at a time."""
    return [*(_route(plan, stage) for stage in plan.in_production), _route(plan, None)]


def _route(plan: Handover, stage: Optional[Stage]) -> dict[str, Any]:
    share = stage.share if stage and stage.mode == "split" else 0.0
    weight = max(round(share * PARTS), 1) if share else 0
    backends = [
        {"name": f"{plan.slug}-baseline", "port": 8080, "weight": PARTS - weight},
        {"name": f"{plan.slug}-candidate", "port": 8080, "weight": weight},
    ]
    rule: dict[str, Any] = {"backendRefs": backends}
    if stage and stage.mode == "shadow":
        mirror = {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": f"{plan.slug}-candidate", "port": 8080}}}
        rule = {"filters": [mirror], "backendRefs": backends[:1]}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": plan.slug, "namespace": "NAMESPACE_NAME", "labels": _labels(plan, stage.name if stage else "rollback")},
        "spec": {"parentRefs": [{"name": "GATEWAY_NAME"}], "rules": [rule]},
    }


def argo_before(plan: Handover) -> list[dict[str, Any]]:
    """What must be there before the candidate: both services, the route, and the ``Rollout`` with the baseline as its stable version.

    A ``Rollout`` that is created has nothing to go back to and skips its steps: created with the candidate, it would
    send everything there at once.
    """

    def service(side: str) -> dict[str, Any]:
        spec = {"selector": {"app": plan.slug}, "ports": [{"port": 8080, "targetPort": 8080}]}
        return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(plan, f"{plan.slug}-{side}", "before"), "spec": spec}

    return [service("baseline"), service("candidate"), _route(plan, None), _template(plan), _rollout(plan, "baseline")]


def argo(plan: Handover) -> list[dict[str, Any]]:
    """The ``Rollout`` with the candidate, whose canary steps are the stages and a stop for the verdict, and the ``AnalysisTemplate`` that aborts it.

    Aborting an Argo rollout sends all traffic to the stable version, which is the way back. Weights are
    whole per cent. The queries are for Prometheus with the metric names of the service filled in.
    """
    return [_rollout(plan, "candidate"), _template(plan)]


def _rollout(plan: Handover, side: str) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    for stage in plan.splits:
        steps.append({"setWeight": max(1, round(stage.share * WHOLE)) if stage.share else 0})
        steps.append({"pause": {"duration": _duration(stage.minutes)}})
    steps.append({"pause": {}})  # after its last step a rollout goes to everything; the verdict comes first
    fleet = plan.side(side)
    canary = {
        "canaryService": f"{plan.slug}-candidate",
        "stableService": f"{plan.slug}-baseline",
        "trafficRouting": {"plugins": {"argoproj-labs/gatewayAPI": {"httpRoute": plan.slug, "namespace": "NAMESPACE_NAME"}}},
        "analysis": {"templates": [{"templateName": f"{plan.slug}-guardrails"}], "args": [{"name": "service", "value": f"{plan.slug}-candidate"}]},
        "steps": steps,
    }
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "metadata": _metadata(plan, plan.slug, "rollout"),
        "spec": {
            "replicas": max(plan.baseline.instances, plan.candidate.instances),  # both versions are scaled to it
            "selector": {"matchLabels": {"app": plan.slug}},
            "template": {"metadata": {"labels": {"app": plan.slug}}, "spec": _pod(side, fleet)},
            "strategy": {"canary": canary},
        },
    }


def _pod(side: str, fleet: Side) -> dict[str, Any]:
    """One pod an instance, with all of its devices."""
    device = "aws.amazon.com/neuron" if fleet.neuron else "nvidia.com/gpu"
    limits = {"limits": {device: fleet.devices}}
    container = {"name": "server", "image": f"IMAGE_{side.upper()}", "ports": [{"containerPort": 8080}], "resources": limits}
    return {"nodeSelector": {"node.kubernetes.io/instance-type": fleet.instance_type}, "containers": [container]}


def _duration(minutes: float) -> str:
    seconds = max(1, round(minutes * 60))
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"


def _template(plan: Handover) -> dict[str, Any]:
    """Failures beyond what chance allows at the limit (as the alarms of AWS do), and p99 where there are requests enough.

    Prometheus answers with an empty list where a series does not exist, which to Argo is an error and after five an abort: a service
    that never failed has no series of failures.
    """
    service = 'service="{{args.service}}"'
    asked = f"(sum(increase(HTTP_REQUESTS_TOTAL{{{service}}}[5m])) or vector(0))"
    bad = f'(sum(increase(HTTP_REQUESTS_TOTAL{{{service},code=~"5.."}}[5m])) or vector(0))'
    limit = f"{plan.max_error_fraction:g}"
    metrics = [_metric("error-rate", f"{bad} - ({limit} * {asked} + 3 * sqrt({limit} * {asked}) + 3)", "0", 1)]
    if plan.max_latency_p99_s:
        slow = f"histogram_quantile(0.99, sum by (le) (increase(HTTP_REQUEST_SECONDS_BUCKET{{{service}}}[5m])))"
        metrics.append(_metric("latency-p99", f"{slow} and on() ({asked} >= {ENOUGH})", f"{plan.max_latency_p99_s:g}", 3))
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AnalysisTemplate",
        "metadata": _metadata(plan, f"{plan.slug}-guardrails", "guardrails"),
        "spec": {"args": [{"name": "service"}], "metrics": metrics},
    }


def _metric(name: str, query: str, most: str, minutes: int) -> dict[str, Any]:
    return {
        "name": name,
        "interval": "1m",
        "successCondition": f"len(result) == 0 || isNaN(result[0]) || result[0] <= {most}",
        "failureLimit": minutes - 1,
        "provider": {"prometheus": {"address": "PROMETHEUS_ADDRESS", "query": query}},
    }


def _metadata(plan: Handover, name: str, stage: str) -> dict[str, Any]:
    return {"name": name, "namespace": "NAMESPACE_NAME", "labels": _labels(plan, stage)}


def _labels(plan: Handover, stage: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": plan.slug, "neuronfit/plan": plan.plan_id or "none", "neuronfit/stage": label(stage)}
