"""Chromium by its DevTools protocol, with nothing but Python's own library."""
import base64
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request


class Browser:
    """A headless Chromium with one page. Use as a context manager."""

    def __init__(self, program="chromium"):
        self.folder = tempfile.mkdtemp(prefix="report-browser-")
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run",
             f"--user-data-dir={self.folder}", "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = self._port()
        pages = [one for one in json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json")) if one["type"] == "page"]
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        path = pages[0]["webSocketDebuggerUrl"].split(f":{port}", 1)[1]
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.read = b""
        while b"\r\n\r\n" not in self.read:
            self.read += self.socket.recv(65536)
        self.read = self.read.split(b"\r\n\r\n", 1)[1]
        self.count = 0
        self.events = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _port(self):
        said = pathlib.Path(self.folder) / "DevToolsActivePort"
        for _ in range(200):
            if said.exists() and said.read_text().strip():
                return int(said.read_text().split()[0])
            time.sleep(0.1)
        raise RuntimeError("the browser did not start")

    def _bytes(self, count):
        while len(self.read) < count:
            more = self.socket.recv(1 << 20)
            if not more:
                raise EOFError("the browser went away")
            self.read += more
        taken, self.read = self.read[:count], self.read[count:]
        return taken

    def _message(self):
        text = b""
        while True:
            first, second = self._bytes(2)
            length = second & 127
            if length == 126:
                length = struct.unpack(">H", self._bytes(2))[0]
            elif length == 127:
                length = struct.unpack(">Q", self._bytes(8))[0]
            text += self._bytes(length)
            if first & 128:
                return json.loads(text)

    def ask(self, method, **parameters):
        self.count += 1
        text = json.dumps({"id": self.count, "method": method, "params": parameters}).encode()
        mask, length = os.urandom(4), len(text)
        size = bytes([0x80 | length]) if length < 126 else b"\xfe" + struct.pack(">H", length)
        self.socket.sendall(b"\x81" + size + mask + bytes(c ^ mask[i % 4] for i, c in enumerate(text)))
        while True:
            message = self._message()
            if message.get("id") == self.count:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def value(self, script):
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def view(self, width, height, theme, media="screen"):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.ask("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": theme}])

    def show(self, path, width=1440, height=900, theme="light", media="screen"):
        """Opens a file, and waits until it has drawn itself."""
        self.view(width, height, theme, media)
        self.ask("Page.navigate", url=pathlib.Path(path).absolute().as_uri())
        for _ in range(100):
            if self.value("document.readyState === 'complete' && !!document.querySelector('footer p')"):
                break
            time.sleep(0.05)
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def faults(self):
        """What went wrong on the pages so far."""
        return [one for one in self.events if one.get("method") == "Runtime.exceptionThrown"
                or (one.get("method") == "Runtime.consoleAPICalled" and one["params"]["type"] in ("error", "warning"))
                or (one.get("method") == "Log.entryAdded" and one["params"]["entry"]["level"] in ("error", "warning"))]

    def asked_for(self):
        return [one["params"]["request"]["url"] for one in self.events if one.get("method") == "Network.requestWillBeSent"]

    def screen(self, most=4000):
        """The whole page as PNG, down to so many pixels."""
        size = self.value("[innerWidth, document.documentElement.scrollHeight]")
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                        clip={"x": 0, "y": 0, "width": size[0], "height": min(size[1], most), "scale": 1})
        return base64.b64decode(shot["data"])
