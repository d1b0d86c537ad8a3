"""The plan as other services take it: every request against the service's own model, the flows against moto, objects against schemas."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import subprocess
from dataclasses import replace

import boto3
import botocore.session
import jsonschema
import pytest
import yaml
from botocore.validate import ParamValidator
from example_questions import question
from moto import mock_aws
from neuronfit import trial
from neuronfit.catalog import instances
from neuronfit.handover import Handover, Side, Stage, argo, argo_before, batch, gateway, load_balancer, placeholders, render, sagemaker
from neuronfit.handover.aws import NOT_ON_SAGEMAKER, beyond
from neuronfit.handover.scripts import filled
from neuronfit.trial.plan import handed_over

PLAN = Handover(
    name="BERT_base.uncased",
    baseline=Side("g6.xlarge", 2),
    candidate=Side("inf2.xlarge", 3),
    stages=(
        Stage("shadow", "shadow", 0.0, 60),
        Stage("canary 1 %", "split", 0.01, 60),
        Stage("canary 25 %", "split", 0.25, 120),
        Stage("full", "split", 1.0, 60),
    ),
    max_error_fraction=0.002,
    max_latency_p99_s=0.02,
    plan_id="0123456789abcdef",
)

TRAINIUM = Handover(
    name="x", baseline=Side("p4d.24xlarge", 1, 8), candidate=Side("trn1.32xlarge", 1, 16), stages=PLAN.splits, max_error_fraction=0.01
)

EVERYTHING = replace(
    PLAN,
    name="7B_Chat / Über-long name of a workload that no service takes as it is, version 2",
    stages=(
        Stage("replay", "replay", 0.0, 10),
        Stage("shadow 1", "shadow", 0.0, 60),
        Stage("canary `rm` $(x) 'y'\n1 %", "split", 0.01, 30),
        Stage("shadow 2", "shadow", 0.0, 60),
        Stage("canary 12.5 %", "split", 0.125, 1.5),
        Stage("full", "split", 1.0, 60),
    ),
)
"""Every mode, in an order that switches twice, with names that nobody should give."""

PLANS = {"inf2": PLAN, "trn1": TRAINIUM, "everything": EVERYTHING}


def calls(rendered: dict) -> list[dict]:
    return [*rendered["stages"], *rendered["rollback"]]


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("service, rendered", [("sagemaker", sagemaker), ("elbv2", load_balancer), ("batch", batch)])
def test_every_request_is_valid_by_the_model_of_its_service(plan, service, rendered):
    found = rendered(plan)
    for call in found["guardrails"]:
        shape = botocore.session.get_session().get_service_model("cloudwatch").operation_model(call["operation"]).input_shape
        assert not ParamValidator().validate(call["request"], shape).has_errors(), call["operation"]
    model = botocore.session.get_session().get_service_model(service)
    for call in calls(found):
        shape = model.operation_model(call["operation"]).input_shape
        report = ParamValidator().validate(call["request"], shape)
        assert not report.has_errors(), f"{call['operation']}: {report.generate_report()}"
        assert_names_fit(shape, call["request"])
        for name, kind in instance_types(call["request"]):
            allowed = model.shape_for("ProductionVariantInstanceType").enum
            assert kind in allowed, f"{name}: {kind} is no SageMaker instance type"


def assert_names_fit(shape, request: dict) -> None:
    """Patterns and lengths, which botocore's validation leaves to the service."""
    for name, value in request.items():
        member = shape.members[name]
        if member.type_name == "string":
            pattern = member.metadata.get("pattern", ".*")
            assert "\\p{" in pattern or re.fullmatch(pattern, FILLED.get(value, value)), f"{name}: {value}"
            assert len(value) <= member.metadata.get("max", 10**6), f"{name}: {value}"
        elif member.type_name == "list" and member.member.type_name == "structure":
            for one in value:
                assert_names_fit(member.member, one)


def instance_types(request: dict) -> list[tuple[str, str]]:
    variants = [*request.get("ProductionVariants", []), *request.get("ShadowProductionVariants", [])]
    return [(variant["VariantName"], variant["InstanceType"]) for variant in variants]


def test_a_wrong_request_would_be_noticed():
    model = botocore.session.get_session().get_service_model("sagemaker")
    shape = model.operation_model("UpdateEndpointWeightsAndCapacities").input_shape
    request = sagemaker(PLAN)["rollback"][0]["request"]
    assert ParamValidator().validate({**request, "DesiredWeightsAndCapacities": [{"VariantName": "x", "DesiredWeight": "0"}]}, shape).has_errors()
    assert ParamValidator().validate({"EndpointName": "x"}, shape).has_errors()


def models(client) -> None:
    for side in ("BASELINE", "CANDIDATE"):
        image = {"Image": "000000000000.dkr.ecr.us-east-1.amazonaws.com/x:1"}
        client.create_model(ModelName=f"MODEL_{side}", PrimaryContainer=image, ExecutionRoleArn="arn:aws:iam::000000000000:role/x")


OLDER = {"baseline": Side("g4dn.xlarge", 2), "candidate": Side("inf1.xlarge", 3)}
"""moto's list of types ends before inf2 and g6"""


@mock_aws
def test_sagemaker_takes_the_stages_and_the_way_back():
    client = boto3.client("sagemaker", region_name="us-east-1")
    models(client)
    shares = []
    for call in calls(sagemaker(replace(PLAN, **OLDER, stages=PLAN.splits))):
        getattr(client, snake(call["operation"]))(**call["request"])
        if call["operation"].startswith("Update"):
            variants = client.describe_endpoint(EndpointName="bert-base-uncased-trial")["ProductionVariants"]
            shares.append({variant["VariantName"]: variant["CurrentWeight"] for variant in variants})
    assert [share["candidate"] for share in shares] == [0.01, 0.25, 1.0, 0.0]
    assert all(share["baseline"] + share["candidate"] == pytest.approx(1.0) for share in shares)
    configuration = client.describe_endpoint_config(EndpointConfigName="bert-base-uncased-split")
    assert {one["VariantName"]: (one["InstanceType"], one["InitialInstanceCount"]) for one in configuration["ProductionVariants"]} == {
        "baseline": ("ml.g4dn.xlarge", 2),
        "candidate": ("ml.inf1.xlarge", 3),
    }


def snake(operation: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower()


def test_a_shadow_is_beside_one_variant_and_every_update_names_a_configuration_that_exists():
    """``If you use this field, you can only specify one variant for ProductionVariants and one for ShadowProductionVariants`` (the service model)."""
    requests = sagemaker(EVERYTHING)["stages"]
    made: set[str] = set()
    for call in requests:
        request = call["request"]
        if call["operation"] == "CreateEndpointConfig":
            made.add(request["EndpointConfigName"])
            shadows, variants = request.get("ShadowProductionVariants", []), request["ProductionVariants"]
            assert (len(variants), len(shadows)) in ((1, 1), (2, 0))
            assert len({one["VariantName"] for one in (*variants, *shadows)}) == 2
        elif "EndpointConfigName" in request:
            assert request["EndpointConfigName"] in made
    steps = [(call["operation"], call["when"]) for call in requests[2:]]
    assert [operation for operation, _ in steps] == [
        "CreateEndpoint",  # with the shadow
        "UpdateEndpoint",  # to two variants
        "UpdateEndpointWeightsAndCapacities",
        "UpdateEndpoint",  # back to a shadow
        "UpdateEndpoint",
        *["UpdateEndpointWeightsAndCapacities"] * 2,
    ]
    assert steps[0][1] == "shadow 1: at least 60 minutes" and not any("replay" in when for _, when in steps)


def test_types_that_sagemaker_does_not_have_are_said_and_not_asked_for():
    allowed = botocore.session.get_session().get_service_model("sagemaker").shape_for("ProductionVariantInstanceType").enum
    missing = {one.instance_type for one in instances.every() if f"ml.{one.instance_type}" not in allowed}
    assert missing <= NOT_ON_SAGEMAKER
    found = sagemaker(replace(PLAN, candidate=Side("trn2.3xlarge")))
    assert found["stages"] == [] and found["not_possible"] == ["trn2.3xlarge is no instance type of SageMaker"]
    assert "trn2.3xlarge is no instance type of SageMaker" in render(replace(PLAN, candidate=Side("trn2.3xlarge")))["README.md"]


# -- guardrails -------------------------------------------------------------------------------


def test_the_alarms_watch_the_candidate_in_the_right_direction_and_unit():
    for found, dimension, factor in (
        (sagemaker(PLAN), {"EndpointName": "bert-base-uncased-trial", "VariantName": "candidate"}, 1e6),
        (load_balancer(PLAN), None, 1.0),
    ):
        errors, slow = (call["request"] for call in found["guardrails"])
        assert errors["ComparisonOperator"] == slow["ComparisonOperator"] == "GreaterThanThreshold"
        assert slow["Threshold"] == pytest.approx(0.02 * factor) and slow["ExtendedStatistic"] == "p99"
        said = {one["Name"]: one["Value"] for one in slow["Dimensions"]}
        assert said == (dimension or {"TargetGroup": "TARGET_GROUP_DIMENSION_CANDIDATE", "LoadBalancer": "LOAD_BALANCER_DIMENSION"})
        *counts, result = errors["Metrics"]
        assert [one["ReturnData"] for one in (*counts, result)] == [False] * len(counts) + [True]
        ids = {one["Id"] for one in counts}
        assert set(re.findall(r"[a-z]+\d*(?![\w(])", result["Expression"])) == ids, "every count of the expression is a metric of the alarm"
        assert all({one["Name"] for one in count["MetricStat"]["Metric"]["Dimensions"]} == set(said) for count in counts)
    assert len(sagemaker(TRAINIUM)["guardrails"]) == 1, "no latency bound was declared, so none is watched"


@pytest.mark.parametrize(
    "asked, bad, breached", [(10, 1, False), (10, 4, True), (5000, 20, False), (5000, 24, True), (0, 0, False), (5000, 10, False)]
)
def test_a_single_failure_of_a_small_canary_is_no_breach(asked, bad, breached):
    """At most 0.2 %: of 5,000 requests 10 may fail; 10 + 3 x sqrt(10) + 3 = 22.5."""
    expression = beyond(0.002, "asked", "bad").replace("SQRT", "sqrt")
    assert (eval(expression, {"asked": asked, "bad": bad, "sqrt": math.sqrt}) > 0) == breached
    query = argo(PLAN)[1]["spec"]["metrics"][0]["provider"]["prometheus"]["query"]
    failed, requests = re.findall(r"\(sum\(increase\([^)]*\)\) or vector\(0\)\)", query)[:2]
    assert 'code=~"5.."' in failed and "code" not in requests
    plain = query.replace(failed, str(bad)).replace(requests, str(asked))
    assert (eval(plain, {"sqrt": math.sqrt}) <= 0) != breached, "Argo's condition of success is at most 0"


@mock_aws
def test_cloudwatch_takes_the_alarms():
    client = boto3.client("cloudwatch", region_name="us-east-1")
    for found in (sagemaker(PLAN), load_balancer(replace(PLAN, name="other"))):
        for call in found["guardrails"]:
            client.put_metric_alarm(**call["request"])
    names = {alarm["AlarmName"] for alarm in client.describe_alarms()["MetricAlarms"]}
    assert names == {f"{name}-trial-{what}" for name in ("bert-base-uncased", "other") for what in ("errors", "latency")}


def test_the_shadow_stage_of_sagemaker_is_a_configuration_of_its_own():
    requests = sagemaker(PLAN)["stages"]
    assert [call["operation"] for call in requests] == [
        "CreateEndpointConfig",
        "CreateEndpointConfig",
        "CreateEndpoint",
        "UpdateEndpoint",
        *["UpdateEndpointWeightsAndCapacities"] * 3,
    ]
    assert requests[0]["request"]["ShadowProductionVariants"][0]["InstanceType"] == "ml.inf2.xlarge"
    assert requests[2]["request"]["EndpointConfigName"] == requests[0]["request"]["EndpointConfigName"]


@mock_aws
def test_the_load_balancer_takes_the_weights():
    ec2, client = boto3.client("ec2", region_name="us-east-1"), boto3.client("elbv2", region_name="us-east-1")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    nets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{n}.0/24", AvailabilityZone=f"us-east-1{zone}")["Subnet"]["SubnetId"]
        for n, zone in enumerate("ab")
    ]
    balancer = client.create_load_balancer(Name="lb", Subnets=nets)["LoadBalancers"][0]["LoadBalancerArn"]
    groups = {
        side: client.create_target_group(Name=side.lower(), Protocol="HTTP", Port=80, VpcId=vpc)["TargetGroups"][0]["TargetGroupArn"]
        for side in ("BASELINE", "CANDIDATE")
    }
    first = [{"Type": "forward", "TargetGroupArn": groups["BASELINE"]}]
    listener = client.create_listener(LoadBalancerArn=balancer, Protocol="HTTP", Port=80, DefaultActions=first)["Listeners"][0]["ListenerArn"]
    conditions = [{"Field": "path-pattern", "Values": ["/v1/*"]}]
    rule = client.create_rule(ListenerArn=listener, Priority=1, Conditions=conditions, Actions=first)["Rules"][0]["RuleArn"]
    text = json.dumps(load_balancer(PLAN)).replace("LISTENER_RULE_ARN", rule)
    for side, arn in groups.items():
        text = text.replace(f"TARGET_GROUP_ARN_{side}", arn)
    seen = []
    for call in calls(json.loads(text)):
        client.modify_rule(**call["request"])
        weights = client.describe_rules(RuleArns=[rule])["Rules"][0]["Actions"][0]["ForwardConfig"]["TargetGroups"]
        seen.append({one["TargetGroupArn"]: one["Weight"] for one in weights}[groups["CANDIDATE"]] / sum(one["Weight"] for one in weights))
    assert seen == pytest.approx([0.01, 0.25, 1.0, 0.0])
    assert load_balancer(PLAN)["not_possible"] == ["shadow: an Application Load Balancer cannot copy requests"]


# -- Kubernetes -------------------------------------------------------------------------------

NAME = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", "maxLength": 63}
LABEL = {"type": "string", "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$", "maxLength": 63}
METADATA = {
    "type": "object",
    "required": ["name", "namespace"],
    "properties": {"name": NAME, "namespace": {"const": "NAMESPACE_NAME"}, "labels": {"type": "object", "additionalProperties": LABEL}},
    "additionalProperties": False,
}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}


def closed(required: list[str], **properties) -> dict:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


HTTP_ROUTE = closed(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "gateway.networking.k8s.io/v1"},
    kind={"const": "HTTPRoute"},
    metadata=METADATA,
    spec=closed(
        ["parentRefs", "rules"],
        parentRefs={
            "type": "array",
            "minItems": 1,
            "maxItems": 32,
            "items": closed(["name"], name={"type": "string", "minLength": 1, "maxLength": 253}),
        },
        rules={
            "type": "array",
            "minItems": 1,
            "maxItems": 16,
            "items": closed(
                ["backendRefs"],
                backendRefs={
                    "type": "array",
                    "maxItems": 16,
                    "items": closed(["name", "port"], name=NAME, port=PORT, weight={"type": "integer", "minimum": 0, "maximum": 1_000_000}),
                },
                filters={
                    "type": "array",
                    "maxItems": 16,
                    "items": closed(
                        ["type", "requestMirror"],
                        type={"const": "RequestMirror"},
                        requestMirror=closed(["backendRef"], backendRef=closed(["name", "port"], name=NAME, port=PORT)),
                    ),
                },
            ),
        },
    ),
)
"""The part of the Gateway API v1 resource that a split needs, with its documented bounds (weights 0 to 1,000,000, 16 rules)."""

DURATION = {"type": "string", "pattern": "^[0-9]+(s|m|h)$"}
ROLLOUT_STEPS = {
    "type": "array",
    "items": {
        "oneOf": [
            closed(["setWeight"], setWeight={"type": "integer", "minimum": 0, "maximum": 100}),
            closed(["pause"], pause=closed([], duration=DURATION)),
        ]
    },
}
METRIC = closed(
    ["name", "provider", "interval", "successCondition", "failureLimit"],
    name={"type": "string"},
    interval=DURATION,
    successCondition={"type": "string"},
    failureLimit={"type": "integer", "minimum": 0},
    provider=closed(["prometheus"], prometheus=closed(["address", "query"], address={"type": "string"}, query={"type": "string"})),
)


def test_the_routes_are_what_the_gateway_api_takes():
    routes = gateway(PLAN)
    for route in routes:
        jsonschema.validate(route, HTTP_ROUTE)
    assert len(routes) == len(PLAN.stages) + 1
    mirrored, *split = routes
    assert mirrored["spec"]["rules"][0]["filters"][0]["requestMirror"]["backendRef"]["name"] == "bert-base-uncased-candidate"
    assert [one["name"] for one in mirrored["spec"]["rules"][0]["backendRefs"]] == ["bert-base-uncased-baseline"]
    weights = [[one["weight"] for one in route["spec"]["rules"][0]["backendRefs"]] for route in split]
    assert weights == [[9900, 100], [7500, 2500], [0, 10000], [10000, 0]], "one stage after the other, and back"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**routes[0], "kind": "Route"}, HTTP_ROUTE)


def test_the_rollout_pauses_at_each_stage_and_its_guardrails_abort_it():
    rollout, template = argo(PLAN)
    for one in (rollout, template):
        jsonschema.validate(one["metadata"], METADATA)
        assert one["apiVersion"] == "argoproj.io/v1alpha1"
    canary = rollout["spec"]["strategy"]["canary"]
    jsonschema.validate(canary["steps"], ROLLOUT_STEPS)
    assert canary["steps"][-1] == {"pause": {}}, "the last share stands until the verdict; without a pause everything would go to the candidate"
    assert rollout["spec"]["replicas"] == 3, "both versions are scaled to it, so the larger fleet counts"
    assert [step["setWeight"] for step in canary["steps"] if "setWeight" in step] == [1, 25, 100]
    assert [step["pause"].get("duration") for step in canary["steps"] if "pause" in step] == ["60m", "120m", "60m", None]
    assert canary["analysis"]["templates"] == [{"templateName": template["metadata"]["name"]}]
    for metric in template["spec"]["metrics"]:
        jsonschema.validate(metric, METRIC)
    assert [metric["successCondition"] for metric in template["spec"]["metrics"]] == [
        "len(result) == 0 || isNaN(result[0]) || result[0] <= 0",
        "len(result) == 0 || isNaN(result[0]) || result[0] <= 0.02",
    ]
    pod = rollout["spec"]["template"]
    assert rollout["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"aws.amazon.com/neuron": 1}
    assert len(argo(TRAINIUM)[1]["spec"]["metrics"]) == 1, "no latency bound was declared, so none is watched"


def test_a_rollout_begins_with_the_baseline_and_has_what_it_names():
    """Created with the candidate it would skip its steps: every object that it names is there before, in one namespace."""
    before, after = argo_before(PLAN), argo(PLAN)
    names = {(one["kind"], one["metadata"]["name"]) for one in before}
    canary = after[0]["spec"]["strategy"]["canary"]
    for kind, name in (
        ("Service", canary["canaryService"]),
        ("Service", canary["stableService"]),
        ("HTTPRoute", canary["trafficRouting"]["plugins"]["argoproj-labs/gatewayAPI"]["httpRoute"]),
        ("AnalysisTemplate", canary["analysis"]["templates"][0]["templateName"]),
    ):
        assert (kind, name) in names
    route = next(one for one in before if one["kind"] == "HTTPRoute")
    assert [one["weight"] for one in route["spec"]["rules"][0]["backendRefs"]] == [10000, 0]
    old, new = before[-1]["spec"]["template"]["spec"], after[0]["spec"]["template"]["spec"]
    assert old["containers"][0]["image"] == "IMAGE_BASELINE" and new["containers"][0]["image"] == "IMAGE_CANDIDATE"
    assert old["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 1} and before[-1]["spec"]["replicas"] == 3
    assert {**before[-1]["spec"], "template": 0} == {**after[0]["spec"], "template": 0}
    assert argo(TRAINIUM)[0]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {"aws.amazon.com/neuron": 16}


def test_short_stages_and_small_shares_are_not_rounded_away():
    plan = replace(PLAN, stages=(Stage("tiny", "split", 0.0004, 0.5), Stage("half", "split", 0.005, 90)))
    steps = argo(plan)[0]["spec"]["strategy"]["canary"]["steps"]
    assert steps == [{"setWeight": 1}, {"pause": {"duration": "30s"}}, {"setWeight": 1}, {"pause": {"duration": "90m"}}, {"pause": {}}]
    assert [route["spec"]["rules"][0]["backendRefs"][1]["weight"] for route in gateway(plan)] == [4, 50, 0]
    weights = [call["request"]["Actions"][0]["ForwardConfig"]["TargetGroups"][1]["Weight"] for call in load_balancer(plan)["stages"]]
    assert weights == [1, 4]
    assert load_balancer(plan)["not_possible"] == ["tiny: a share of 0.0004 becomes 0.00111", "half: a share of 0.005 becomes 0.00444"]
    assert "Argo: half asks 0.500%, and becomes 1 %." in render(plan)["README.md"]


# -- scripts ----------------------------------------------------------------------------------

FILLED = {
    "MODEL_BASELINE": "MODEL-BASELINE", "MODEL_CANDIDATE": "MODEL-CANDIDATE", "ALARM_TOPIC_ARN": "arn:aws:sns:us-east-1:000000000000:t",
    "LISTENER_RULE_ARN": "arn:rule", "TARGET_GROUP_ARN_BASELINE": "arn:b", "TARGET_GROUP_ARN_CANDIDATE": "arn:c", "GATEWAY_NAME": "gw",
    "TARGET_GROUP_DIMENSION_CANDIDATE": "targetgroup/c/1", "LOAD_BALANCER_DIMENSION": "app/lb/1", "NAMESPACE_NAME": "ml", "IMAGE_BASELINE": "gpu:1",
    "IMAGE_CANDIDATE": "neuron:1", "PROMETHEUS_ADDRESS": "http://prometheus:9090", "HTTP_REQUESTS_TOTAL": "http_requests_total",
    "HTTP_REQUEST_SECONDS_BUCKET": "http_request_duration_seconds_bucket", "COMPUTE_ENVIRONMENT_BASELINE": "gpu", "COMPUTE_ENVIRONMENT_CANDIDATE": "inf",
}  # fmt: skip

RECORDER = """#!/usr/bin/env bash
{ printf '%s\\t' "$(printf '%s' "${0##*/}" | base64 -w0)"; for word in "$@"; do printf '%s\\t' "$(printf '%s' "$word" | base64 -w0)"; done
case " $* " in *" -f "*) base64 -w0 ;; esac; echo; } >> "$CALLS"
"""
"""A line a call: every word and, for ``kubectl apply -f -``, what came in, in base64."""


@pytest.fixture
def shell(tmp_path):
    """Runs a script with ``aws`` and ``kubectl`` that only write down what they were called with."""
    for name in ("aws", "kubectl"):
        (tmp_path / name).write_text(RECORDER)
        (tmp_path / name).chmod(0o755)

    def run(text: str, *words: str, filled: bool = True, **more: str) -> tuple[subprocess.CompletedProcess, list[list[str]]]:
        (tmp_path / "x.sh").write_text(text)
        (tmp_path / "calls").unlink(missing_ok=True)
        inside = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(tmp_path / "calls"), **(FILLED | more if filled else {})}
        done = subprocess.run(["bash", tmp_path / "x.sh", *words], env=inside, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=tmp_path)
        lines = (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []
        return done, [[base64.b64decode(cell).decode() for cell in line.split("\t")] for line in lines]

    return run


def steps_of(listing: str) -> list[str]:
    return [line.split()[0] for line in listing.splitlines()]


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("place", ["sagemaker", "alb", "gateway", "argo", "batch"])
def test_every_script_is_a_shell_script_that_asks_for_what_it_needs(shell, tmp_path, plan, place):
    text = render(plan)[f"{place}.sh"]
    (tmp_path / "y.sh").write_text(text)
    assert subprocess.run(["bash", "-n", tmp_path / "y.sh"], capture_output=True).returncode == 0
    listed, nothing = shell(text)
    assert listed.returncode == 0 and nothing == [] and "back" in steps_of(listed.stdout)
    unknown, nothing = shell(text, "99")
    assert unknown.returncode == 2 and nothing == [] and unknown.stdout == ""
    for step in steps_of(listed.stdout):
        done, called = shell(text, step)
        assert done.returncode == 0 and called, f"{place} {step}: {done.stderr}"
        assert not placeholders(json.dumps(called)), f"{place} {step} leaves names to fill in"
        bare, called = shell(text, step, filled=False)
        missing = placeholders(text.partition(f"  {step})")[2].partition(";;")[0])
        assert bool(missing) == (bare.returncode == 2) and (not missing or (called == [] and "first: export" in bare.stderr))


def test_a_script_reads_names_and_nothing_else_from_the_environment(tmp_path):
    text = r"MODEL_BASELINE $HOME `date` $(date) \\ \\n end"
    done = subprocess.run(["bash", "-c", f"cat <<X\n{filled(text)}\nX"], env={"PATH": os.environ["PATH"], **FILLED}, capture_output=True, text=True)
    assert done.stdout == text.replace("MODEL_BASELINE", "MODEL-BASELINE") + "\n"


def requests(called: list[list[str]]) -> list[tuple[str, str, dict]]:
    """(service, operation, request) of the calls that change something."""
    return [(words[1], words[2], json.loads(words[words.index("--cli-input-json") + 1])) for words in called if "--cli-input-json" in words]


def changes(shell, text: str, **more: str) -> dict[str, list[tuple[str, str, dict]]]:
    return {step: requests(shell(text, step, **more)[1]) for step in steps_of(shell(text)[0].stdout)}


@mock_aws
def test_the_script_of_sagemaker_from_the_first_step_to_the_way_back(shell):
    plan = replace(PLAN, **OLDER, stages=PLAN.splits)
    text = render(plan)["sagemaker.sh"]
    clients = {name: boto3.client(name, region_name="us-east-1") for name in ("sagemaker", "cloudwatch")}
    models_filled = {"BASELINE": "MODEL-BASELINE", "CANDIDATE": "MODEL-CANDIDATE"}
    for name in models_filled.values():
        clients["sagemaker"].create_model(ModelName=name, PrimaryContainer={"Image": "x"}, ExecutionRoleArn="arn:aws:iam::000000000000:role/x")
    seen = {}
    for step, found in changes(shell, text).items():
        for service, operation, request in found:
            getattr(clients[service], operation.replace("-", "_"))(**request)
        if step != "alarms" and int(step.replace("back", "9")) > 2:
            variants = clients["sagemaker"].describe_endpoint(EndpointName="bert-base-uncased-trial")["ProductionVariants"]
            seen[step] = {one["VariantName"]: one["CurrentWeight"] for one in variants}
    assert seen == {"3": {"baseline": 0.99, "candidate": 0.01}, "4": {"baseline": 0.75, "candidate": 0.25}, "5": {"baseline": 0.0, "candidate": 1.0}, "back": {"baseline": 1.0, "candidate": 0.0}}  # fmt: skip
    assert len(clients["cloudwatch"].describe_alarms()["MetricAlarms"]) == 2
    _, called = shell(text, "back")
    assert [words[1:4] for words in called][:1] == [["sagemaker", "wait", "endpoint-in-service"]], "an endpoint takes no change while it is updated"


@mock_aws
def test_the_script_of_batch_ends_with_the_baseline_alone(shell):
    client, iam = boto3.client("batch", region_name="us-east-1"), boto3.client("iam")
    role = iam.create_role(RoleName="r", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    arns = {
        name: client.create_compute_environment(computeEnvironmentName=name, type="UNMANAGED", serviceRole=role)["computeEnvironmentArn"]
        for name in ("inf", "gpu")
    }
    orders = []
    arn_of = {"COMPUTE_ENVIRONMENT_CANDIDATE": arns["inf"], "COMPUTE_ENVIRONMENT_BASELINE": arns["gpu"]}  # moto takes names in one call only
    for found in changes(shell, render(PLAN)["batch.sh"], **arn_of).values():
        for _, operation, request in found:
            getattr(client, operation.replace("-", "_"))(**request)
            [queue] = client.describe_job_queues(jobQueues=["bert-base-uncased-trial"])["jobQueues"]
            orders.append([one["computeEnvironment"] for one in sorted(queue["computeEnvironmentOrder"], key=lambda one: one["order"])])
    assert [[name.rsplit("/", 1)[-1] for name in order] for order in orders] == [["inf", "gpu"], ["gpu"]]


def test_the_scripts_of_kubernetes_apply_one_stage_at_a_time_and_go_back(shell):
    text = render(PLAN)["gateway.sh"]
    weights = []
    for step in steps_of(shell(text)[0].stdout):
        _, [[name, verb, *_, stdin]] = shell(text, step)
        [route] = yaml.safe_load_all(stdin)
        assert (name, verb) == ("kubectl", "apply") and route["metadata"]["namespace"] == "ml" and route["spec"]["parentRefs"] == [{"name": "gw"}]
        weights.append([one.get("weight") for one in route["spec"]["rules"][0]["backendRefs"]])
    assert weights == [[10000], [9900, 100], [7500, 2500], [0, 10000], [10000, 0]]
    text = render(PLAN)["argo.sh"]
    first, second, third, back = (shell(text, step)[1] for step in ("1", "2", "3", "back"))
    assert third[0][1:5] == ["argo", "rollouts", "promote", "bert-base-uncased"]
    assert first[1][1:5] == ["argo", "rollouts", "status", "bert-base-uncased"] and back[0][1:5] == ["argo", "rollouts", "abort", "bert-base-uncased"]
    images = [
        [one["spec"]["template"]["spec"]["containers"][0]["image"] for one in yaml.safe_load_all(words[-1]) if one["kind"] == "Rollout"]
        for words in (first[0], second[0], back[1])
    ]
    assert images == [["gpu:1"], ["neuron:1"], ["gpu:1"]]
    query = next(one for one in yaml.safe_load_all(second[0][-1]) if one["kind"] == "AnalysisTemplate")["spec"]["metrics"][0]["provider"][
        "prometheus"
    ]["query"]
    assert 'http_requests_total{service="{{args.service}}",code=~"5.."}' in query


# -- files ------------------------------------------------------------------------------------


def test_the_files_can_be_read_back_and_say_what_to_fill_in():
    files = render(PLAN)
    data = ["sagemaker.json", "alb.json", "gateway.yaml", "argo-before.yaml", "argo.yaml", "batch.json"]
    assert list(files) == [*data, *(f"{place}.sh" for place in ("sagemaker", "alb", "gateway", "argo", "batch")), "README.md"]
    assert json.loads(files["alb.json"]) == load_balancer(PLAN)
    assert list(yaml.safe_load_all(files["gateway.yaml"])) == gateway(PLAN)
    assert placeholders(files["sagemaker.json"]) == ["ALARM_TOPIC_ARN", "MODEL_BASELINE", "MODEL_CANDIDATE"]
    assert set(placeholders("".join(files.values()))) == set(FILLED)
    for name, text in files.items():
        assert PLAN.plan_id in text, f"{name} does not say which plan it belongs to"
    for stage in PLAN.stages:
        assert stage.name in files["README.md"]
    assert "2 x g6.xlarge against 3 x inf2.xlarge" in files["README.md"]


@pytest.mark.parametrize("name", ["A" * 80, "x..y__z", "-edge-", "Ünï", "7b-chat", "日本語", "___"])
def test_any_name_becomes_one_that_services_take(name):
    plan = replace(PLAN, name=name)
    jsonschema.validate(plan.slug, {"type": "string", "pattern": "^[a-z]([a-z0-9-]*[a-z0-9])?$", "maxLength": 40})
    for one in [*gateway(plan), *argo_before(plan), *argo(plan)]:
        jsonschema.validate(one["metadata"], METADATA)


def test_long_names_that_begin_alike_stay_apart():
    names = [f"a-very-long-name-of-a-workload-of-our-team-version-{number}" for number in (1, 2)]
    slugs = {replace(PLAN, name=name).slug for name in names}
    assert len(slugs) == 2 and all(len(slug) <= 40 for slug in slugs)


def test_the_plan_of_a_question_knows_its_fleet(tmp_path):
    """trn1.32xlarge has 16 chips; the declared count counts, and a replay asks nothing of production."""
    stages = [{"name": "replay", "mode": "replay", "duration_min": 10}, {"name": "canary", "share": 0.1, "duration_min": 60}]
    this = question(
        tmp_path,
        candidates=[{"name": "trn1", "instance_type": "trn1.32xlarge", "path": "neuron_xla", "count": 2}],
        trial={"stages": stages, "candidate": "trn1"},
    )
    files = handed_over(this, trial.plan(this))
    rollout = next(one for one in yaml.safe_load_all(files["argo.yaml"]) if one["kind"] == "Rollout")
    pod = rollout["spec"]["template"]["spec"]
    assert rollout["spec"]["replicas"] == 2 and pod["containers"][0]["resources"]["limits"] == {"aws.amazon.com/neuron": 16}
    assert pod["nodeSelector"] == {"node.kubernetes.io/instance-type": "trn1.32xlarge"}
    assert len(list(yaml.safe_load_all(files["gateway.yaml"]))) == 2, "the canary and the way back"
    assert "replay: `neuronfit trial` sends the recorded requests" in files["README.md"]
    config = json.loads(files["sagemaker.json"])["stages"][0]["request"]["ProductionVariants"]
    assert [(one["InstanceType"], one["InitialInstanceCount"]) for one in config][1] == ("ml.trn1.32xlarge", 2)
