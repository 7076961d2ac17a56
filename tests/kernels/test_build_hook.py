"""The hook that puts bitcode into the wheel finds numba where an isolated build has it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_build_sees_the_packages_that_pip_has_put_on_the_path(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    hatch_build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hatch_build)
    (tmp_path / "of_the_build.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = subprocess.run
    started = []

    def find(command, **options):
        started.append(command)
        program = "import of_the_build, skerry; print(of_the_build.__file__, skerry.__file__)"
        found = run([sys.executable, "-c", program], **options, capture_output=True, text=True)
        assert found.stdout.split() == [str(tmp_path / "of_the_build.py"), str(ROOT / "src/skerry/__init__.py")]

    monkeypatch.setattr(subprocess, "run", find)
    hook = hatch_build.KernelBitcode(str(ROOT), {}, None, None, str(tmp_path), "wheel")
    hook.initialize("standard", {"force_include": {}})
    hook.finalize("standard", {}, "")
    assert len(started) == 1
