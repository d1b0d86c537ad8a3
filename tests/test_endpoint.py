"""Endpoints: reading event streams, every way a server fails, times against servers' own logs, records and the command."""

import json
import signal
import subprocess
import sys
import time

import pytest
import yaml
from neuronfit import record as records
from neuronfit import stats
from neuronfit.cli import main
from neuronfit.errors import BadInput, BadParams, WaitingForEvidence
from neuronfit.load import generator, measure_endpoint, prompts, scenarios
from neuronfit.load.generator import Request, closed_loop
from neuronfit.load.serving import how_to_measure
from neuronfit.measure import measure, protocol, where_to_run
from neuronfit.params import Endpoint, Shape
from neuronfit.question import Question
from neuronfit.targets import Subject
from neuronfit.targets.endpoint import EndpointClient, EndpointTarget, EventStream, address, body_of
from servers import serving
from tiny import question_data

LLAMA = {
    "model_type": "llama",
    "vocab_size": 256,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 512,
}


def question(folder, endpoint, *, task="text-generation", shape=None, **sections):
    """A question whose baseline is served; the dossier lies in ``folder``."""
    data = question_data(folder)
    (folder / "llama.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    data["workload"]["model"] = {"config": str(folder / "llama.json"), "task": task}
    data["workload"]["shapes"] = [shape or {"batch_size": 1, "sequence_length": 16, "output_length": 20}]
    data["baseline"] = {"name": "served", "instance_type": "g6.xlarge", "path": "endpoint", "endpoint": endpoint}
    data |= {"objective": {"ttft_p99_ms": 500, "error_rate": 0.01}, "policy": {"budget_s": 2.0, "runs": 2}} | sections
    path = folder / "served.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return Question.from_file(path, reports=folder / "reports")


# -- server-sent events -----------------------------------------------------------------------

SAID = b"data: one\n\n: keep-alive\n\ndata: two\ndata: lines\n\nevent: x\nid: 7\ndata:three\r\n\r\ndata: thr\xc3\xa4\xc3\xa4\n\n"
MEANT = ["one", "two\nlines", "three", "thr\u00e4\u00e4"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_however_the_bytes_are_cut(size):
    stream = EventStream()
    read = [data for place in range(0, len(SAID), size) for data in stream.feed(SAID[place : place + size])]
    assert read + list(stream.rest()) == MEANT


def test_every_line_end_and_a_byte_order_mark_are_read():
    for end in (b"\n", b"\r\n", b"\r"):
        stream, text = EventStream(), b"\xef\xbb\xbf" + SAID.replace(b"\r\n", b"\n").replace(b"\n", end)
        read = [data for place in range(len(text)) for data in stream.feed(text[place : place + 1])]
        assert read + list(stream.rest()) == MEANT, end


def test_an_event_without_its_empty_line_is_read_at_the_end_of_the_stream():
    stream = EventStream()
    assert list(stream.feed(b"data: a\n\ndata: b")) == ["a"]
    assert list(stream.rest()) == ["b"] and list(stream.rest()) == []


# -- what is sent -----------------------------------------------------------------------------

ASKED = Request(0, "hello", ("hello", "there"), 20)


def test_the_body_of_each_api():
    completions = body_of(Endpoint(url="http://h", model="m", body={"ignore_eos": True}), ASKED)
    assert completions == {
        "model": "m",
        "prompt": "hello",
        "max_tokens": 20,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
    chat = body_of(Endpoint(url="http://h", api="chat", body={"temperature": 1}), ASKED)
    assert chat["messages"] == [{"role": "user", "content": "hello"}] and chat["temperature"] == 1 and "prompt" not in chat
    template = {"inputs": "say: {prompt}", "parameters": {"max_new_tokens": "{output_length}"}, "all": "{prompts}", "n": 1}
    assert body_of(Endpoint(url="http://h", api="json", body=template), ASKED) == {
        "inputs": "say: hello",
        "parameters": {"max_new_tokens": 20},
        "all": ["hello", "there"],
        "n": 1,
    }


def test_the_address_is_completed_where_it_names_no_resource():
    for url in ("http://h:8000", "http://h:8000/", "http://h:8000/v1", "http://h:8000/v1/completions"):
        assert address(Endpoint(url=url)) == "http://h:8000/v1/completions"
    assert address(Endpoint(url="http://h/v1", api="chat")) == "http://h/v1/chat/completions"
    assert address(Endpoint(url="http://h/predict/", api="json")) == "http://h/predict/"


SECRET = "sk-abc123secret"


@pytest.mark.parametrize(
    "endpoint",
    [
        {"url": "http://h", "api_key": SECRET},
        {"url": "http://h", "api_key_env": SECRET},
        {"url": f"http://user:{SECRET}@h"},
        {"url": f"http://h/v1?api_key={SECRET}"},
        {"url": "http://h", "body": {"headers": {"Authorization": SECRET}}},
    ],
)
def test_a_key_in_the_params_file_is_refused_and_not_repeated(tmp_path, endpoint):
    with pytest.raises(BadParams) as error:
        question(tmp_path, endpoint)
    assert SECRET not in str(error.value) and "\n" not in str(error.value) and "api_key_env" in str(error.value)


def test_an_address_without_a_scheme_is_refused(tmp_path):
    with pytest.raises(BadParams, match="url must begin with http"):
        question(tmp_path, {"url": "localhost:8000"})


def test_the_key_comes_from_the_environment_and_its_absence_is_said(monkeypatch):
    monkeypatch.delenv("NEURONFIT_TEST_KEY", raising=False)
    with pytest.raises(BadInput, match="NEURONFIT_TEST_KEY.*export"):
        EndpointClient(Endpoint(url="http://h", api_key_env="NEURONFIT_TEST_KEY"))
    monkeypatch.setenv("NEURONFIT_TEST_KEY", SECRET)
    client = EndpointClient(Endpoint(url="http://h", api_key_env="NEURONFIT_TEST_KEY"))
    assert client._headers["Authorization"] == f"Bearer {SECRET}"


# -- how servers answer, and how they fail ----------------------------------------------------


@pytest.fixture(scope="module")
def faulty():
    with serving("faulty", mix="ok,http_429,reset,ok,reset_midway,malformed,truncated,http_500,ok,hang") as server:
        yield server


def ask(server, model, *, count=1, api="completions", timeout_s=5.0):
    """``count`` requests, one after the other."""
    client = EndpointClient(Endpoint(url=server.url, api=api, model=model, timeout_s=timeout_s), keep_text=True)
    requests = iter([Request(number, f"prompt {number}", output_length=5) for number in range(count)])

    async def load(control):
        async with client:
            return await closed_loop(client.send, requests, control, duration_s=60, give_up_after=100)

    return generator.run(load, window_s=60).responses


@pytest.mark.parametrize("api", ["completions", "chat"])
@pytest.mark.parametrize("kind", ["ok", "merged", "split", "comments", "no_done"])
def test_one_answer_in_many_wrappings(faulty, kind, api):
    (response,) = ask(faulty, kind, api=api)
    assert response.error is None and response.text == "one two thr\u00e4\u00e4 four five"
    assert (response.input_tokens, response.output_tokens, response.counted_by_server) == (7, 5, True)
    assert len(response.chunks) == 5 and response.first <= response.end and response.end == response.chunks[-1]


def test_a_role_is_not_the_first_token(faulty):
    (response,) = ask(faulty, "role_first", api="chat")
    assert response.first - response.sent > 0.09 and len(response.chunks) == 5


def test_several_tokens_in_a_chunk_are_counted_as_the_server_counts(faulty):
    (response,) = ask(faulty, "several_tokens")
    assert len(response.chunks) == 2 and response.output_tokens == 5


def test_without_usage_chunks_stand_in_and_it_is_known(faulty):
    (response,) = ask(faulty, "no_usage")
    assert (response.output_tokens, response.counted_by_server, response.error) == (5, False, None)


def test_an_empty_answer_is_an_answer_without_tokens(faulty):
    (response,) = ask(faulty, "empty")
    assert response.error is None and response.first is None and response.output_tokens == 0 and response.end is not None


def test_an_answer_that_is_not_streamed_has_no_first_token(faulty):
    (response,) = ask(faulty, "json")
    assert response.error is None and response.first is None and response.output_tokens == 5


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("http_429", "http 429: too many requests"),
        ("http_500", "http 500: Internal Server Error"),
        ("reset", "connection lost"),
        ("reset_midway", "connection lost"),
        ("malformed", "malformed event: '{not json'"),
        ("error_event", "error in the stream: engine died"),
        ("truncated", "the stream ended early: 2 chunks"),
        ("json_error", "error in the answer: model is loading"),
        ("not_json", "malformed answer"),
        ("hang", "timeout: no complete answer within 0.3 s"),
        ("hang_midway", "timeout: no complete answer within 0.3 s"),
    ],
)
def test_every_failure_is_one_line_that_says_what_happened(faulty, kind, says):
    (response,) = ask(faulty, kind, timeout_s=0.3)
    assert says in response.error and "\n" not in response.error and not response.answered
    if kind in ("reset_midway", "truncated", "hang_midway"):
        assert len(response.chunks) == 2, "what had come is kept"


def test_nobody_listening_is_said():
    (response,) = ask(type("Server", (), {"url": "http://127.0.0.1:9"}), "ok")
    assert response.error.startswith("no connection")


def test_each_request_is_counted_once_and_right(faulty):
    """Ten kinds in turn, 40 requests: 12 answered, 28 failed, each with its own reason, as the server's log has it."""
    before = len(faulty.log()["requests"])
    responses = ask(faulty, "mix", count=40, timeout_s=0.4)
    kinds = [entry["kind"] for entry in faulty.log()["requests"][before:]]
    assert len(responses) == len(kinds) == 40 and kinds.count("ok") == 12
    assert [response.answered for response in responses] == [kind == "ok" for kind in kinds]
    counts = {kind: sum(bool(response.error) and start in response.error for response in responses) for kind, start in REASONS.items()}
    assert counts == {"http_429": 4, "reset": 8, "malformed": 4, "truncated": 4, "http_500": 4, "hang": 4}


REASONS = {
    "http_429": "http 429",
    "reset": "connection lost",
    "malformed": "malformed event",
    "truncated": "ended early",
    "http_500": "http 500",
    "hang": "timeout",
}


# -- times, against the server's own log ------------------------------------------------------


def test_times_of_a_deterministic_server_are_those_of_its_log():
    """First token after 100 ms, then one every 20 ms, 20 in all: 480 ms. The server logs when each token left; a loaded host
    moves both, so each request is compared with its own log. Strict figures: benchmarks/endpoint_times.py."""
    with serving("deterministic", first_s=0.1, gap_s=0.02, tokens=20) as server:
        shape = Shape(batch_size=1, sequence_length=16, output_length=20)
        line = scenarios.Line(Endpoint(url=server.url), prompts.synthetic((16,)), shape)
        taken = scenarios.at_rate(line, scenarios.Plan("generate", duration_s=3.0, runs=1), 15.0, warm=False)
        log = {entry["id"]: entry for entry in server.log()["requests"]}
    assert len(taken.answered) == len(log) == 45
    late = []
    for response in taken.answered:
        entry = log[str(response.number)]
        assert len(response.chunks) == len(entry["sent"]) == response.output_tokens == 20
        assert response.intended <= response.started <= response.sent <= entry["arrived"]
        seen = [came - left for came, left in zip(response.chunks, entry["sent"])]
        assert min(seen) > 0, "nothing arrives before it was sent: one clock"
        late.append((response.end - response.intended) - (entry["sent"][-1] - response.intended))
    assert stats.median(late) < 0.01
    tpot = stats.median([(one.end - one.first) / 19 for one in taken.answered])
    by_log = stats.median([(entry["sent"][-1] - entry["sent"][0]) / 19 for entry in log.values()])
    assert tpot == pytest.approx(by_log, abs=0.002) and by_log == pytest.approx(0.02, abs=0.004)


@pytest.fixture(scope="module")
def language_model():
    with serving("tiny_llm") as server:
        yield server


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_a_real_server_is_measured_and_its_log_agrees(language_model, tmp_path, api):
    """A Llama of random weights that really generates: every count, and the times, are those of the server's own log."""
    before = len(language_model.log()["requests"])
    asked = question(
        tmp_path, {"url": language_model.url, "api": api, "model": "tiny"}, shape={"batch_size": 1, "sequence_length": 24, "output_length": 12}
    )
    (record,) = measure_endpoint(asked, "served", progress=False, concurrency=2)
    log = {entry["id"]: entry for entry in language_model.log()["requests"][before:]}
    tables = [run.requests for run in record.runs]
    answered = sum(len(list(table.answered())) for table in tables)
    assert record.scenario == "generate" and record.load.concurrency == 2 and record.load.tokens_from == "usage"
    assert answered == record.load.audit.answered == record.load.audit.asked and not any(table.errors for table in tables)
    assert {count for table in tables for count in table.output_tokens} == {12}
    assert {entry["output_tokens"] for entry in log.values()} == {12}
    # the last run restarts the numbering: the log's entry of a number is that of the last run
    last = tables[-1]
    for place in last.answered():
        entry = log[str(place)]
        assert last.input_tokens[place] == entry["input_tokens"]
        assert sum(last.gaps_s[place]) == pytest.approx(entry["sent"][-1] - entry["sent"][0], abs=0.02)
        assert last.end_s[place] - last.first_s[place] == pytest.approx(sum(last.gaps_s[place]), abs=1e-5)
    assert record.quantity("output_tokens_per_s").value == pytest.approx(
        stats.median([12 * len(list(run.requests.answered())) / run.duration_s for run in record.runs])
    )
    assert record.quantity("ttft_p50_s").value < record.quantity("latency_p50_s").value
    assert "chunks" not in (record.quantity("itl_p50_s").why or ""), "each chunk is one token"
    assert "input_length_differs" in [finding.code for finding in record.findings], "a byte-level tokenizer makes more tokens than words"
    assert asked.dossier.measurements("served")[-1].id == record.id


def test_the_text_that_came_is_the_text_that_was_generated(language_model):
    before = len(language_model.log()["requests"])
    responses = ask(language_model, "tiny", count=3)
    for response, entry in zip(responses, language_model.log()["requests"][before:]):
        assert response.text == entry["text"] and response.output_tokens == entry["output_tokens"] == 5


# -- records ----------------------------------------------------------------------------------


def test_an_open_loop_becomes_a_record_with_its_audit(tmp_path):
    with serving("deterministic", first_s=0.01, gap_s=0.002, tokens=20) as server:
        (record,) = measure_endpoint(question(tmp_path, {"url": server.url}), "served", progress=False, rate_per_s=20.0, duration_s=4.0)
    load = record.load
    assert (load.arrivals, load.rate_per_s, load.searched, load.objective_s) == ("poisson", 20.0, False, {"ttft": 0.5})
    assert load.audit.asked == load.audit.answered == 80 and load.audit.lost == 0 and load.audit.repeated_prompts == 0
    assert not record.valid and "p99 needs 299" in record.validity and "--duration" in record.validity
    assert "open loop" in record.quantity("throughput_per_s").why
    assert record.quantity("requests_per_s").value == pytest.approx(20, rel=0.05)
    assert record.quantity("goodput_fraction").known and record.runs[0].warmup_s
    assert record.instance_type == "g6.xlarge" and "server_as_declared" in [finding.code for finding in record.findings]


def test_a_server_without_token_counts_and_one_that_refuses_the_question_for_them(tmp_path, faulty):
    asked = question(tmp_path, {"url": faulty.url, "model": "no_stream_options"}, policy={"budget_s": 0.5, "runs": 1})
    (record,) = measure_endpoint(asked, "served", progress=False)
    assert record.load.tokens_from == "chunks" and record.load.audit.failed == 0
    assert "chunks_for_tokens" in [finding.code for finding in record.findings]
    assert "each chunk is taken for one" in record.quantity("tpot_p50_s").why


def test_an_endpoint_where_nothing_answers_waits_and_says_what_came(tmp_path, faulty):
    with pytest.raises(WaitingForEvidence, match="http 500: Internal Server Error.*neuronfit measure"):
        measure_endpoint(question(tmp_path, {"url": faulty.url, "model": "http_500"}), "served", progress=False)
    with pytest.raises(WaitingForEvidence, match="no connection"):
        measure_endpoint(question(tmp_path, {"url": "http://127.0.0.1:9"}), "served", progress=False)


def test_offline_raises_the_requests_in_flight_while_it_helps(tmp_path):
    """Each answer takes 50 ms whatever else is going on, so twice as many in flight give twice the throughput; 4 may be open."""
    with serving("stalling", stall_s=0.0, service_s=0.05) as server:
        endpoint = {"url": server.url, "api": "json", "body": {"text": "{prompt}"}, "max_connections": 4}
        asked = question(
            tmp_path,
            endpoint,
            task="feature-extraction",
            shape={"batch_size": 8, "sequence_length": 16},
            objective={},
            policy={"budget_s": 0.6, "runs": 2},
        )
        records = measure(asked, "served", progress=False) and measure_endpoint(asked, "served", progress=False, scenario="offline", duration_s=0.8)
    assert [record.load.concurrency for record in records] == [1, 2, 4]
    rates = [record.quantity("throughput_per_s").value for record in records]
    assert rates[1] / rates[0] == pytest.approx(2, rel=0.25) and rates[2] / rates[1] == pytest.approx(2, rel=0.25)
    assert {record.settings.batch_size for record in records} == {1}, "the server forms its own batches"
    assert asked.dossier.measurements("served")[0].scenario == "single_stream", "the default where nothing is generated"


def test_the_three_methods_measure_the_same(tmp_path):
    with serving("stalling", stall_s=0.0, service_s=0.02) as server:
        target = EndpointTarget(Subject(config={}, task="feature-extraction"), Endpoint(url=server.url, api="json", body={"text": "{prompt}"}))
        target.prepare(Shape(batch_size=1, sequence_length=8))
        outcome = protocol(target, runs=1, budget_s=1.0)
        target.close()
        log = server.log()["requests"]
    values = [value for run in outcome.runs for value in run.values_s]
    assert len(log) >= len(values) and min(values) >= 0.02
    assert stats.median(values) == pytest.approx(0.02, abs=0.01)


# -- what to do where nothing is served yet ---------------------------------------------------


def test_a_served_path_without_an_endpoint_prints_what_to_start():
    """T5-3B needs tensor parallelism; no document names a server for it, so none is invented (test_recipe has those of decoders)."""
    asked = Question.open("t5-3b")
    told = how_to_measure(asked, asked.target("trn1-32"))
    assert told == where_to_run(asked, asked.target("trn1-32")) and "\n" not in told
    assert "endpoint: {url: 'http://HOST:8000'} under trn1-32" in told
    assert "neuronfit measure params/t5-3b.yaml --target trn1-32" in told and "neuronfit adopt FILE --for trn1-32" in told
    assert "vllm serve" not in told and "by path nxd_inference (no command is known for this model, see step 2)" in told
    with pytest.raises(WaitingForEvidence, match="nxd_inference"):
        measure(asked, "trn1-32", progress=False)


def test_a_rate_without_an_open_loop_is_refused(tmp_path):
    with pytest.raises(BadParams, match="a rate has no meaning in scenario offline"):
        measure_endpoint(question(tmp_path, {"url": "http://h"}), "served", scenario="offline", rate_per_s=5.0)


def test_a_recorded_trace_is_replayed_at_its_own_times_and_lengths(tmp_path):
    """Six requests in 0.9 s, two of them at once; words sent are the tokens recorded, and the seventh comes too late."""
    times, lengths = (0.0, 0.1, 0.1, 0.35, 0.6, 0.9, 5.0), (5, 9, 2, 30, 7, 4, 8)
    rows = [f"{time},{length},20" for time, length in zip(times, lengths)]
    (tmp_path / "trace.csv").write_text("\n".join(["arrived_at,num_prefill_tokens,num_decode_tokens", *rows]) + "\n", encoding="utf-8")
    with serving("deterministic", first_s=0.01, gap_s=0.001, tokens=20) as server:
        policy = {"arrivals": "trace", "scenario": "server", "budget_s": 2.0, "runs": 3}
        asked = question(tmp_path, {"url": server.url}, policy=policy, traffic={"trace": {"file": str(tmp_path / "trace.csv")}})
        (record,) = measure_endpoint(asked, "served", progress=False)
        arrived = [entry["arrived"] for entry in server.log()["requests"][-6:]]
    (run,) = record.runs
    assert run.requests.intended_s == pytest.approx(times[:6], abs=1e-6)
    assert run.requests.input_tokens == lengths[:6] and record.load.arrivals == "trace" and record.settings.sequence_length is None
    assert [moment - arrived[0] for moment in sorted(arrived)] == pytest.approx(times[:6], abs=0.05)


def test_policy_is_read_from_the_params_file(tmp_path):
    from neuronfit.load import plan_of

    data = question(tmp_path, {"url": "http://h"}, policy={"scenario": "server", "rate_per_s": 30, "arrivals": "constant", "budget_s": 5})
    plan = plan_of(data)
    assert (plan.scenario, plan.rate_per_s, plan.arrivals) == ("server", 30, "constant")
    assert plan.duration_s == pytest.approx(1.1 * 299 / 30), "as long as the p99 of the objective needs"
    assert plan_of(data, duration_s=7.0).duration_s == 7.0


# -- the command ------------------------------------------------------------------------------


def command(folder, *arguments):
    return [
        sys.executable,
        "-m",
        "neuronfit.cli",
        "measure",
        str(folder / "served.yaml"),
        "--target",
        "served",
        "--reports",
        str(folder / "r"),
        *arguments,
    ]


def status_of(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code


def test_the_command_prints_the_figures_and_where_the_record_is(tmp_path, capsys):
    with serving("deterministic", first_s=0.01, gap_s=0.002, tokens=20) as server:
        question(tmp_path, {"url": server.url})
        assert status_of(*command(tmp_path, "--concurrency", "3", "--duration", "0.6")[3:]) == 0
    said = capsys.readouterr().out
    assert "served, generate, 16 + 20 tokens, 3 in flight" in said and "time to first token p50" in said
    assert len(list((tmp_path / "r" / "tiny" / "records").glob("*-measurement-*.json"))) == 1


def test_options_of_a_load_need_an_endpoint(tmp_path, capsys):
    question(tmp_path, {"url": "http://h"})
    assert status_of(*command(tmp_path, "--rate", "3")[3:], "--target", "inf2") == 2
    assert "--rate loads an endpoint, and inf2 has none" in capsys.readouterr().err


def test_ctrl_c_keeps_what_was_collected(tmp_path):
    with serving("deterministic", first_s=0.01, gap_s=0.002, tokens=20) as server:
        question(tmp_path, {"url": server.url})
        running = subprocess.Popen(command(tmp_path, "--rate", "20", "--duration", "9"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        before = time.monotonic()
        while len(server.log()["requests"]) < 45 and time.monotonic() - before < 60:
            time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        said, errors = running.communicate(timeout=30)
    assert running.returncode == 130, (said, errors)
    assert "INVALID" in said and "stopped by hand after" in said
    (path,) = (tmp_path / "r" / "tiny" / "records").glob("*-measurement-*.json")
    kept = records.read(path.read_text(encoding="utf-8"))
    assert kept.valid is False and 1 <= len(kept.latencies_s) < 175 and "interrupted" in [finding.code for finding in kept.findings]
    assert sum(error == generator.INTERRUPTED for error in kept.runs[-1].errors) <= 3, "only those in flight were given up"
