"""Builds the wheel and the source distribution, and tries both in fresh environments: `make release`.

For each supported Python that is found, the wheel is installed as a user would, from the package index, with the
versions of the lock; the newest one also gets what the source distribution makes, by pip, as the README says.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TRIAL = ROOT / "tests/release/trial.py"


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the source distribution, in a folder."""
    program = (
        "import sys; from hatchling import build as b; print(b.build_wheel(sys.argv[1]), b.build_sdist(sys.argv[1]))"
    )
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", program, str(folder.absolute())]
    built = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()[-2:]
    wheel, source = (folder.absolute() / name for name in built)
    return wheel, source


def interpreter(version: str) -> str | None:
    """A Python of a version: on the path, or one of pyenv's."""
    if found := shutil.which(f"python{version}", path=f"{os.environ['PATH']}:/usr/bin"):
        works = subprocess.run([found, "-c", "import venv"], capture_output=True, check=False)
        if works.returncode == 0:
            return found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return next((str(path) for path in sorted(pyenv.glob(f"versions/{version}.*/bin/python"))), None)


def try_in_fresh_environment(python: str, package: Path, folder: Path) -> str:
    """What the trial prints in an environment that has the package and what it requires, and nothing else."""
    environment = folder / "env"
    with_pip = ["--seed"] if package.suffix == ".gz" else []
    subprocess.run([UV, "venv", "--quiet", "--clear", *with_pip, "--python", python, environment], check=True)
    inside = environment / "bin/python"
    versions = folder / "versions.txt"
    versions.write_text(re.sub(r" \\\n|    --hash=\S+( \\)?\n", "\n", (ROOT / "requirements.lock").read_text()))
    installer = [inside, "-m", "pip", "install"] if with_pip else [UV, "pip", "install", "--python", inside]
    subprocess.run([*installer, "--quiet", "--constraint", versions, f"{package}[web]"], check=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SKERRY"))}
    clean |= {"SKERRY_CACHE_DIR": str(folder / "cache"), "PATH": f"{environment / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run([inside, TRIAL], cwd=folder, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{package.name} with {python}:\n{done.stderr[-3000:]}")
    return done.stdout.strip()


def main() -> None:
    wheel, source = build(Path(sys.argv[1]))
    found = {version: python for version in PYTHONS if (python := interpreter(version))}
    for version in PYTHONS:
        if version not in found:
            print(f"{version}: not on this machine")
            continue
        packages = [wheel, source] if version == max(found, key=PYTHONS.index) else [wheel]
        for package in packages:
            with tempfile.TemporaryDirectory() as folder:
                print(f"{version}: {package.name}: {try_in_fresh_environment(found[version], package, Path(folder))}")


if __name__ == "__main__":
    main()
