import pickle

import pytest

from skerry import errors


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_survives_pickling_with_its_context(name):
    error = getattr(errors, name)("bad magic", location="a.puffin", offset=4, rule="Puffin spec, File structure")
    error.extra = 7
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == "bad magic (in a.puffin at byte 4) [Puffin spec, File structure]"
    assert again.extra == 7


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_a_skerry_error_and_every_field_has_a_default(name):
    cls = getattr(errors, name)
    assert issubclass(cls, errors.SkerryError)
    assert str(cls()) == ""


def test_an_error_of_another_class_is_helped_like_its_base():
    class Lost(errors.ConflictError):
        """An error that the catalogue does not list."""

    assert Lost("x").help == "docs/errors.md#conflicterror"
