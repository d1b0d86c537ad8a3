"""CUDA in a source tree: found at its line, with what replaces it, and nothing that breaks the scan."""

from __future__ import annotations

import json
import os

import pytest
from neuronfit import dependencies
from neuronfit.errors import BadInput


def found(source):
    """(code, line, guarded) of each place in ``source``."""
    return [(one.code, one.line, one.guarded) for one in dependencies.scan_source(source)]


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("import apex", "apex"),
        ("from apex.normalization import FusedLayerNorm", "apex"),
        ("from flash_attn import flash_attn_func", "flash-attn"),
        ("import flash_attn.bert_padding as padding", "flash-attn"),
        ("import bitsandbytes as bnb", "bitsandbytes"),
        ("import xformers.ops", "xformers"),
        ("import triton\n", "triton"),
        ("import triton.language as tl", "triton"),
        ("from nvidia import dali", "nvidia-dali"),
        ("from nvidia.dali.pipeline import Pipeline", "nvidia-dali"),
        ("import transformer_engine.pytorch as te", "transformer-engine"),
    ],
)
def test_packages(line, package):
    assert found(line) == [(package, 1, False)]
    assert dependencies.PACKAGES[package].severity == "blocker"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("torch.cuda.synchronize()", "cuda_call"),
        ("if torch.cuda.is_available(): pass", "cuda_call"),
        ("from torch import cuda", "cuda_call"),
        ("torch.cuda.CUDAGraph()", "cuda_graphs"),
        ("torch.cuda.amp.autocast()", "cuda_autocast"),
        ("from torch.cuda.amp import autocast", "cuda_autocast"),
        ("with torch.autocast('cuda', dtype=torch.float16): pass", "cuda_autocast"),
        ("with torch.autocast(device_type='cuda'): pass", "cuda_autocast"),
        ("model.cuda()", "cuda_move"),
        ("model.to('cuda')", "cuda_move"),
        ("model.to('cuda:1', non_blocking=True)", "cuda_move"),
        ("x.to(device='cuda')", "cuda_move"),
        ("x.to(f'cuda:{rank}')", "cuda_move"),
        ("x.to(torch.device('cuda'))", "cuda_move"),
        ("device = 'cuda' if torch else 'cpu'", "cuda_device"),
        ("torch.zeros(3, device='cuda')", "cuda_device"),
        ("d = torch.device('cuda:0')", "cuda_device"),
        ("dist.init_process_group('nccl')", "nccl"),
        ("dist.init_process_group(backend='nccl')", "nccl"),
        ("from torch.utils.cpp_extension import BuildExtension, CUDAExtension", "cuda_extension"),
        ("cpp_extension.load(name='k', sources=['k.cpp', 'k.cu'])", "cuda_extension"),
        ("torch.compile(model, dynamic=True)", "compile_dynamic"),
        ("torch.compile(model, dynamic=False, mode='max-autotune')", "compile_mode"),
        ("torch.compile(model, dynamic=False, backend='inductor')", "compile_backend"),
        ("torch.compile(model)", "compile_shapes"),
        ("AutoModel.from_pretrained(name, attn_implementation='flash_attention_2')", "attention_kernel"),
        ("AutoModel.from_pretrained(name, load_in_8bit=True)", "quantized_load"),
    ],
)
def test_calls(line, code):
    assert code in [one for one, _, _ in found(line)]
    known = dependencies.CALLS[code]
    assert known.because and known.xla and known.native


@pytest.mark.parametrize(
    "line",
    [
        "import torch",
        "from . import triton",
        "from .apex import scale",
        "import apexpy",
        "x.to('cpu')",
        "x.to(other.device)",
        "x.to(torch.float16)",
        "torch.autocast('cpu')",
        "torch.compile(model, backend='neuron', fullgraph=True, dynamic=False)",
        "torch.compile(model, dynamic=False, mode='default')",
        "re.compile('cuda')",
        "print('cuda')",
        "load(name='k')",
        "'import apex'",
        "# model.cuda()",
        "cuda = 3",
    ],
)
def test_what_is_no_cuda(line):
    assert found(line) == []


def test_a_guarded_import_is_no_blocker(tmp_path):
    (tmp_path / "layers.py").write_text(
        "try:\n    import flash_attn\nexcept ImportError:\n    flash_attn = None\nimport bitsandbytes\nif torch.cuda.is_available():\n    model.cuda()\nelse:\n    model.to('cuda')\n"
    )
    scan = dependencies.scan(tmp_path)
    assert [(one.code, one.line, one.guarded) for one in scan.found] == [
        ("flash-attn", 2, True),
        ("bitsandbytes", 5, False),
        ("cuda_call", 6, True),
        ("cuda_move", 7, True),
        ("cuda_move", 9, False),
    ]
    assert [(one.code, one.file) for one in scan.blockers] == [("bitsandbytes", "layers.py")]


def test_each_place_says_what_replaces_it_on_both_paths():
    (one,) = dependencies.scan_source("with torch.autocast(device_type='cuda'):\n    pass")
    assert "--auto-cast" in one.replacement("neuron_xla")
    assert "device_type='neuron'" in one.replacement("neuron_native")
    assert one.text == "torch.autocast(device_type='cuda')"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("requirements.txt", "torch>=2\nflash-attn==2.5 ; python_version > '3.8'\n# apex\nbitsandbytes\n", [("flash-attn", 2), ("bitsandbytes", 4)]),
        ("requirements-gpu.txt", "flash_attn\nXFormers[all]>=0.1\n", [("flash-attn", 1), ("xformers", 2)]),
        (
            "requirements.txt",
            "--extra-index-url https://download.pytorch.org/whl/cu121\ntorch==2.4.0+cu121\n",
            [("cuda_wheel", 1), ("cuda_wheel", 2)],
        ),
        ("pyproject.toml", '[project]\ndependencies = [\n  "torch",\n  "triton>=2; sys_platform == \'linux\'",\n]\n', [("triton", 4)]),
        ("environment.yml", "dependencies:\n  - python=3.11\n  - pip:\n    - apex==0.1\n", [("apex", 4)]),
        ("setup.py", "setup(install_requires=['torch'], ext_modules=[cpp_extension.CUDAExtension('k', ['k.cu'])])", [("cuda_extension", 1)]),
        ("setup.cfg", "[options]\ninstall_requires =\n    deepspeed>=0.9\n", [("deepspeed", 3)]),
        ("notes.txt", "flash-attn\n", []),
    ],
)
def test_requirement_files(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text)
    assert [(one.code, one.line) for one in dependencies.scan(tmp_path).found] == expected


def test_requirements_in_setup_py_are_read(tmp_path):
    (tmp_path / "setup.py").write_text("setup(\n    install_requires=[\n        'torch',\n        'flash-attn>=2',\n    ],\n)\n")
    assert [(one.code, one.line) for one in dependencies.scan(tmp_path).found] == [("flash-attn", 4)]


def test_cuda_sources_and_notebooks(tmp_path):
    (tmp_path / "kernel.cu").write_text("__global__ void k() {}")
    cells = [{"cell_type": "markdown", "source": ["import apex"]}, {"cell_type": "code", "source": ["%pip install x\n", "import apex\n"]}]
    (tmp_path / "try.ipynb").write_text(json.dumps({"cells": cells}))
    assert [(one.code, one.file, one.line) for one in dependencies.scan(tmp_path).found] == [
        ("cuda_extension", "kernel.cu", 1),
        ("apex", "try.ipynb, code cell 1", 2),
    ]


def test_broken_files_are_named_and_do_not_stop_the_scan(tmp_path):
    (tmp_path / "a_syntax.py").write_text("def broken(:\n")
    (tmp_path / "b_zero.py").write_bytes(b"x = 1\x00\n")
    (tmp_path / "c_latin.py").write_bytes("name = 'é'\n".encode("latin-1"))
    (tmp_path / "d_deep.py").write_text("x = " + "(" * 5000 + ")" * 5000)
    (tmp_path / "e_chain.py").write_text("x = " + "+".join(["1"] * 20000))
    (tmp_path / "f_large.py").write_text("x = 1\n" * 400_000)
    (tmp_path / "g_notebook.ipynb").write_text("{")
    (tmp_path / "h_escape.py").write_text("pattern = '\\d'\n")
    (tmp_path / "i_link.py").symlink_to(tmp_path / "missing.py")
    (tmp_path / "z_good.py").write_text("import apex\n")
    scan = dependencies.scan(tmp_path)
    assert [(one.code, one.file) for one in scan.found] == [("apex", "z_good.py")]
    assert {one.file for one in scan.skipped} >= {"a_syntax.py", "b_zero.py", "c_latin.py", "d_deep.py", "f_large.py", "g_notebook.ipynb"}
    assert all(one.why for one in scan.skipped)


def test_folders_that_are_not_the_source_are_left_out(tmp_path):
    for folder in (".git", ".venv", "env2", "build", "node_modules", "model", "package.egg-info"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "code.py").write_text("import apex\n")
    (tmp_path / "env2" / "pyvenv.cfg").write_text("home = /usr\n")
    (tmp_path / "model" / "loop").symlink_to(tmp_path)
    assert [one.file for one in dependencies.scan(tmp_path).found] == ["model/code.py"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_named(tmp_path):
    (tmp_path / "secret.py").write_text("import apex\n")
    (tmp_path / "secret.py").chmod(0)
    assert [one.file for one in dependencies.scan(tmp_path).skipped] == ["secret.py"]


def test_one_file_and_none(tmp_path):
    (tmp_path / "one.py").write_text("import apex\n")
    assert [one.file for one in dependencies.scan(tmp_path / "one.py").found] == ["one.py"]
    with pytest.raises(BadInput, match="no source tree"):
        dependencies.scan(tmp_path / "none")


def test_every_replacement_is_complete():
    for code, known in {**dependencies.PACKAGES, **dependencies.CALLS}.items():
        assert known.because and known.xla and known.native and known.severity in ("blocker", "warning", "note"), code
