"""The plan as other services take it: every request against the service's own model, the flows against moto, objects against schemas."""

from __future__ import annotations

import json

import boto3
import botocore.session
import jsonschema
import pytest
import yaml
from botocore.validate import ParamValidator
from moto import mock_aws
from neuronfit.handover import Handover, Stage, argo, batch, gateway, load_balancer, placeholders, render, sagemaker

PLAN = Handover(
    name="BERT_base.uncased",
    baseline_type="g6.xlarge",
    candidate_type="inf2.xlarge",
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

TRAINIUM = Handover(name="x", baseline_type="p4d.24xlarge", candidate_type="trn1.32xlarge", stages=PLAN.splits, max_error_fraction=0.01)


def calls(rendered: dict) -> list[dict]:
    return [*rendered["stages"], *rendered["rollback"]]


@pytest.mark.parametrize("plan", [PLAN, TRAINIUM], ids=["inf2", "trn1"])
@pytest.mark.parametrize("service, rendered", [("sagemaker", sagemaker), ("elbv2", load_balancer), ("batch", batch)])
def test_every_request_is_valid_by_the_model_of_its_service(plan, service, rendered):
    model = botocore.session.get_session().get_service_model(service)
    for call in calls(rendered(plan)):
        shape = model.operation_model(call["operation"]).input_shape
        report = ParamValidator().validate(call["request"], shape)
        assert not report.has_errors(), f"{call['operation']}: {report.generate_report()}"
        for name, kind in instance_types(call["request"]):
            allowed = model.shape_for("ProductionVariantInstanceType").enum
            assert kind in allowed, f"{name}: {kind} is no SageMaker instance type"


def instance_types(request: dict) -> list[tuple[str, str]]:
    variants = [*request.get("ProductionVariants", []), *request.get("ShadowProductionVariants", [])]
    return [(variant["VariantName"], variant["InstanceType"]) for variant in variants]


def test_a_wrong_request_would_be_noticed():
    model = botocore.session.get_session().get_service_model("sagemaker")
    shape = model.operation_model("UpdateEndpointWeightsAndCapacities").input_shape
    request = sagemaker(PLAN)["rollback"][0]["request"]
    assert ParamValidator().validate({**request, "DesiredWeightsAndCapacities": [{"VariantName": "x", "DesiredWeight": "0"}]}, shape).has_errors()
    assert ParamValidator().validate({"EndpointName": "x"}, shape).has_errors()


@mock_aws
def test_sagemaker_takes_the_stages_and_the_way_back():
    client = boto3.client("sagemaker", region_name="us-east-1")
    for side in ("BASELINE", "CANDIDATE"):
        image = {"Image": "000000000000.dkr.ecr.us-east-1.amazonaws.com/x:1"}
        client.create_model(ModelName=f"MODEL_{side}", PrimaryContainer=image, ExecutionRoleArn="arn:aws:iam::000000000000:role/x")
    names = {
        "CreateEndpointConfig": client.create_endpoint_config,
        "CreateEndpoint": client.create_endpoint,
        "UpdateEndpointWeightsAndCapacities": client.update_endpoint_weights_and_capacities,
    }
    shares = []
    older = {"baseline_type": "g4dn.xlarge", "candidate_type": "inf1.xlarge"}  # moto's list of types ends before inf2 and g6
    for call in calls(sagemaker(Handover(**{**vars(PLAN), **older, "stages": PLAN.splits}))):
        names[call["operation"]](**call["request"])
        if call["operation"].startswith("Update"):
            variants = client.describe_endpoint(EndpointName="bert-base-uncased-trial")["ProductionVariants"]
            shares.append({variant["VariantName"]: variant["CurrentWeight"] for variant in variants})
    assert [share["candidate"] for share in shares] == [0.01, 0.25, 1.0, 0.0]
    assert all(share["baseline"] + share["candidate"] == pytest.approx(1.0) for share in shares)
    configuration = client.describe_endpoint_config(EndpointConfigName="bert-base-uncased-split")
    assert {one["VariantName"]: one["InstanceType"] for one in configuration["ProductionVariants"]} == {
        "baseline": "ml.g4dn.xlarge",
        "candidate": "ml.inf1.xlarge",
    }


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
    "required": ["name"],
    "properties": {"name": NAME, "labels": {"type": "object", "additionalProperties": LABEL}},
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
            closed(["pause"], pause=closed(["duration"], duration=DURATION)),
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
    assert weights == [[990, 10], [750, 250], [0, 1000], [1000, 0]], "one stage after the other, and back"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**routes[0], "kind": "Route"}, HTTP_ROUTE)


def test_the_rollout_pauses_at_each_stage_and_its_guardrails_abort_it():
    rollout, template = argo(PLAN)
    for one in (rollout, template):
        jsonschema.validate(one["metadata"], METADATA)
        assert one["apiVersion"] == "argoproj.io/v1alpha1"
    canary = rollout["spec"]["strategy"]["canary"]
    jsonschema.validate(canary["steps"], ROLLOUT_STEPS)
    assert [step["setWeight"] for step in canary["steps"] if "setWeight" in step] == [1, 25, 100]
    assert [step["pause"]["duration"] for step in canary["steps"] if "pause" in step] == ["60m", "120m", "60m"]
    assert canary["analysis"]["templates"] == [{"templateName": template["metadata"]["name"]}]
    for metric in template["spec"]["metrics"]:
        jsonschema.validate(metric, METRIC)
    assert [metric["successCondition"] for metric in template["spec"]["metrics"]] == [
        "isNaN(result[0]) || result[0] <= 0.002",
        "isNaN(result[0]) || result[0] <= 0.02",
    ]
    pod = rollout["spec"]["template"]
    assert rollout["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"aws.amazon.com/neuron": 1}
    assert len(argo(TRAINIUM)[1]["spec"]["metrics"]) == 1, "no latency bound was declared, so none is watched"


# -- files ------------------------------------------------------------------------------------


def test_the_files_can_be_read_back_and_say_what_to_fill_in():
    files = render(PLAN)
    assert list(files) == ["sagemaker.json", "alb.json", "gateway.yaml", "argo.yaml", "batch.json", "README.md"]
    assert json.loads(files["alb.json"]) == load_balancer(PLAN)
    assert list(yaml.safe_load_all(files["gateway.yaml"])) == gateway(PLAN)
    assert placeholders(files["sagemaker.json"]) == ["MODEL_BASELINE", "MODEL_CANDIDATE"]
    assert placeholders(files["alb.json"]) == ["LISTENER_RULE_ARN", "TARGET_GROUP_ARN_BASELINE", "TARGET_GROUP_ARN_CANDIDATE"]
    for name, text in files.items():
        assert name == "README.md" or PLAN.plan_id in text or name == "alb.json", f"{name} does not say which plan it belongs to"
    for stage in PLAN.stages:
        assert stage.name in files["README.md"]
    assert "kubectl argo rollouts abort bert-base-uncased" in files["README.md"]


@pytest.mark.parametrize("name", ["A" * 80, "x..y__z", "-edge-", "Ünï"])
def test_any_name_becomes_one_that_services_take(name):
    slug = Handover(name=name, baseline_type="g6.xlarge", candidate_type="inf2.xlarge", stages=PLAN.stages, max_error_fraction=0.01).slug
    jsonschema.validate(slug, {**NAME, "maxLength": 40})
