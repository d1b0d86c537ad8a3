"""A real classifier behind HTTP: a DistilBERT of random weights in FP32 or BF16 on the CPU, and faults that can be set.

A POST of ``{"inputs": text}`` is answered with the label and its logits. ``--slower 1.15`` takes 15 % longer, ``--errors 0.01``
fails one request in a hundred, ``--wrong`` answers with the other label, ``--crash-after`` and ``--hang-after`` count requests.
A POST to /set changes them while it runs, and counts from there.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from aiohttp import web
from common import Log, options, serve
from transformers import DistilBertConfig, DistilBertForSequenceClassification

given = options(hidden=64, layers=2, heads=4, precision="fp32", length=16, slower=1.0, errors=0.0, wrong=0.0, crash_after=0, hang_after=0, healthy=10)

FAULTLESS = {"slower": 1.0, "errors": 0.0, "wrong": 0.0, "crash_after": 0, "hang_after": 0}

torch.manual_seed(0)
torch.set_num_threads(1)
config = DistilBertConfig(dim=given.hidden, hidden_dim=4 * given.hidden, n_layers=given.layers, n_heads=given.heads, num_labels=2)
config.initializer_range = 0.1  # answers depend on the input
model = DistilBertForSequenceClassification(config).eval()
worker, chance = ThreadPoolExecutor(1), random.Random(1)


def classify(text: str) -> list[float]:
    begin = time.perf_counter()
    ids = [(byte * 7919 + place) % config.vocab_size for place, byte in enumerate(text.encode()[: given.length].ljust(given.length))]
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([ids])).logits[0].float().tolist()
    taken = time.perf_counter() - begin
    if given.slower > 1:
        time.sleep(taken * (given.slower - 1))
    return logits


async def answer(request: web.Request, log: Log) -> web.StreamResponse:
    body = json.loads(await request.read())
    if request.path == "/set":
        vars(given).update(FAULTLESS | body)
        log.requests.clear()
        return web.json_response(body)
    log.arrived(request)
    count = len(log.requests)
    if given.crash_after and count > given.crash_after:
        os._exit(1)
    if given.hang_after and count > given.hang_after:
        await asyncio.sleep(3600)
    logits = await asyncio.get_running_loop().run_in_executor(worker, classify, body["inputs"])
    if count > given.healthy and chance.random() < given.errors:
        return web.json_response({"error": "out of device memory"}, status=500)
    label = int(logits[1] > logits[0])
    if count > given.healthy and chance.random() < given.wrong:
        label = 1 - label
    return web.json_response({"label": label, "logits": logits})


with torch.no_grad():  # both labels as likely
    model.classifier.bias.sub_(torch.tensor([classify(f"text {n * n}") for n in range(64)]).mean(0))
model.to(torch.bfloat16 if given.precision == "bf16" else torch.float32)
for _ in range(5):
    classify("warm")
serve(answer, Log())
