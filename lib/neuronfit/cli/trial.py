"""`neuronfit trial`: the controlled production test; `neuronfit split`: the proxy that divides traffic."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

import click

from neuronfit.cli.common import INTERRUPTED, as_json_option, group, params_path, print_json, reports_option, shown
from neuronfit.errors import BadInput

STATUS = {"passed": 0, "failed": 1, "aborted": 1, "inconclusive": 3}
"""Verdict of a test -> exit status."""


@group.command(
    epilog="\b\nExamples:\n  neuronfit trial params/x.yaml\n  neuronfit trial params/x.yaml --resume\n  neuronfit trial params/x.yaml --handover handover/\n"
    "  neuronfit trial params/x.yaml --log baseline=a.csv --log candidate=b.csv"
)
@click.argument("params", type=params_path)
@click.option("--resume", is_flag=True, help="Go on with a test that was interrupted; every request counts once.")
@click.option("--fresh", is_flag=True, help="Put earlier logs aside and begin again.")
@click.option("--plan-only", is_flag=True, help="Register the plan and send nothing.")
@click.option(
    "--handover", type=params_path, metavar="DIR", help="Write the plan for SageMaker, a load balancer, EKS and AWS Batch, and send nothing."
)
@click.option("--log", "logs", multiple=True, metavar="[SIDE=]FILE", help="Judge a test that ran elsewhere by its log; once, or once a side.")
@click.option("--side", "sides", multiple=True, metavar="SIDE=WORD", help="What that log calls baseline or candidate.")
@click.option("--stage", help="The stage of the plan that the log is of; default: the one that fits.")
@reports_option
@as_json_option
def trial(
    params: Path,
    resume: bool,
    fresh: bool,
    plan_only: bool,
    handover: Optional[Path],
    logs: tuple[str, ...],
    sides: tuple[str, ...],
    stage: Optional[str],
    reports: Optional[Path],
    as_json: bool,
) -> int:
    """Run the controlled production test that the params file plans.

    Rehearses the way back, sends traffic to both endpoints stage by stage, and goes back to the baseline when a
    guardrail is breached. Exit status: 0 passed, 1 failed or aborted, 3 inconclusive or endpoints missing, 130
    stopped with Ctrl-C.
    """
    from neuronfit import trial as test
    from neuronfit.files import check_writable
    from neuronfit.question import Question

    if resume and fresh:
        raise BadInput("--resume and --fresh exclude each other", next="--resume goes on, --fresh begins again")
    question = Question.from_file(params, reports=reports)
    check_writable(question.dossier.folder)
    if plan_only or handover:
        plan = test.plan(question)
        if handover:
            _hand_over(question, plan, handover)
        if as_json:
            print_json(plan.content() | {"id": plan.id})
        else:
            click.echo(f"{plan.bottom_line}\n  plan {plan.id}, registered {plan.created_utc}")
            for text in (*(test.stage_text(stage, plan) for stage in plan.stages), *plan.criteria, *plan.guardrails):
                click.echo(f"  {text}")
        return 0
    if logs:
        from neuronfit.adopt.trial_logs import adopt_trial

        files = [(side, Path(name)) for side, name in (_parted(text) for text in logs)]
        words = {word: side for side, word in (_parted(text, needed=True) for text in sides)}
        found = adopt_trial(question, files, words, stage)
    else:
        found = test.run(question, resume=resume, fresh=fresh, tell=lambda line: click.echo(f"  {line}", err=True))
    if as_json:
        print_json(found.content() | {"id": found.id})
    else:
        click.echo(found.bottom_line)
        for name, outcome in found.overall.items():
            click.echo(f"  {outcome:<13} {name}")
        for finding in found.findings:
            if finding.next:
                click.echo(f"  {finding.severity}: {finding.code}: {finding.because} | next: {finding.next}")
        click.echo(f"  log: {shown(question.dossier.folder / found.log)}   next: neuronfit run {question.command_name} --steps 8")
    if found.status == "inconclusive" and any(finding.code == "trial_stopped" for finding in found.findings):
        return INTERRUPTED
    return STATUS[found.status] if found.valid else 1


def _parted(text: str, needed: bool = False) -> tuple[Optional[str], str]:
    """``candidate=FILE`` -> (candidate, FILE); a name alone has no side."""
    side, found, rest = text.partition("=")
    if found and side in ("baseline", "candidate"):
        return side, rest
    if needed:
        raise BadInput("--side", text, allowed="baseline=WORD or candidate=WORD, with the word that the log uses")
    return None, text


def _hand_over(question: object, plan: object, folder: Path) -> None:
    from neuronfit.files import write_whole
    from neuronfit.trial.plan import handed_over

    for name, text in handed_over(question, plan).items():
        write_whole(folder / name, text)
        click.echo(f"written: {shown(folder / name)}", err=True)


@group.command(epilog="\b\nExample:\n  neuronfit split http://127.0.0.1:8001 http://127.0.0.1:8002 --port 8000 --weight 0.05")
@click.argument("baseline_url")
@click.argument("candidate_url")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="Port to listen on; 0 takes a free one.")
@click.option("--admin-port", default=8001, show_default=True, type=click.IntRange(0, 65535), help="Port of the admin endpoint, on loopback only.")
@click.option("--weight", default=0.0, show_default=True, type=click.FloatRange(0, 1), help="Share of the keys that the candidate answers.")
@click.option("--shadow", is_flag=True, help="The baseline answers, the candidate gets a copy of every request.")
@click.option("--key-header", default="X-User-Id", show_default=True, help="Header whose value keeps a user on one side.")
@click.option("--health", "health_path", help="Path asked of both sides every few seconds, such as /health.")
@click.option(
    "--timeout", "timeout_s", default=60.0, show_default=True, type=click.FloatRange(min=0, min_open=True), help="Seconds to wait for the next bytes."
)
@as_json_option
def split(
    baseline_url: str,
    candidate_url: str,
    host: str,
    port: int,
    admin_port: int,
    weight: float,
    shadow: bool,
    key_header: str,
    health_path: Optional[str],
    timeout_s: float,
    as_json: bool,
) -> int:
    """Divide traffic between two services, until Ctrl-C.

    The token of the admin endpoint is read from NEURONFIT_SPLIT_TOKEN; without it weights cannot be changed.
    """
    import asyncio

    from neuronfit.splitter import Plan, Splitter, run

    splitter = Splitter(
        baseline_url,
        candidate_url,
        plan=Plan(mode="shadow" if shadow else "split", weight=weight),
        key_header=key_header,
        health_path=health_path,
        timeout_s=timeout_s,
        token=os.environ.get("NEURONFIT_SPLIT_TOKEN") or None,
    )

    async def serve() -> None:
        await splitter.start(host, port, admin_port)
        if as_json:
            print_json({"url": splitter.url, "admin_url": splitter.admin_url or None})
        else:
            admin = f"admin at {splitter.admin_url}" if splitter.admin_url else "no admin endpoint: set NEURONFIT_SPLIT_TOKEN"
            click.echo(f"splitting at {splitter.url}, {admin}")
        try:
            await asyncio.Event().wait()
        finally:
            await splitter.close()

    run(serve())
    return 0
