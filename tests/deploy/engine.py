"""A container engine for the tests: Docker where there is one, else the one that a command starts.

The command is named by HERDLESS_TEST_ENGINE. It has a private Docker engine and no registry: the images of Python and
Prometheus are stand-ins, made of what is installed on this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
LIMIT_S = 300.0

# Read when the module is imported: the tests themselves do not see variables of that name.
COMMAND = os.environ.get("HERDLESS_TEST_ENGINE", "")

# Parts of the C library that wheels ask for by their old names, and that the stand-in for Python's image lacks.
C_LIBRARY = ("librt.so.1", "libpthread.so.0", "libdl.so.2", "libutil.so.1", "libanl.so.1")
STAND_IN = "herdless-test-python"
STAND_IN_DOCKERFILE = """
FROM {base}
COPY *.so.* /usr/lib/x86_64-linux-gnu/
RUN python3 -c "import compileall, sysconfig; compileall.compile_dir(sysconfig.get_path('stdlib'), quiet=2, workers=0)"
"""


def why_none() -> str | None:
    """Why there is no engine; `None`: there is one."""
    if _docker_answers() or COMMAND:
        return None
    return "no container engine: no Docker answers here, and HERDLESS_TEST_ENGINE names no command that starts one"


@contextmanager
def engine() -> Iterator[dict[str, str]]:
    """The environment in which docker commands work and our image can be built.

    Docker that is there is used as it is, with its registry. The engine that the command starts is ended again.
    """
    if _docker_answers():
        yield dict(os.environ)
        return
    command = shutil.which(COMMAND) or str(ROOT / COMMAND)
    said = run([command, "up"], os.environ)
    exported = dict(word.split("=", 1) for word in said.split() if "=" in word)
    env = {**os.environ, **exported, "PYTHON_IMAGE": STAND_IN}
    try:
        _make_stand_ins(command, env)
        yield env
    finally:
        run([command, "down"], env)


def _docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "version"], capture_output=True, check=False, timeout=LIMIT_S).returncode == 0


def _make_stand_ins(command: str, env: Mapping[str, str]) -> None:
    services = compose_file()["services"]
    base = "herdless-test-base"
    run([command, "base", base], env)
    with TemporaryDirectory() as folder:
        for name in C_LIBRARY:
            shutil.copy(f"/lib/x86_64-linux-gnu/{name}", folder)
        (Path(folder) / "Dockerfile").write_text(STAND_IN_DOCKERFILE.format(base=base), encoding="utf-8")
        run(["docker", "build", "--quiet", "--tag", STAND_IN, folder], env)
    run([command, "prometheus", services["prometheus"]["image"], base], env)
    _make_wheels()


def _make_wheels() -> None:
    """Download what the image is made of, with the index that this machine's pip knows: containers may know none."""
    wheels = ROOT / "build" / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    pins = ROOT / "build" / "pins.txt"
    lines = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
    pins.write_text("".join(line.rstrip(" \\") + "\n" for line in lines if "--hash=" not in line), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", str(wheels)]
    run([*pip, "--require-hashes", "--requirement", str(ROOT / "requirements.txt")], os.environ)
    run([*pip, "--constraint", str(pins), "hatchling"], os.environ)


def run(command: Sequence[str], env: Mapping[str, str], *, check: bool = True, limit_s: float = LIMIT_S) -> str:
    """Run a command and return what it prints; a failure says what was printed."""
    ran = subprocess.run(
        list(command), env=dict(env), cwd=ROOT, capture_output=True, text=True, check=False, timeout=limit_s
    )
    if check and ran.returncode != 0:
        raise RuntimeError(
            f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stdout[-4000:]}{ran.stderr[-4000:]}"
        )
    return ran.stdout


def compose_file() -> dict[str, Any]:
    """The compose file, as it is written."""
    with (ROOT / "docker-compose.yml").open(encoding="utf-8") as file:
        return dict(yaml.safe_load(file))
