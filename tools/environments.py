"""Write the conda environments: ``python tools/environments.py`` after ``make lock``.

``environment.yml`` holds Python and pip, and the pins of requirements.lock, markers kept. The two
Neuron environments hold the stack of one SDK release, and from the lock only what
``neuronfit measure`` imports. Without an argument the files are rewritten in the project's root.
"""

from __future__ import annotations

import re
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]

NEURON_INDEX = "--extra-index-url https://pip.repos.neuron.amazonaws.com"
TORCH_CPU_INDEX = "--extra-index-url https://download.pytorch.org/whl/cpu"

FROM_THE_STACK = ("numpy", "torch", "transformers")
"""Dependencies of this project whose versions a Neuron stack decides; the others are pinned as in the lock."""

WORKBOOK = """\
# The workbook on any host: JupyterLab, the nine notebooks, the command line, the tests.
#
#   conda env create -f environment.yml
#   conda activate neuronfit
#
# conda brings Python and pip; every other package is pinned as in requirements.lock (first made on
# 2026-11-30), which `make report` and `make test` install too. Python 3.11 is the version that the
# tests were first run with; 3.10 to 3.14 will do, the markers pick the pins.
#
# Made by `python tools/environments.py`; do not edit. Checked for consistency with the lock and with
# pyproject.toml only: it was never solved or installed, as there was no conda channel where it was
# written.
"""

NEURON_XLA = """\
# Measuring on Inferentia2 and Trainium1: torch_neuronx.trace, software path `neuron_xla`.
#
#   conda env create -f environment-neuron-xla.yml
#   conda activate neuronfit-neuron-xla
#   neuronfit measure params/bert-base-uncased.yaml --target inf2
#
# Rests on: the package list of Neuron SDK 2.31.1 (released 2026-08-12, read 2026-08-21), whose XLA
# build of torch-neuronx is the last one and in maintenance since; the update page for Ubuntu 24.04
# (SDK 2.32 and 2.33, August to October 2026), which uses Python 3.12 and pins this pair of
# torch-neuronx and neuronx-cc; the release notes of SDK 2.32 (2026-08-17), which ask for NumPy 2.2 or
# 2.3 and for transformers from 4.52. libneuronxla is pinned because torch-neuronx 2.9 accepts every
# 2.2. transformers stays below 5: nothing says that this frozen stack was tried with it.
# torch comes from the public index, whose Linux wheel brings CUDA libraries that nothing here uses.
# The kernel driver and the runtime are system packages, not part of a Python environment.
#
# Made by `python tools/environments.py`; do not edit. Checked for consistency with that package list
# and with pyproject.toml only: it was never solved or installed, as there was neither Neuron
# hardware nor a conda channel where it was written.
# For the notebooks as well: pip install -e ".[workbook]"
"""

NEURON_NATIVE = """\
# Measuring on Trainium2 and Trainium3: TorchNeuron, software path `neuron_native`. A public beta.
#
#   conda env create -f environment-neuron.yml
#   conda activate neuronfit-neuron
#   neuronfit measure PARAMS --target NAME
#
# Rests on: the component table and support matrix of Neuron SDK 2.33.0 (2026-10-19), which list
# torch-neuronx 2.13.3.0 for PyTorch 2.13.0, Python 3.12 to 3.14 and Ubuntu 24.04 and 26.04; its
# install line (2026-10-18), which has the two extra indexes; the release notes of SDK 2.32
# (2026-08-17), which ask for NumPy 2.2 or 2.3: no newer statement was seen. torch-neuronx 2.14.3.0 is
# listed too; 2.13 is taken because requirements.lock has the same PyTorch, so that both sides of a
# comparison run one framework version. The quick start of SDK 2.33.1 has stand-alone wheels for
# Ubuntu 26.04 only, which contradicts the matrix.
# The kernel driver and the runtime are system packages, not part of a Python environment.
#
# Made by `python tools/environments.py`; do not edit. Checked for consistency with that package list
# and with pyproject.toml only: it was never solved or installed, as there was neither Neuron
# hardware nor a conda channel where it was written.
# For the notebooks as well: pip install -e ".[workbook]"
"""


def environments(root: Path = ROOT) -> dict[str, str]:
    """File name -> text of the three environments, from requirements.lock and pyproject.toml in ``root``."""
    lock = (root / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lock if line and not line.startswith("#")]
    measuring = _needed_to_measure((root / "pyproject.toml").read_text(encoding="utf-8"), pins, "3.12")
    xla = (
        NEURON_INDEX,
        "neuronx-cc==2.26.6360.0",
        "torch-neuronx==2.9.0.2.15.32035",
        "libneuronxla==2.2.17544.0",
        "nki==0.5.0",
        "torch==2.9.*",
        "transformers==4.57.6",
        "numpy>=2.2,<2.4",
    )
    native = (
        NEURON_INDEX,
        TORCH_CPU_INDEX,
        "neuronx-cc==2.28.7631.0",
        "torch-neuronx==2.13.3.0.*",
        "nki==0.7.0",
        *(pin for pin in pins if pin.startswith("torch==")),
        f"transformers=={_pinned(pins, 'transformers', '3.12')}",
        "numpy>=2.2,<2.4",
    )
    return {
        "environment.yml": WORKBOOK + _body("neuronfit", "3.11", pins),
        "environment-neuron-xla.yml": NEURON_XLA + _body("neuronfit-neuron-xla", "3.12", [*xla, *measuring]),
        "environment-neuron.yml": NEURON_NATIVE + _body("neuronfit-neuron", "3.12", [*native, *measuring]),
    }


def _body(name: str, python: str, lines: list[str]) -> str:
    """The YAML below the comments; the project itself comes last, editable."""
    head = f"name: {name}\nchannels:\n  - conda-forge\ndependencies:\n  - python={python}\n  - pip\n  - pip:\n"
    return head + "".join(f"      - {_quoted(line)}\n" for line in [*lines, "-e ."])


def _quoted(line: str) -> str:
    """As YAML reads it back unchanged; markers have quotes of their own."""
    return f'"{line}"' if re.search(r"[#;:*<>]|^-", line) else line


def _needed_to_measure(pyproject: str, pins: list[str], python: str) -> list[str]:
    """Pins of the direct dependencies, without those that the Neuron stack decides."""
    block = re.search(r"^dependencies = \[(.*?)^\]", pyproject, re.DOTALL | re.MULTILINE)
    names = [Requirement(entry).name for entry in re.findall(r'"([^"]+)"', block[1] if block else "")]
    return [f"{name}=={_pinned(pins, name, python)}" for name in names if name not in FROM_THE_STACK]


def _pinned(pins: list[str], name: str, python: str) -> str:
    """The version of a package in the lock, on Linux with this Python."""
    linux = {**default_environment(), "sys_platform": "linux", "os_name": "posix", "platform_machine": "x86_64"}
    linux |= {"python_version": python, "python_full_version": f"{python}.0", "implementation_name": "cpython"}
    for pin in map(Requirement, pins):
        if pin.name == name and (pin.marker is None or pin.marker.evaluate(linux)):
            return next(iter(pin.specifier)).version
    raise SystemExit(f"{name} has no pin in requirements.lock for Python {python} | next: make lock")


def main() -> None:
    for name, text in environments().items():
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
