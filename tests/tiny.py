"""A question about a model so small that the whole series runs in seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

CONFIG = {
    "model_type": "bert",
    "vocab_size": 128,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
}


def question_data(folder: Path, **changes: Any) -> dict[str, Any]:
    """The mapping of a params file; its config.json is written to ``folder``. ``changes`` replace sections."""
    config = folder / "tiny-config.json"
    config.write_text(json.dumps(CONFIG), encoding="utf-8")
    data = {
        "workload": {
            "name": "tiny",
            "model": {"config": str(config), "task": "feature-extraction"},
            "published_as": "bert-base-uncased",
            "shapes": [{"batch_size": 2, "sequence_length": 16}],
        },
        "traffic": {"mean_per_s": 400, "peak_per_s": 1200},
        "objective": {"latency_p99_ms": 20},
        "baseline": {"name": "l4", "instance_type": "g6.xlarge", "path": "cuda"},
        "candidates": [{"name": "inf2", "instance_type": "inf2.xlarge", "path": "neuron_xla"}],
        "policy": {"budget_s": 0.5},
    }
    return data | changes


def params_file(folder: Path, **changes: Any) -> Path:
    """The params file itself, ``folder/tiny.yaml``."""
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(question_data(folder, **changes)), encoding="utf-8")
    return path
