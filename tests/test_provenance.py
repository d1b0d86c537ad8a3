"""Grades and quantities: nothing without a pedigree, and a chain is as strong as its weakest link."""

import math

import pytest
from neuronfit.provenance import Estimated, Grade, Imported, Measured, Published, Quantity, absent, weakest
from pydantic import ValidationError


def test_grades_from_the_strongest_to_the_weakest():
    """The order of DESIGN section 6."""
    assert [grade.value for grade in sorted(Grade, key=lambda grade: grade.rank)] == ["measured", "imported", "published", "estimated"]
    assert "".join(grade.letter for grade in Grade) == "MIPE"
    assert str(Grade.PUBLISHED) == "published"


@pytest.mark.parametrize("one", Grade)
@pytest.mark.parametrize("other", Grade)
def test_the_weakest_link_decides_whatever_the_order(one, other):
    expected = max(one, other, key=["measured", "imported", "published", "estimated"].index)
    assert weakest(one, other) is weakest(other, one) is expected


def test_sources_quantities_and_gaps_mix():
    price = Quantity(value=0.7582, unit="USD/h", grade=Grade.PUBLISHED)
    measured = Measured(host="bench", clock="time.perf_counter")
    assert weakest(measured, price, None, absent("s", "not taken")) is Grade.PUBLISHED
    assert weakest(measured, Imported(file="a.json", sha256="0"), None) is Grade.IMPORTED
    assert weakest(Published(title="t", date="2025"), Estimated(formula="f")) is Grade.ESTIMATED


@pytest.mark.parametrize("parts", [(), (None,), (absent("s", "not taken"), None)])
def test_a_conclusion_from_nothing_has_no_grade(parts):
    with pytest.raises(ValueError, match="no graded number"):
        weakest(*parts)


@pytest.mark.parametrize(
    "wrong, why",
    [
        (dict(unit="s"), "needs a reason"),
        (dict(unit="s", why="x", grade="measured"), "neither grade nor interval"),
        (dict(unit="s", why="x", low=1.0, high=2.0), "neither grade nor interval"),
        (dict(value=1.0, unit="s"), "has no grade"),
        (dict(value=1.0, unit="s", grade="measured", low=0.5), "two ends"),
        (dict(value=1.0, unit="s", grade="measured", low=1.1, high=2.0), "outside its interval"),
        (dict(value=1.0, unit="s", grade="measured", low=2.0, high=0.5), "outside its interval"),
        (dict(value=math.nan, unit="s", grade="measured"), "finite"),
        (dict(value=math.inf, unit="s", grade="measured"), "finite"),
        (dict(value=1.0, unit="s", grade="measured", low=0.0, high=math.inf), "finite"),
        (dict(value=1.0, unit="s", grade="guessed"), "grade"),
        (dict(value=1.0, unit="s", grade="measured", confidence=95), "less than 1"),
        (dict(value=1.0, unit="s", grade="measured", conf=0.95), "conf"),
    ],
)
def test_a_number_without_its_pedigree_is_refused(wrong, why):
    with pytest.raises(ValidationError, match=why):
        Quantity(**wrong)


def test_zero_is_a_number_and_absence_is_not():
    zero = Quantity(value=0.0, unit="USD", grade=Grade.ESTIMATED)
    gone = absent("USD", "no price")
    assert zero.known and zero.value == 0.0
    assert not gone.known and gone.value is None and gone.grade is None and gone.why == "no price"


def test_a_quantity_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        Quantity(value=1.0, unit="s", grade=Grade.MEASURED).value = 2.0
