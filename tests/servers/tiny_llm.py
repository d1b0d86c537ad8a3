"""A real OpenAI-compatible server, only small: a LlamaForCausalLM of random weights, a byte-level tokenizer built here.

It tokenizes the prompt, runs prefill and one decode step per token with a cache, writes each token as it is sampled (greedy)
and logs when it did. Steps of several requests take turns in one worker thread.
"""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from aiohttp import web
from common import Log, event, options, serve, stream
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

given = options(hidden=64, layers=2)

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
tokenizer = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(ALPHABET)}, merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()

torch.manual_seed(0)
torch.set_num_threads(1)
config = LlamaConfig(
    vocab_size=len(ALPHABET),
    hidden_size=given.hidden,
    intermediate_size=2 * given.hidden,
    num_hidden_layers=given.layers,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=2048,
    bos_token_id=None,
    eos_token_id=None,
)
model = LlamaForCausalLM(config).eval()
worker = ThreadPoolExecutor(1)


def step(ids: list[int], cache: object) -> tuple[int, object]:
    with torch.inference_mode():
        output = model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True)
    return int(output.logits[0, -1].argmax()), output.past_key_values


async def answer(request: web.Request, log: Log) -> web.StreamResponse:
    entry = log.arrived(request)
    body = json.loads(await request.read())
    chat = "messages" in body
    prompt = "\n".join(message["content"] for message in body["messages"]) if chat else body["prompt"]
    ids = tokenizer.encode(prompt).ids
    entry |= {"input_tokens": len(ids), "output_tokens": 0, "text": ""}
    response, loop, cache, feed = await stream(request), asyncio.get_running_loop(), None, ids
    if chat:
        await response.write(event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}))
    for _ in range(body.get("max_tokens", 16)):
        token, cache = await loop.run_in_executor(worker, step, feed, cache)
        text = tokenizer.decode([token]) or "?"
        entry["sent"].append(time.perf_counter())
        entry["output_tokens"] += 1
        entry["text"] += text
        choice = {"index": 0, "finish_reason": None, **({"delta": {"content": text}} if chat else {"text": text})}
        await response.write(event({"choices": [choice]}))
        feed = [token]
    await response.write(event({"choices": [{"index": 0, "finish_reason": "length", **({"delta": {}} if chat else {"text": ""})}]}))
    if body.get("stream_options", {}).get("include_usage"):
        await response.write(event({"choices": [], "usage": {"prompt_tokens": len(ids), "completion_tokens": entry["output_tokens"]}}))
    await response.write(event("[DONE]"))
    return response


step(tokenizer.encode("warm").ids, None)
serve(answer, Log())
