"""Every error is one line: what, the value, what is allowed, what to type next."""

import inspect
import pickle

import pytest
from neuronfit import errors
from neuronfit.errors import BadInput, BadParams, CheckFailed, NeuronFitError, WaitingForEvidence, nearest

ALL = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, Exception)]


def test_the_four_parts_in_order():
    error = BadParams("traffic.mean_per_s", -1, allowed="above 0", next="write a rate")
    assert str(error) == "traffic.mean_per_s: -1 | allowed: above 0 | next: write a rate"
    assert (error.what, error.value, error.allowed, error.next) == ("traffic.mean_per_s", -1, "above 0", "write a rate")


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("value", ["two\nlines", "tab\tand\r\nreturn", ["x"] * 500, "y" * 5000, None, {"a": "b\nc"}])
def test_one_line_of_bounded_length_whatever_the_value(cls, value):
    text = str(cls("what\nis wrong", value, allowed="this\nor that", next="do\nthat"))
    assert len(text.splitlines()) == 1 and "\t" not in text
    assert len(text) < 250


def test_none_is_a_value_and_no_value_is_none():
    assert str(BadInput("count", None)) == "count: None"
    assert str(BadInput("nothing given")) == "nothing given"


def test_exit_statuses_are_those_of_the_command_line():
    """DESIGN section 8: 1 a check failed, 2 bad input, 3 waiting for evidence."""
    statuses = {cls.__name__: cls.exit_status for cls in ALL}
    assert statuses.pop("CheckFailed") == 1 and statuses.pop("WaitingForEvidence") == 3
    assert set(statuses.values()) == {2}
    assert not issubclass(CheckFailed, BadInput) and not issubclass(WaitingForEvidence, BadInput)
    assert issubclass(BadParams, BadInput) and all(issubclass(cls, NeuronFitError) for cls in ALL)


def test_the_tree_in_the_docstring_is_the_tree():
    """Each class is in the picture, one step deeper than its parent."""
    depth = {}
    for line in errors.__doc__.splitlines():
        for cls in ALL:
            if cls.__name__ in line.split():
                depth[cls] = line.index(cls.__name__)
    assert set(depth) == set(ALL)
    assert all(depth[cls] - depth[cls.__base__] == 4 for cls in ALL if cls.__base__ in depth)


def test_a_notebook_shows_the_line_and_no_traceback():
    assert BadParams("x", 1)._render_traceback_() == ["BadParams: x: 1"]


def test_an_error_survives_pickling():
    """Parallel tools send errors between processes."""
    assert str(pickle.loads(pickle.dumps(BadInput("x", 1, allowed="2")))) == "x: 1 | allowed: 2"


@pytest.mark.parametrize("typed, first", [("g6.xlrge", "g6.xlarge"), ("G5.XLARGE", "g5.xlarge"), ("trn1.2xlage", "trn1.2xlarge"), ("zzzzzz", None)])
def test_nearest_ignores_case_and_gives_up(typed, first):
    found = nearest(typed, ["trn1.2xlarge", "g5.xlarge", "g6.xlarge"])
    assert (found[0] if found else None) == first
    assert len(nearest("a", ["a1", "a2", "a3", "a4"])) <= 3
