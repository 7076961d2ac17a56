"""Locations taken apart and put together, and the question of what lies below what."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import SkerryError, UnsupportedError
from skerry.storage import absolute, file_key, file_keys, is_within, join, name, parent, redact
from skerry.storage.location import Family, parse_location

PARSED = [
    ("/a/b", Family.LOCAL, "", "/a/b"),
    ("/", Family.LOCAL, "", "/"),
    ("/with space/50%20#?ü", Family.LOCAL, "", "/with space/50%20#?ü"),
    ("file:///a/b", Family.LOCAL, "", "/a/b"),
    ("file:///a%20b#c?d", Family.LOCAL, "", "/a%20b#c?d"),
    ("file:/a/b", Family.LOCAL, "", "/a/b"),
    ("file://localhost/a", Family.LOCAL, "", "/a"),
    ("FILE:///a", Family.LOCAL, "", "/a"),
    ("memory://m/a/b", Family.MEMORY, "m", "a/b"),
    ("memory:///a", Family.MEMORY, "", "a"),
    ("s3://bucket/key with space/%41?x#y", Family.S3, "bucket", "key with space/%41?x#y"),
    ("s3a://bucket/key", Family.S3, "bucket", "key"),
    ("s3n://bucket", Family.S3, "bucket", ""),
    ("gs://bucket/a", Family.GCS, "bucket", "a"),
    ("abfss://data@lake.dfs.core.windows.net/a/b", Family.AZURE, "data@lake.dfs.core.windows.net", "a/b"),
    ("az://data/a", Family.AZURE, "data", "a"),
    ("wasb://data@lake.blob.core.windows.net/a", Family.AZURE, "data@lake.blob.core.windows.net", "a"),
]


@pytest.mark.parametrize(("text", "family", "authority", "path"), PARSED, ids=[case[0] for case in PARSED])
def test_parts(text, family, authority, path):
    found = parse_location(text)
    assert (found.text, found.family, found.authority, found.path) == (text, family, authority, path)


def test_a_relative_path_is_taken_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse_location("a/b").path == os.path.join(os.getcwd(), "a/b")
    assert parse_location(tmp_path / "x").path == str(tmp_path / "x")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", SkerryError, "the location is empty"),
        ("ftp://host/a", UnsupportedError, "scheme 'ftp' is not supported"),
        ("https://user:secret@host/a?token=secret", UnsupportedError, "scheme 'https' is not supported"),
        ("file://server/share", UnsupportedError, "names the host 'server'"),
        ("s3:///key", SkerryError, "names no bucket"),
        ("gs://", SkerryError, "names no bucket"),
        ("s3://id:secret@bucket/key", SkerryError, "must not contain credentials"),
    ],
)
def test_bad_location(text, error, message):
    with pytest.raises(error, match=message) as caught:
        parse_location(text)
    assert "secret" not in str(caught.value)


JOINED = [
    ("/a", ("b", "c"), "/a/b/c", "/a/b", "c"),
    ("/a/", ("/b/",), "/a/b", "/a", "b"),
    ("/", ("a",), "/a", "/", "a"),
    ("/a", ("", "b/c"), "/a/b/c", "/a/b", "c"),
    ("file:///", ("a",), "file:///a", "file:///", "a"),
    ("file:/a", ("b",), "file:/a/b", "file:/a", "b"),
    ("s3://bucket", ("a",), "s3://bucket/a", "s3://bucket/", "a"),
    ("s3://bucket/", ("a b", "c#d"), "s3://bucket/a b/c#d", "s3://bucket/a b", "c#d"),
    ("abfss://data@lake.dfs.core.windows.net/x", ("y",), "abfss://data@lake.dfs.core.windows.net/x/y", None, "y"),
    ("memory://m", ("...", "..x"), "memory://m/.../..x", "memory://m/...", "..x"),
    ("relative", ("a",), "relative/a", "relative", "a"),
]


@pytest.mark.parametrize(("base", "parts", "whole", "above", "last"), JOINED, ids=[case[2] for case in JOINED])
def test_join_parent_name(base, parts, whole, above, last):
    assert join(base, *parts) == whole
    assert parent(whole) == (above if above is not None else base)
    assert name(whole) == last == name(whole + "/")


@pytest.mark.parametrize(("root", "up"), [("/", "/"), ("s3://bucket", "s3://bucket/"), ("file:///", "file:///")])
def test_a_root_is_its_own_parent_and_has_no_name(root, up):
    assert parent(root) == up
    assert name(root) == ""
    assert join(root) == up


@pytest.mark.parametrize("part", ["..", ".", "a/../b", "a/.", "../a", "/../"])
def test_join_never_climbs(part):
    with pytest.raises(SkerryError, match=r"may not be '\.' or '\.\.'"):
        join("s3://bucket/table", part)


WITHIN = [
    ("/lake/t", "/lake/t/data/a.parquet", True),
    ("/lake/t/", "/lake/t/data", True),
    ("/lake/t", "file:/lake/t/a", True),
    ("file:///lake/t", "/lake//t/a", True),
    ("/", "/a", True),
    ("/lake/t", "/lake/t", False),
    ("/lake/t", "/lake/t/", False),
    ("/lake/t", "/lake/t2/a", False),
    ("/lake/t", "/lake/tx", False),
    ("/lake/t", "/lake", False),
    ("/lake/t", "/lake/t/../other/a", False),
    ("/lake/t", "/lake/t/x/../../t/a", False),
    ("/lake/t", "/lake/t/./a", False),
    ("/lake/t", "/lake/t/%2e%2e/a", True),
    ("/lake/t", "/lake/t/%2E./a", True),
    ("/lake/t", "/lake/t/p=a%2F..%2Fb/a", True),
    ("/lake/t", "/lake/t/..%2fa", True),
    ("/lake/t", "/lake/t/x\\..\\..\\a", True),
    ("/lake/t", "/lake/t/a%00b", True),
    ("/lake/t", "/lake/t/a\0b", False),
    ("/lake/../t", "/lake/../t/a", False),
    ("/lake/t", "/lake/t/a%20b#c", True),
    ("/lake/t", "/lake/t/...", True),
    ("/lake/t", "/lake/t/..a", True),
    ("s3://b/t", "s3://b/t/a", True),
    ("s3://b/t", "s3a://b/t/a", True),
    ("s3://b", "s3://b/a", True),
    ("s3://b/t", "s3://b/t//a", True),
    ("s3://b/t", "s3://b//t/a", False),
    ("s3://b/t", "s3://b/t/", False),
    ("s3://b/t", "s3://b/t//", False),
    ("s3://b/t", "s3://b/t2/a", False),
    ("s3://b/t", "s3://b2/t/a", False),
    ("s3://b/t", "s3://B/t/a", False),
    ("s3://b/t", "gs://b/t/a", False),
    ("s3://b/t", "/b/t/a", False),
    ("s3://b/t", "s3://b/t/../x", False),
    ("s3://b/t", "s3://b/t/%2e%2e/x", True),
    ("gs://b/t", "gcs://b/t/a", True),
    ("abfss://c@a.dfs.core.windows.net/t", "abfs://c@a.dfs.core.windows.net/t/x", True),
    ("abfss://c@a.dfs.core.windows.net/t", "wasbs://c@A.blob.core.windows.net/t/x", True),
    ("abfss://c@a.dfs.core.windows.net/t", "abfss://c@other.dfs.core.windows.net/t/x", False),
    ("abfss://c@a.dfs.core.windows.net/t", "abfss://c2@a.dfs.core.windows.net/t/x", False),
    ("abfss://c@a.dfs.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t/x\\..\\a", False),
    ("ftp://h/t", "ftp://h/t/a", False),
    ("/lake/t", "", False),
]


@pytest.mark.parametrize(("root", "location", "answer"), WITHIN)
def test_is_within(root, location, answer):
    assert is_within(root, location) is answer


SEGMENTS = st.text("ab.%2eE/\\\0 #", max_size=8)


@given(path=st.lists(SEGMENTS, max_size=5).map("/".join), base=st.sampled_from(["/lake/t/", "s3://b/t/"]))
def test_what_is_within_stays_within_when_the_path_is_resolved(path, base):
    location = base + path
    root = base.removeprefix("s3:/").rstrip("/")
    if is_within(base, location):
        resolved = os.path.normpath(location.removeprefix("s3:/"))
        assert resolved.startswith(root + "/")


@given(base=st.sampled_from(["/x", "s3://b", "s3://b/t/", "file:///x", "memory://m/"]), part=st.text(min_size=1))
def test_what_is_joined_has_that_name(base, part):
    if "/" in part or part in (".", ".."):
        return
    whole = join(base, part)
    assert name(whole) == part
    assert parent(whole).rstrip("/") == base.rstrip("/")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("/a/b?c", "/a/b?c"),
        ("file:///a?b@c", "file:///a?b@c"),
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        ("s3://KEY:SECRET@bucket/a", "s3://***@bucket/a"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("postgresql+psycopg://me:pw@host:5432/db?password=x", "postgresql+psycopg://***@host:5432/db?***"),
        ("https://token@host/path?sig=abc#frag", "https://***@host/path?***"),
        ("https://host?sig=abc", "https://host?***"),
        ("https://me:p@ss@host/x", "https://***@host/x"),
        ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
        ("abfss://data@lake.dfs.core.windows.net/a", "abfss://data@lake.dfs.core.windows.net/a"),
        ("abfss://data@lake.dfs.core.windows.net/a?sig=abc", "abfss://data@lake.dfs.core.windows.net/a?***"),
        ("not a url", "not a url"),
    ],
)
def test_redact(url, shown):
    assert redact(url) == shown


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:///a//b/c", "/a/b/c"),
        ("file:/a/x/../b/./c", "/a/b/c"),
        ("file://localhost/a/b", "file:/a/b"),
        ("s3://bucket/k/f", "s3a://bucket/k/f"),
        ("abfss://c@account.dfs.core.windows.net/f", "abfs://c@account.blob.core.windows.net/f"),
        ("hdfs://somewhere/f", "hdfs://somewhere/f"),
    ],
)
def test_one_file_has_one_key(one, other):
    assert file_key(one) == file_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/a/b", "/a/c"),
        ("s3://bucket/k//f", "s3://bucket/k/f"),
        ("s3://bucket/k/../f", "s3://bucket/f"),
        ("s3://one/f", "s3://two/f"),
        ("s3://one/f", "gs://one/f"),
        ("hdfs://somewhere/f", "hdfs://elsewhere/f"),
        ("", "/"),
    ],
)
def test_two_files_have_two_keys(one, other):
    assert file_key(one) != file_key(other)


def test_a_local_path_becomes_absolute_and_nothing_else_does(tmp_path, monkeypatch):
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "deep")
    monkeypatch.chdir(tmp_path)
    here = os.getcwd()
    assert absolute("f") == absolute("./f") == absolute("real/../f") == f"{here}/f"
    assert absolute("link/f") == f"{here}/link/f"
    assert absolute("link/../f") == f"{os.path.realpath(here)}/real/f"
    assert absolute(f"{here}/link/..") == f"{os.path.realpath(here)}/real"
    for location in ("", "/a//b", "file:///a/../b", "file:/a", "s3://b/./k", "memory:///../k"):
        assert absolute(location) == location


PIECES = [
    "file:",
    "s3:",
    "memory:",
    "abfs:",
    "s3a",
    ":",
    "/",
    "//",
    "localhost",
    "b",
    "C@h.dfs.x",
    "..",
    ".",
    "é",
    "%2E",
    "\\",
]


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=9).map("".join), max_size=12))
def test_keys_of_many_files_are_those_of_each(locations):
    assert list(file_keys(locations)) == [file_key(location) for location in locations]
