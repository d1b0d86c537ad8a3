"""A shell script for each place, one step at a time, and the README.

A step never runs by itself: ``bash sagemaker.sh`` lists them, ``bash sagemaker.sh 3`` takes the third, ``bash sagemaker.sh back`` the way back.
What the team fills in is read from the environment and asked for where it is missing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from neuronfit.handover.aws import batch, load_balancer, sagemaker
from neuronfit.handover.kubernetes import argo, argo_before, gateway
from neuronfit.handover.plan import Handover, Stage, placeholders
from neuronfit.handover.text import as_json, as_yaml

__all__ = ["filled", "readme", "scripts"]

Step = tuple[str, str, str]
"""What it is called (a number, ``alarms`` or ``back``), what it does in words, its commands"""


def scripts(plan: Handover) -> dict[str, str]:
    """File name -> text."""
    found = {"sagemaker": _sagemaker(plan), "alb": _alb(plan), "gateway": _gateway(plan), "argo": _argo(plan), "batch": _batch(plan)}
    return {f"{place}.sh": _script(plan, place, steps) for place, steps in found.items()}


def _script(plan: Handover, place: str, steps: Sequence[Step]) -> str:
    lines = [
        "#!/usr/bin/env bash",
        f"# {place}: the controlled test of {plan.slug}, plan {plan.plan_id or 'none'}. One step at a time: bash {place}.sh 1",
        "set -euo pipefail",
        'need() { for name in "$@"; do [ -n "${!name:-}" ] || { echo "first: export $name=..." >&2; exit 2; }; done; }',
        "steps() {",
        *([f"  echo {shlex.quote(f'{name:<7} {said}')}" for name, said, _ in steps] or ["  echo 'nothing can be done here, see README.md'"]),
        "}",
        'case "${1:-}" in',
        '  "") steps ;;',
    ]
    for name, _, commands in steps:
        lines += [f"  {name})", *(f"    need {word}" for word in [" ".join(placeholders(commands))] if word), commands, "    ;;"]
    return "\n".join([*lines, "  *)", "    steps >&2", "    exit 2 ;;", "esac"]) + "\n"


def filled(text: str) -> str:
    """Text of a here-document in which the names to fill in are read from the environment and nothing else is."""
    plain = re.sub(r"([\\$`])", r"\\\1", text)
    return re.sub(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", lambda match: f"${{{match[0]}}}", plain)


def _aws(one: dict[str, Any]) -> str:
    command = re.sub(r"(?<!^)(?=[A-Z])", "-", one["operation"]).lower()
    return f'    aws {one["service"]} {command} --cli-input-json "$(cat <<JSON\n{filled(as_json(one["request"])).rstrip()}\nJSON\n)"'


def _steps(found: dict[str, Any], before: str = "", after: str = "") -> list[Step]:
    steps = [("alarms", "guardrails: alarms on the candidate", "\n".join(_aws(one) for one in found["guardrails"]))] if found["guardrails"] else []
    for number, one in enumerate(found["stages"], 1):
        steps.append((str(number), f"{one['operation']}: {one['when']}", _commands(one, before, after)))
    if found["rollback"]:
        steps.append(("back", found["rollback"][0]["when"], "\n".join(_commands(one, before, after) for one in found["rollback"])))
    return steps


def _commands(one: dict[str, Any], before: str, after: str) -> str:
    """The request, and for SageMaker the waiting around it: an endpoint takes no change while it is updated."""
    changes = one["operation"] in ("UpdateEndpoint", "UpdateEndpointWeightsAndCapacities")
    creates = one["operation"] == "CreateEndpoint" or one["service"] != "sagemaker"
    parts = [before if changes else "", _aws(one), after if changes or creates else ""]
    return "\n".join(part for part in parts if part)


def _sagemaker(plan: Handover) -> list[Step]:
    name = f"{plan.slug}-trial"
    wait = f"    aws sagemaker wait endpoint-in-service --endpoint-name {name}"
    show = f"    aws sagemaker describe-endpoint --endpoint-name {name} --output text --query 'ProductionVariants[].[VariantName,CurrentWeight]'"
    return _steps(sagemaker(plan), wait, f"{wait}\n{show}")


def _alb(plan: Handover) -> list[Step]:
    show = "    aws elbv2 describe-rules --rule-arns \"$LISTENER_RULE_ARN\" --output text --query 'Rules[].Actions[].ForwardConfig.TargetGroups[].[TargetGroupArn,Weight]'"
    return _steps(load_balancer(plan), "", show)


def _batch(plan: Handover) -> list[Step]:
    show = f"    aws batch describe-job-queues --job-queues {plan.slug}-trial --output text --query 'jobQueues[].computeEnvironmentOrder[]'"
    return _steps(batch(plan), "", show)


def _apply(objects: Sequence[dict[str, Any]]) -> str:
    return f"    kubectl apply -f - <<YAML\n{filled(as_yaml(objects)).rstrip()}\nYAML"


def _gateway(plan: Handover) -> list[Step]:
    *stages, back = gateway(plan)
    steps = [(str(number), f"HTTPRoute: {stage.lasts}", _apply([route])) for number, (stage, route) in enumerate(zip(plan.in_production, stages), 1)]
    return [*steps, ("back", "all traffic back to the baseline", _apply([back]))]


def _argo(plan: Handover) -> list[Step]:
    """Aborting sends the traffic back; giving the baseline's version again makes it last."""
    at = f'{plan.slug} --namespace "$NAMESPACE_NAME"'
    ready = f"    kubectl argo rollouts status {at}"
    abort = f"    kubectl argo rollouts abort {at}"
    return [
        ("1", "services, route, guardrails and the baseline's version; wait until it is stable", f"{_apply(argo_before(plan))}\n{ready}"),
        ("2", "the candidate's version: " + ", ".join(stage.lasts for stage in plan.splits), _apply(list(reversed(argo(plan))))),
        ("3", "after the verdict: everything to the candidate", f"    kubectl argo rollouts promote {at}"),
        ("back", "abort, and the baseline's version again", f"{abort}\n{_apply([argo_before(plan)[-1]])}"),
    ]


# -- the README -------------------------------------------------------------------------------


def readme(plan: Handover, files: dict[str, str]) -> str:
    said = {
        "sagemaker": ("SageMaker", "per request, not per user"),
        "alb": ("ECS or EC2 behind a load balancer", "per user for an hour, by a cookie"),
        "gateway": ("EKS, Gateway API", "per request, not per user"),
        "argo": ("EKS, Argo Rollouts", "per request, in whole per cent"),
        "batch": ("AWS Batch", "no share: the candidate first, the rest to the baseline"),
    }
    lines = [
        f"# The controlled test of {' '.join(plan.name.split())}, where production runs",
        "",
        f"Plan {plan.plan_id or '(not recorded)'}. Stages in order:",
        "",
    ]
    lines += [f"{number}. {' '.join(stage.name.split())}: {_what(stage)}, {stage.minutes:g} minutes" for number, stage in enumerate(plan.stages, 1)]
    lines += [
        "",
        "`bash PLACE.sh` lists the steps of a place, `bash PLACE.sh 1` takes the first, `bash PLACE.sh back` the way back. Exercise the way back once before the first stage.",
        "",
        "| place | script | what it asks | traffic is split | fill in, as environment variables |",
        "|---|---|---|---|---|",
    ]
    for place, (title, split) in said.items():
        asks = [name for name in files if name.startswith(place) and not name.endswith(".sh")]
        names = ", ".join(placeholders("".join(files[name] for name in (*asks, f"{place}.sh")))) or "nothing"
        lines.append(f"| {title} | `{place}.sh` | {', '.join(f'`{name}`' for name in asks)} | {split} | {names} |")
    lines += ["", "## Before you begin", "", *(f"- {note}" for note in _notes(plan))]
    return "\n".join(lines) + "\n"


def _what(stage: Stage) -> str:
    if stage.mode == "replay":
        return "`neuronfit trial` sends the recorded requests to both sides; production is not touched"
    return "a copy of every request" if stage.mode == "shadow" else f"{stage.share:.3g} of the traffic"


def _notes(plan: Handover) -> list[str]:
    fleets = f"{plan.baseline.instances} x {plan.baseline.instance_type} against {plan.candidate.instances} x {plan.candidate.instance_type}"
    last = max((stage.share for stage in plan.splits), default=0.0)
    notes = [
        f"Fleets: {fleets}. "
        + (
            f"Each side must carry its share of the peak; the last stage asks {last:.0%} of the candidate."
            if plan.counted
            else "Nobody declared how many, so it is one a side: set `count` of each target, or change it here."
        ),
        f"Guardrails: at most {plan.max_error_fraction:.3%} failed requests"
        + (f", p99 at most {plan.max_latency_p99_s * 1e3:g} ms" if plan.max_latency_p99_s else "")
        + ". Failures breach when there are more than chance allows at that share, so one failure of a small canary does not.",
        "SageMaker and the load balancer: an alarm tells ALARM_TOPIC_ARN and does not go back by itself; whoever hears it runs `back`.",
        "SageMaker: the endpoint is a new one, `" + f"{plan.slug}-trial" + "`. For one that exists, change the name and begin with UpdateEndpoint.",
        "The load balancer: the rule is not the default rule of its listener, which `ModifyRule` refuses. Shares follow as cookies run out.",
        f"Gateway API: the services `{plan.slug}-baseline` and `{plan.slug}-candidate` exist, on port 8080.",
        "Argo: needs the Gateway API plugin. Step 1 must be stable before step 2: a Rollout that is created with the candidate skips its steps. "
        "After step 2 the guardrails abort by themselves. After the last stage it waits, with its share, for step 3.",
    ]
    rounded = [stage for stage in plan.splits if stage.share and abs(max(1, round(stage.share * 100)) - stage.share * 100) > 0.05 * stage.share * 100]
    notes += [f"Argo: {' '.join(stage.name.split())} asks {stage.share:.3%}, and becomes {max(1, round(stage.share * 100))} %." for stage in rounded]
    for place, found in (("SageMaker", sagemaker(plan)), ("The load balancer", load_balancer(plan)), ("AWS Batch", batch(plan))):
        notes += [f"{place}: {' '.join(text.split())}." for text in found.get("not_possible", [])]
    if plan.shadowed:
        notes.append("Argo: a rollout cannot copy requests; do the shadow stage with the Gateway API or the splitter.")
    return notes
