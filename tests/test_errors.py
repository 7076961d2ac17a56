import pickle

import pytest

from skerry import errors


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name.endswith("Error")])
def test_every_error_survives_pickling_with_its_context(name):
    error = getattr(errors, name)("bad magic", location="a.puffin", offset=4, rule="Puffin: File structure")
    error.extra = 7
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == "bad magic (in a.puffin at byte 4) [Puffin: File structure]"
    assert again.extra == 7


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name.endswith("Error")])
def test_every_error_is_a_skerry_error_and_every_field_has_a_default(name):
    cls = getattr(errors, name)
    assert issubclass(cls, errors.SkerryError)
    assert str(cls()) == ""


@pytest.mark.parametrize(
    ("name", "names", "expected"),
    [
        ("dely", ["delay", "day", "tailnum"], "delay"),
        ("TAILNUM", ["delay", "tailnum"], "tailnum"),
        ("zzz", ["delay", "tailnum"], None),
        ("x", [], None),
    ],
)
def test_the_nearest_name_is_proposed_and_nothing_far_off(name, names, expected):
    assert errors.nearest(name, names) == expected
