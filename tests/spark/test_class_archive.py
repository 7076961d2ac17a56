"""The archive of Spark's classes only saves time: where it cannot be written, tests run without it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import java_options

SCRIPT = Path(__file__).parent / "peers" / "class_archive.py"


def test_without_an_archive_there_is_a_warning_and_no_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("class_archive", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    archive = tmp_path / "spark-9.9.jsa"

    def fail(*args: Any, **_: Any) -> Any:
        archive.write_bytes(b"half of it")
        return subprocess.CompletedProcess(args, 1, "", "no space left on device")

    monkeypatch.setattr(subprocess, "run", fail)
    monkeypatch.setattr(script, "find_java", lambda _: None)
    monkeypatch.setattr(script, "java_home", lambda _: tmp_path)
    monkeypatch.setattr(sys, "argv", ["class_archive.py", str(archive)])
    script.main()
    assert capsys.readouterr().err.endswith("start slower:\nno space left on device\n")
    monkeypatch.setattr(java_options, "ARCHIVES", tmp_path)
    assert java_options.quick_java("9.9.1") == java_options.COMPILER
    archive.write_bytes(b"all of it")
    assert str(archive) in java_options.quick_java("9.9.1")
