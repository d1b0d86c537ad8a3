"""The plan of a controlled test, written for the place where production runs, each with its way back.

:func:`render` returns files as text; nothing here calls a service. Requests of a service are JSON, objects of Kubernetes YAML,
and a shell script beside each carries them out one step at a time.

* **SageMaker**: two production variants behind one endpoint, or the candidate as a shadow variant; every
  stage is one ``UpdateEndpointWeightsAndCapacities``.
* **ECS or EC2 behind an Application Load Balancer**: one listener rule with two weighted target groups;
  every stage is one ``ModifyRule``.
* **EKS**: an ``HTTPRoute`` of the Gateway API with two weighted backends (the shadow stage mirrors), or an
  Argo Rollouts ``Rollout`` with an ``AnalysisTemplate`` that watches the guardrails.
* **AWS Batch**: a job queue with ordered compute environments; jobs cannot be split by share.

Names, ARNs and images that only the team knows are CAPITALS; :func:`placeholders` lists them.
"""

from __future__ import annotations

from neuronfit.handover.aws import batch, load_balancer, sagemaker
from neuronfit.handover.kubernetes import argo, argo_before, gateway
from neuronfit.handover.plan import PLACES, Handover, Side, Stage, placeholders
from neuronfit.handover.scripts import readme, scripts
from neuronfit.handover.text import as_json, as_yaml

__all__ = [
    "Handover",
    "PLACES",
    "Side",
    "Stage",
    "argo",
    "argo_before",
    "batch",
    "gateway",
    "load_balancer",
    "placeholders",
    "render",
    "sagemaker",
]


def render(plan: Handover) -> dict[str, str]:
    """File name -> text, for every place, in the order of ``PLACES``: what is asked, the script that asks it, and a README."""
    files = {
        "sagemaker.json": as_json(sagemaker(plan)),
        "alb.json": as_json(load_balancer(plan)),
        "gateway.yaml": as_yaml(gateway(plan)),
        "argo-before.yaml": as_yaml(argo_before(plan)),
        "argo.yaml": as_yaml(argo(plan)),
        "batch.json": as_json(batch(plan)),
    }
    files |= scripts(plan)
    return {**files, "README.md": readme(plan, files)}
