"""Requests of SageMaker, Elastic Load Balancing and AWS Batch, with the alarms that watch the guardrails.

Each function returns ``guardrails`` (alarms, before the first stage), ``stages`` in order, ``rollback`` and, where a place cannot do
what the plan asks, ``not_possible``.
"""

from __future__ import annotations

from typing import Any, Optional

from neuronfit.handover.plan import Handover, Stage
from neuronfit.handover.text import call

__all__ = ["NOT_ON_SAGEMAKER", "batch", "load_balancer", "sagemaker"]

NOT_ON_SAGEMAKER = frozenset(
    "g4dn.metal g5g.xlarge g5g.2xlarge g5g.4xlarge g5g.8xlarge g5g.16xlarge g5g.metal g6f.large g6f.xlarge g6f.2xlarge g6f.4xlarge "
    "gr6.4xlarge gr6.8xlarge gr6f.4xlarge p3dn.24xlarge trn2.3xlarge trn2u.48xlarge".split()
)
"""Types of the catalogue that are no ProductionVariantInstanceType (botocore 1.44.8, 2026-11-30)."""

PERIOD_S = 300
"""Period of the alarm on failures; a count over it is compared with what chance allows."""

THOUSANDTHS = 900
"""Sum of the weights of a load balancer's rule: at most 999 each, and the usual shares are whole parts of it."""

STICKY_S = 3600
"""Seconds for which a user stays on one side, unless the stage is shorter."""


def beyond(limit: float, asked: str, bad: str) -> str:
    """Failures above those that chance allows at the limit: mean of a Poisson count, three standard errors and three more. Positive is a breach.

    At the limit itself one look in a thousand is above it or fewer; a single failure of a small canary never is.
    """
    return f"{bad} - ({limit:g} * {asked} + 3 * SQRT({limit:g} * {asked}) + 3)"


# -- SageMaker --------------------------------------------------------------------------------


def sagemaker(plan: Handover) -> dict[str, Any]:
    """Requests of the SageMaker API by operation, in the order of the plan; the last is the way back.

    A shadow variant gets a copy of every request and its answers are dropped; an endpoint configuration
    has either one shadow variant beside one production variant, or two production variants with weights, so the shadow stage is a
    configuration of its own. Alarms are not tied to ``UpdateEndpoint``: its automatic rollback acts while an endpoint is
    updated, and a stage is a change of weights.
    """
    slug, endpoint = plan.slug, f"{plan.slug}-trial"
    tags = [{"Key": "neuronfit:plan", "Value": plan.plan_id or "none"}]
    missing = [side.instance_type for side in (plan.baseline, plan.candidate) if side.instance_type in NOT_ON_SAGEMAKER]
    if missing:
        return {"guardrails": [], "stages": [], "rollback": [], "not_possible": [f"{name} is no instance type of SageMaker" for name in missing]}

    def variant(name: str, weight: float) -> dict[str, Any]:
        return {
            "VariantName": name,
            "ModelName": f"MODEL_{name.upper()}",
            "InstanceType": f"ml.{plan.side(name).instance_type}",
            "InitialInstanceCount": plan.side(name).instances,
            "InitialVariantWeight": weight,
        }

    variants = {
        "shadow": {"ProductionVariants": [variant("baseline", 1.0)], "ShadowProductionVariants": [variant("candidate", 1.0)]},
        "split": {"ProductionVariants": [variant("baseline", 1.0), variant("candidate", 0.0)]},
    }
    what = {"shadow": "the baseline answers, the candidate gets a copy", "split": "both answer, at first the baseline alone"}
    kinds = [kind for kind in ("shadow", "split") if any(stage.mode == kind for stage in plan.stages)] or ["split"]
    requests = [
        call("sagemaker", "CreateEndpointConfig", {"EndpointConfigName": f"{slug}-{kind}", **variants[kind], "Tags": tags}, what[kind])
        for kind in kinds
    ]
    present: Optional[str] = None
    for stage in plan.in_production:
        if stage.mode != present:
            config = {"EndpointName": endpoint, "EndpointConfigName": f"{slug}-{stage.mode}"}
            shadow = stage.lasts if stage.mode == "shadow" else "after the shadow stage"
            if present is None:
                requests.append(call("sagemaker", "CreateEndpoint", {**config, "Tags": tags}, shadow if stage.mode == "shadow" else "once"))
            else:
                requests.append(call("sagemaker", "UpdateEndpoint", config, shadow))
            present = stage.mode
        if stage.mode == "split":
            requests.append(_weights(endpoint, stage.share, stage.lasts))
    return {
        "guardrails": _variant_alarms(plan, endpoint),
        "stages": requests,
        "rollback": [_weights(endpoint, 0.0, "all traffic back to the baseline")],
    }


def _weights(endpoint: str, share: float, when: str) -> dict[str, Any]:
    weights = [
        {"VariantName": "baseline", "DesiredWeight": round(1 - share, 6)},
        {"VariantName": "candidate", "DesiredWeight": round(share, 6)},
    ]
    return call("sagemaker", "UpdateEndpointWeightsAndCapacities", {"EndpointName": endpoint, "DesiredWeightsAndCapacities": weights}, when)


def _variant_alarms(plan: Handover, endpoint: str) -> list[dict[str, Any]]:
    """On the candidate's variant. ``ModelLatency`` is in microseconds and has no network in it."""
    sides = [{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": "candidate"}]
    bad = ("Invocation5XXErrors", "Invocation4XXErrors")
    alarms = [_failures(plan, "AWS/SageMaker", sides, "Invocations", bad)]
    if plan.max_latency_p99_s:
        alarms.append(_slow(plan, "AWS/SageMaker", sides, "ModelLatency", plan.max_latency_p99_s * 1e6))
    return alarms


def _failures(plan: Handover, namespace: str, dimensions: list[dict[str, str]], asked: str, bad: tuple[str, ...]) -> dict[str, Any]:
    def sum_of(id: str, name: str) -> dict[str, Any]:
        metric = {"Namespace": namespace, "MetricName": name, "Dimensions": dimensions}
        return {"Id": id, "MetricStat": {"Metric": metric, "Period": PERIOD_S, "Stat": "Sum"}, "ReturnData": False}

    names = [f"bad{number}" for number in range(1, len(bad) + 1)]
    total = "(" + " + ".join(f"FILL({name}, 0)" for name in names) + ")"
    metrics = [sum_of("asked", asked), *(sum_of(id, name) for id, name in zip(names, bad))]
    metrics.append(
        {"Id": "beyond", "Expression": beyond(plan.max_error_fraction, "asked", total), "Label": "failures beyond the limit", "ReturnData": True}
    )
    request = {
        "AlarmName": f"{plan.slug}-trial-errors",
        "AlarmDescription": f"more than {plan.max_error_fraction:.3%} of the candidate's requests fail, plan {plan.plan_id or 'none'}",
        "AlarmActions": ["ALARM_TOPIC_ARN"],
        "Metrics": metrics,
        "EvaluationPeriods": 1,
        "Threshold": 0.0,
        "ComparisonOperator": "GreaterThanThreshold",
        "TreatMissingData": "notBreaching",
    }
    return call("cloudwatch", "PutMetricAlarm", request, "before the first stage: share of failed requests")


def _slow(plan: Handover, namespace: str, dimensions: list[dict[str, str]], name: str, threshold: float) -> dict[str, Any]:
    request = {
        "AlarmName": f"{plan.slug}-trial-latency",
        "AlarmDescription": f"p99 of the candidate above {plan.max_latency_p99_s * 1e3:g} ms, plan {plan.plan_id or 'none'}",
        "AlarmActions": ["ALARM_TOPIC_ARN"],
        "Namespace": namespace,
        "MetricName": name,
        "Dimensions": dimensions,
        "ExtendedStatistic": "p99",
        "EvaluateLowSampleCountPercentile": "ignore",
        "Period": 60,
        "EvaluationPeriods": 3,
        "Threshold": round(threshold, 6),
        "ComparisonOperator": "GreaterThanThreshold",
        "TreatMissingData": "notBreaching",
    }
    return call(
        "cloudwatch", "PutMetricAlarm", request, "before the first stage: p99 in three minutes on end, where there are requests enough for one"
    )


# -- a load balancer --------------------------------------------------------------------------


def load_balancer(plan: Handover) -> dict[str, Any]:
    """Requests of the Elastic Load Balancing v2 API. Weights are whole numbers from 0 to 999; stickiness keeps a user on one side.

    An ALB cannot mirror traffic: the shadow stage needs the splitter, or a copy inside the service. Going back, and going
    all the way, ends the stickiness, so that no cookie holds a user on the other side.
    """

    def rule(share: float, when: str, seconds: float = STICKY_S) -> dict[str, Any]:
        parts = max(round(share * THOUSANDTHS), 1) if share else 0
        groups = [
            {"TargetGroupArn": "TARGET_GROUP_ARN_BASELINE", "Weight": THOUSANDTHS - parts},
            {"TargetGroupArn": "TARGET_GROUP_ARN_CANDIDATE", "Weight": parts},
        ]
        sticky = {"Enabled": 0 < share < 1, "DurationSeconds": max(1, min(STICKY_S, round(seconds)))}
        action = {"Type": "forward", "ForwardConfig": {"TargetGroups": groups, "TargetGroupStickinessConfig": sticky}}
        return call("elbv2", "ModifyRule", {"RuleArn": "LISTENER_RULE_ARN", "Actions": [action]}, when)

    not_possible = [f"{stage.name}: an Application Load Balancer cannot copy requests" for stage in plan.stages if stage.mode == "shadow"]
    not_possible += [f"{stage.name}: a share of {stage.share:g} becomes {_share(stage):.3g}" for stage in plan.splits if _off(stage)]
    return {
        "guardrails": _group_alarms(plan),
        "stages": [rule(stage.share, stage.lasts, stage.minutes * 60) for stage in plan.splits],
        "rollback": [rule(0.0, "all traffic back to the baseline")],
        "not_possible": not_possible,
    }


def _share(stage: Stage) -> float:
    return (max(round(stage.share * THOUSANDTHS), 1) if stage.share else 0) / THOUSANDTHS


def _off(stage: Stage) -> bool:
    return abs(_share(stage) - stage.share) > 0.05 * stage.share


def _group_alarms(plan: Handover) -> list[dict[str, Any]]:
    """On the candidate's target group. ``TargetResponseTime`` is in seconds."""
    sides = [{"Name": "TargetGroup", "Value": "TARGET_GROUP_DIMENSION_CANDIDATE"}, {"Name": "LoadBalancer", "Value": "LOAD_BALANCER_DIMENSION"}]
    bad = ("HTTPCode_Target_5XX_Count", "TargetConnectionErrorCount")
    alarms = [_failures(plan, "AWS/ApplicationELB", sides, "RequestCount", bad)]
    if plan.max_latency_p99_s:
        alarms.append(_slow(plan, "AWS/ApplicationELB", sides, "TargetResponseTime", plan.max_latency_p99_s))
    return alarms


# -- Batch ------------------------------------------------------------------------------------


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
    first = {
        "jobQueueName": name,
        "state": "ENABLED",
        "priority": 1,
        "computeEnvironmentOrder": ordered,
        "tags": {"neuronfit:plan": plan.plan_id or "none"},
    }
    back = {"jobQueue": name, "state": "ENABLED", "computeEnvironmentOrder": alone}
    return {
        "guardrails": [],
        "stages": [call("batch", "CreateJobQueue", first, "once")],
        "rollback": [call("batch", "UpdateJobQueue", back, "jobs that wait and new ones run on the baseline only")],
        "not_possible": [f"{stage.name}: AWS Batch orders environments, it does not split by share" for stage in plan.in_production],
    }
