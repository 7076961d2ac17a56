"""Key management: key files, classes by their names, and what they may say."""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys

import pytest

import skerry
from skerry.encryption import KeyFile, KeyManagement, find_key_management, unwrap_key
from skerry.errors import FormatError, NotFoundError, SchemaError, SkerryError, StorageError

SECRET = b"0123456789abcdef"
TEXT = base64.b64encode(SECRET).decode()


@pytest.fixture
def write(tmp_path):
    def write(content, mode=0o600):
        path = tmp_path / "keys.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        path.chmod(mode)
        return path

    return write


class Nothing(KeyManagement):
    def wrap_key(self, key, key_id):
        return key

    def unwrap_key(self, wrapped, key_id):
        return wrapped


class Loud(Nothing):
    def __init__(self):
        raise ValueError(TEXT)


def test_a_key_file_both_ways(write):
    keys = KeyFile(write({"a": TEXT, "b": base64.b64encode(b"k" * 32).decode()}))
    for key_id in ("a", "b"):
        wrapped = keys.wrap_key(b"x" * 16, key_id)
        assert len(wrapped) == 16 + 28
        assert unwrap_key(keys, wrapped, key_id) == b"x" * 16
    with pytest.raises(FormatError, match="another key"):
        keys.unwrap_key(wrapped, "a")
    with pytest.raises(NotFoundError, match="no key 'c'"):
        keys.wrap_key(b"", "c")
    assert TEXT not in repr(keys)
    assert SECRET not in pickle.dumps(keys)
    assert TEXT.encode() not in pickle.dumps(keys)
    assert pickle.loads(pickle.dumps(keys)).unwrap_key(wrapped, "b") == b"x" * 16


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777])
def test_a_key_file_that_others_may_use(write, mode):
    with pytest.raises(SkerryError, match="chmod 600"):
        KeyFile(write({"a": TEXT}, mode))


BAD = {
    "no JSON": TEXT,
    "a list": [TEXT],
    "no text": {"a": 5},
    "no Base64": {"a": TEXT + "!"},
    "a short key": {"a": TEXT[:8]},
    "nothing": "",
}


@pytest.mark.parametrize("case", BAD)
def test_a_key_file_that_is_none(write, case):
    with pytest.raises(FormatError) as caught:
        KeyFile(write(BAD[case]))
    assert TEXT[:8] not in str(caught.value)


def test_a_key_file_that_is_missing(tmp_path):
    with pytest.raises(SkerryError, match="cannot be read"):
        KeyFile(tmp_path / "none")


def test_what_names_a_key_management(write):
    given = Nothing()
    assert find_key_management(given) is given
    assert find_key_management(None) is None
    assert isinstance(find_key_management(f"{__name__}:Nothing"), Nothing)
    properties = {"encryption.key-management": "skerry.encryption:KeyFile"}
    with pytest.raises(SchemaError, match=r"encryption\.key-file is missing"):
        find_key_management(None, properties)
    found = find_key_management(None, {**properties, "encryption.key-file": str(write({"a": TEXT}))})
    assert isinstance(found, KeyFile)
    for name in (
        "nowhere:Class",
        f"{__name__}:Missing",
        "",
        ":",
        "skerry.encryption:",
        "json:loads",
        f"{__name__}:BAD",
    ):
        with pytest.raises(SchemaError, match="key_management"):
            find_key_management(name)
    with pytest.raises(SchemaError, match="found int"):
        find_key_management(5)
    with pytest.raises(StorageError, match="cannot be opened: ValueError") as caught:
        find_key_management(f"{__name__}:Loud")
    assert TEXT not in str(caught.value)


def test_connect_refuses_what_is_none(tmp_path):
    with pytest.raises(SchemaError, match="key_management must be"):
        skerry.connect(tmp_path, key_management=5)
    with pytest.raises(SchemaError, match="cannot be loaded"):
        skerry.open_table(tmp_path / "metadata" / "v1.metadata.json", key_management="nowhere:Class")


@pytest.mark.parametrize("key", [b"", b"short", None, "0123456789abcdef"])
def test_what_is_unwrapped_has_to_be_a_key(key):
    with pytest.raises(FormatError, match="is not a key of AES"):
        unwrap_key(Nothing(), key, "k")


def test_the_library_of_ciphers_is_loaded_with_the_first_key():
    code = "import skerry, sys; skerry.connect, skerry.open_table; print('cryptography' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
