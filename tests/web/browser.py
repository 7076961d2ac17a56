"""A real browser without a window, driven over its own protocol: Debian's Chromium, or whichever is installed."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """A page of a browser; remembers what it has asked for and what it has complained about."""

    def __init__(self, profile: Path, width: int = 1280, height: int = 860) -> None:
        program = find_browser()
        assert program is not None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-port=0",
        ]
        quiet = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]
        command = [
            program,
            *flags,
            *quiet,
            f"--window-size={width},{height}",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._open = ExitStack()
        self._socket = self._open.enter_context(connect(self._address(profile), max_size=None, compression=None))
        self._sent = 0
        self._loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    @staticmethod
    def _address(profile: Path) -> str:
        port = profile / "DevToolsActivePort"
        for _ in range(1200):
            if port.exists() and len(lines := port.read_text().splitlines()) == 2:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            time.sleep(0.1)
        raise AssertionError("the browser did not start")

    _session: str | None = None

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._sent += 1
        message: dict[str, Any] = {"id": self._sent, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(timeout=120))
            if answer.get("id") == self._sent:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer.get("method", ""), answer.get("params", {}))

    def _note(self, event: str, about: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(about["entry"]["text"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(str(about["exceptionDetails"]))

    def resize(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def dark(self, on: bool = True) -> None:
        value = "dark" if on else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def open(self, address: str) -> None:
        self._loaded = False
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, script: str) -> Any:
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, condition: str) -> None:
        for _ in range(2400):
            with suppress(AssertionError):  # while it goes to another page there is nothing to ask
                if self.evaluate(condition):
                    return
            time.sleep(0.05)
        raise AssertionError(f"never true: {condition}")

    def click(self, selector: str) -> None:
        """Follow a link and wait for its page."""
        self.evaluate("window.left = true")
        event = "new MouseEvent('click', {bubbles: true, cancelable: true, view: window})"
        self.evaluate(f"document.querySelector({json.dumps(selector)}).dispatchEvent({event})")
        self.wait("!window.left && document.readyState === 'complete'")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 and kind == "keyDown" else ""
            )

    def screenshot(self, path: Path, *, height: int | None = None) -> None:
        if height is not None:
            self.resize(1280, height)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        self._session = None
        self.call("Browser.close")
        self._open.close()
        self._process.wait(timeout=120)
