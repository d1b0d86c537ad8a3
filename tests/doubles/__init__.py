"""Stand-ins for the Neuron packages, written from their documentation and not from hardware.

They refuse what the documentation refuses (positional options, unknown flags, other shapes than the
compiled one), so that a call that would fail on a Neuron host fails here. They compute on the CPU,
say nothing about speed, and are never importable unless :func:`install` puts them in the way.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from neuronfit import system

FOLDER = Path(__file__).parent
PACKAGES = ("torch_neuronx", "neuronxcc")


def install(monkeypatch: Any, kind: str, *, device: bool = True) -> ModuleType:
    """Make ``xla``, ``native`` or ``wrong_package`` importable for one test; returns ``torch_neuronx`` (or itself unimported)."""
    for name in PACKAGES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(FOLDER / kind))
    for name in PACKAGES:  # what the test imports is forgotten after it
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    monkeypatch.setattr(system, "neuron_devices", lambda: ["/dev/neuron0"] if device else [])
    if kind == "wrong_package":
        return ModuleType("torch_neuronx")
    double = importlib.import_module("torch_neuronx")
    if kind == "native":
        double.attach(monkeypatch)
    return double
