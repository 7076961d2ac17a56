"""`skerry serve` as a process."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

SKERRY = "from skerry.cli import main; main()"


def ask(address: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=120) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.mark.parametrize("target", ["warehouse", "table"])
def test_it_prints_its_address_answers_and_ends_when_interrupted(warehouse, target):
    what = [str(warehouse)] if target == "warehouse" else ["shop.orders", "-w", str(warehouse)]
    command = [sys.executable, "-c", SKERRY, "serve", *what, "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")
            place, _, token = address.partition("token=")
            assert ask(place)[0] == 403
            status, body = ask(place.rstrip("?&"), Authorization=f"Bearer {token}")
            assert (status, b"shop.orders" in body) == (200, True)
        finally:
            process.send_signal(signal.SIGINT)
            errors = process.stderr.read()
        assert process.wait(timeout=120) == 0
        assert errors == ""


def test_a_port_that_is_taken_is_named(warehouse):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-c", SKERRY, "serve", str(warehouse), "--no-open", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: port {port} cannot be listened to")


def test_what_does_not_exist_is_named(tmp_path):
    command = [sys.executable, "-c", SKERRY, "serve", str(tmp_path / "nothing"), "--no-open"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert "nothing" in done.stderr
