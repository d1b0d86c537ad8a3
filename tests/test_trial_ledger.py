"""The columns in which a test keeps its requests, and the log that is read into them, line by line."""

from __future__ import annotations

import hashlib
import json
import math
import random

import numpy as np
import pytest
from example_questions import question
from neuronfit import trial
from neuronfit.trial import ledger as ledgers
from neuronfit.trial import log as logs
from neuronfit.trial.evaluate import judge, unreachable
from neuronfit.trial.ledger import VALUES, Answered, Entry, Ledger


def some(count: int, seed: int = 1) -> list[Entry]:
    """Entries with every field present, absent and odd, in no order."""
    draw = random.Random(seed)
    maybe = lambda value: value if draw.random() < 0.7 else None  # noqa: E731
    found = []
    for n in range(count):
        due = round(draw.random() * 14400, 7)
        found.append(
            Entry(
                n=draw.randrange(1 << 32),
                stage=draw.randrange(1 << 15),
                arm=draw.choice(ledgers.ARMS),
                due=due,
                sent=maybe(due + 1e-4),
                first=maybe(due + 0.01),
                end=maybe(due + draw.lognormvariate(-4, 1)),
                tokens=maybe(draw.randrange(100)),
                hash=draw.choice([None, "", "abc", "ABCDEF012345", f"{n:012x}", "f" * 12, "0" * 12]),
                agree=maybe(draw.random() < 0.5),
                error=maybe(draw.choice(["", "http 500: no", "timeout\u2028"])),
            )
        )
    return found


@pytest.fixture
def short_pieces(monkeypatch):
    monkeypatch.setattr(ledgers, "PIECE", 4)


def test_entries_come_back_as_they_went_in(short_pieces):
    entries = some(41)
    ledger = Ledger(entries)
    assert ledgers.ROW.itemsize == 56
    assert list(ledger) == entries and len(ledger) == 41 and [ledger[place] for place in range(41)] == entries
    assert ledger[-1] == entries[-1] and list(ledger[7:30]) == entries[7:30] and list(ledger[7:30][3:9]) == entries[10:16]
    assert list(ledger[::3]) == entries[::3] and list(ledger[30:7]) == [] and list(ledger[:100]) == entries
    with pytest.raises(IndexError):
        ledger[41]


def test_a_slice_stays_as_it_was_while_the_ledger_grows(short_pieces):
    entries = some(20)
    ledger = Ledger(entries[:6])
    part = ledger[2:]
    for entry in entries[6:]:
        ledger.append(entry)
    assert list(part) == entries[2:6] and list(ledger) == entries
    ledger.drop(15)
    assert list(ledger) == entries[:5]


def test_columns_have_the_values_of_the_entries(short_pieces):
    entries = some(200)
    rows = np.concatenate(list(Ledger(entries).pieces()))
    for name, column in VALUES.items():
        found = [None if math.isnan(value) else value for value in column(rows)]
        assert found == [getattr(entry, f"{name}_s") for entry in entries], name


def test_texts_that_are_very_many_are_not_all_kept(monkeypatch):
    monkeypatch.setattr(ledgers, "MOST_TEXTS", 3)
    ledger = Ledger(Entry(n=n, stage=0, arm="candidate", due=0.0, error=f"request {n} failed") for n in range(9))
    assert [entry.error for entry in ledger] == [f"request {n} failed" for n in range(3)] + [ledgers.ONE_OF_MANY] * 6


def test_answered_is_a_set_of_requests():
    draw, plain, bits = random.Random(2), set(), Answered()
    for _ in range(4000):
        key = (draw.randrange(2), draw.choice([draw.randrange(300), draw.randrange(1 << 32)]), draw.choice(ledgers.ARMS))
        if draw.random() < 0.1:
            plain.discard(key)
            bits.discard(*key)
        else:
            assert bits.add(*key) == (key not in plain)
            plain.add(key)


# -- what is judged from columns --------------------------------------------------------------


def pairs_one_by_one(entries: list[Entry]) -> tuple[list[float], list[float]]:
    """The plain way: a request is a pair once both sides have a latency; pairs in the order in which they became one."""
    single: dict[int, Entry] = {}
    mine, theirs = [], []
    for entry in entries:
        if entry.latency_s is None:
            continue
        other = single.pop(entry.n, None)
        if other is None:
            single[entry.n] = entry
            continue
        both = {entry.arm: entry.latency_s, other.arm: other.latency_s}
        mine.append(both["candidate"])
        theirs.append(both["baseline"])
    return mine, theirs


def test_pairs_are_found_whatever_the_order_and_the_looks(tmp_path, short_pieces):
    """300 requests to both sides, answers mixed up, a tenth failed on one side or the other: looked at every 7 entries."""
    draw = random.Random(3)
    entries = []
    for n in range(300):
        for arm in ledgers.ARMS:
            failed = "no" if draw.random() < 0.05 else None
            entries.append((n + draw.random() * 20, Entry(n=n, stage=0, arm=arm, due=0.0, end=draw.lognormvariate(-4, 0.5), error=failed)))
    entries = [entry for _, entry in sorted(entries, key=lambda pair: pair[0])]
    plan = trial.plan(question(tmp_path, trial={"criteria": [{"metric": "latency_p50"}]}))
    one = judge(plan.criteria_fixed[0], True, 300, 0.025)
    for upto in range(0, len(entries) + 7, 7):
        one.take(Ledger(entries), min(upto, len(entries)))
    mine, theirs = pairs_one_by_one(entries)
    assert 240 < len(mine) < 300
    assert list(one._values["candidate"]) == mine and list(one._values["baseline"]) == theirs


def test_shares_and_fleets_count_rows_as_entries(tmp_path, short_pieces):
    entries = some(300, seed=4)
    bounded = [{"metric": "latency_p95", "bound_ms": 20}, {"metric": "error_rate"}, {"metric": "agreement"}, {"metric": "throughput"}]
    plan = trial.plan(question(tmp_path, trial={"criteria": bounded}))
    latency, errors, agreement, throughput = (judge(one, True, 300, 0.025) for one in plan.criteria_fixed)
    for one in (latency, errors, agreement, throughput):
        one.take(entries)
    mine = [entry for entry in entries if entry.arm == "candidate"]
    assert (latency.happened, latency.of) == (sum(entry.latency_s is None or entry.latency_s > 0.02 for entry in mine), len(mine))
    assert (errors.happened, errors.of) == (sum(entry.error is not None for entry in mine), len(mine))
    told = [entry.agree for entry in entries if entry.agree is not None]
    assert (agreement.happened, agreement.of) == (sum(told), len(told))
    assert throughput.asked == {arm: sum(entry.arm == arm for entry in entries) for arm in ledgers.ARMS}
    assert throughput.good == {arm: sum(entry.arm == arm and entry.latency_s is not None for entry in entries) for arm in ledgers.ARMS}


def failures(arms: str, error: str = "connection lost: x", start: int = 0) -> list[Entry]:
    """One failed entry a letter: b or c."""
    return [Entry(n=start + n, stage=0, arm={"b": "baseline", "c": "candidate"}[arm], due=0.0, error=error) for n, arm in enumerate(arms)]


def test_both_sides_out_of_reach_are_told_from_one(short_pieces):
    good = [Entry(n=n, stage=0, arm="baseline", due=0.0, end=0.1) for n in range(3)]
    assert unreachable(good + failures("bcbcbcbcbcb"), 5) == (11, "connection lost: x")
    assert unreachable(good + failures("bcbcbcbcb"), 5) == (0, ""), "four of the candidate are too few"
    assert unreachable(failures("ccccccccccccc"), 5) == (0, "")
    assert unreachable(failures("bbbbbcccc") + good + failures("c"), 5) == (0, ""), "an answer came in between"
    assert unreachable(failures("bcbcbcbcbc", "http 500: no"), 5) == (0, ""), "who answers is reached"
    assert unreachable(good, 5) == (0, "") and unreachable([], 5) == (0, "")


# -- the log ----------------------------------------------------------------------------------

HEAD = '{"log": "trial/1", "plan": "p", "started_utc": "2026-11-30T12:00:00Z"}\n'


def written(tmp_path, *lines) -> logs.Logged:
    data = HEAD.encode() + b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines)
    (tmp_path / "x.jsonl").write_bytes(data)
    found = logs.read(tmp_path / "x.jsonl")
    assert found.sha256 == hashlib.sha256(data).hexdigest()
    return found


GOOD = '{"n":1,"stage":0,"arm":"candidate","due":0.5,"end":0.6}'


@pytest.mark.parametrize(
    "line",
    [
        '{"n":-1,"stage":0,"arm":"candidate","due":0.5}',
        '{"n":4294967296,"stage":0,"arm":"candidate","due":0.5}',
        '{"n":2.0,"stage":0,"arm":"candidate","due":0.5}',
        '{"n":true,"stage":0,"arm":"candidate","due":0.5}',
        '{"n":2,"stage":32768,"arm":"candidate","due":0.5}',
        '{"n":2,"stage":0,"arm":"both","due":0.5}',
        '{"n":2,"stage":0,"arm":["candidate"],"due":0.5}',
        '{"n":2,"stage":0,"arm":"candidate","due":NaN}',
        '{"n":2,"stage":0,"arm":"candidate","due":0.5,"end":Infinity}',
        '{"n":2,"stage":0,"arm":"candidate","due":0.5,"end":1' + "0" * 400 + "}",
        '{"n":2,"stage":0,"arm":"candidate","due":"soon"}',
        '{"n":2,"stage":0,"arm":"candidate","due":0.5,"tokens":"many"}',
        '{"n":2,"stage":0,"arm":"candidate","due":0.5,"tokens":2147483648}',
        '{"n":2,"stage":0,"arm":"candidate","due":0.5,"agree":1}',
        '{"n":2,"stage":0,"arm":"candidate","due":0.5,"hash":7}',
        '{"n":2,"stage":0,"arm":"candidate","due":0.5,"error":{}}',
        '{"n":2,"stage":0,"arm":"candidate","due":0.5,"body":"x"}',
        "[" * 100_000,
        "x" * (3 << 20) + GOOD,
        b'{"n":2,"stage":0,"arm":"candidate","due":0.5,"error":"\xff"}',
    ],
    ids=lambda line: str(line[:70]),
)
def test_a_line_that_is_no_entry_is_torn_and_swallows_no_other(tmp_path, line):
    found = written(tmp_path, GOOD, line, GOOD.replace(":1,", ":3,"))
    assert ([entry.n for entry in found.entries], found.torn, found.doubled) == ([1, 3], 1, 0)


def test_the_first_line_of_a_request_stands(tmp_path):
    found = written(tmp_path, GOOD, GOOD.replace("0.6", "0.9"), GOOD.replace("candidate", "baseline"), GOOD.replace('"stage":0', '"stage":1'))
    assert [(entry.stage, entry.arm, entry.end) for entry in found.entries] == [(0, "candidate", 0.6), (0, "baseline", 0.6), (1, "candidate", 0.6)]
    assert found.doubled == 1 and len(found.of(0)) == 2 and len(found.of(7)) == 0


def test_events_alone_can_be_read(tmp_path):
    whole = written(tmp_path, '{"event": "stage", "stage": 0}', GOOD, '{"event": "end", "why": "lost"}')
    only = logs.read(tmp_path / "x.jsonl", requests=False)
    assert only.events == whole.events and only.sha256 == whole.sha256 and only.ended == {"event": "end", "why": "lost"}
    assert only.entries == [] and len(whole.entries) == 1


def test_an_end_stands_until_the_test_goes_on(tmp_path):
    end, again = '{"event": "end", "why": "interrupted"}', '{"event": "resume"}'
    assert written(tmp_path, GOOD, end).ended["why"] == "interrupted"
    assert written(tmp_path, GOOD, end, again).ended is None
    assert written(tmp_path, end, again, end.replace("interrupted", "finished")).ended["why"] == "finished"


def test_what_failed_while_neither_side_was_reached_does_not_count_and_may_be_sent_again(tmp_path):
    lines = [json.dumps({"n": entry.n, "stage": 0, "arm": entry.arm, "due": 0.0, "error": entry.error}) for entry in failures("bcbc", start=2)]
    found = written(tmp_path, GOOD, *lines, '{"event": "lost", "stage": 0, "count": 4}', *[line.replace("connection", "http") for line in lines[:2]])
    assert [(entry.n, entry.error) for entry in found.entries] == [(1, None), (2, "http lost: x"), (3, "http lost: x")]
    assert (found.lost, found.doubled, found.torn) == (4, 0, 0)


@pytest.mark.parametrize("event", ['{"event": "lost"}', '{"event": "lost", "stage": 0, "count": 99}', '{"event": "lost", "stage": [], "count": "x"}'])
def test_a_loss_that_says_nonsense_drops_nothing(tmp_path, event):
    assert len(written(tmp_path, GOOD, event).entries) == 1
