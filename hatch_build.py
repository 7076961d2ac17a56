"""The build hook: puts bitcode of the kernels into the wheel, so that users need not wait for numba."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelBitcode(BuildHookInterface):
    """Compiles the kernels to bitcode in a temporary folder that becomes `skerry/kernels/bitcode`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, unless the package is only linked to: then the kernels' source changes."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        program = "import sys; from skerry.kernels.building import build; build(sys.argv[1])"
        # The path of an isolated build comes first: it is how pip shows the build's requirements to processes.
        path = [os.environ.get("PYTHONPATH"), str(Path(self.root) / "src")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
        subprocess.run([sys.executable, "-c", program, self._folder.name], env=environment, check=True)
        build_data["force_include"][self._folder.name] = "skerry/kernels/bitcode"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the folder."""
        if version != "editable":
            self._folder.cleanup()
