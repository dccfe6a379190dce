"""A headless Chromium, driven over its DevTools port with nothing but the standard library."""
import base64
import json
import os
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request


class Browser:
    def __init__(self, program, width=1280, height=1000):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--remote-debugging-port=0", "--remote-allow-origins=*",
             f"--window-size={width},{height}", "--force-device-scale-factor=1", f"--user-data-dir={self.folder.name}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.number = 0
        self.errors = []
        self.socket = self.connect()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def connect(self, limit=60):
        port_file, deadline = os.path.join(self.folder.name, "DevToolsActivePort"), time.time() + limit
        while time.time() < deadline:
            try:
                with open(port_file, encoding="ascii") as file:
                    port = int(file.readline())
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=5) as answer:
                    pages = [page for page in json.load(answer) if page["type"] == "page"]
                address = pages[0]["webSocketDebuggerUrl"]
                break
            except (OSError, ValueError, IndexError):
                time.sleep(0.1)
        else:
            raise RuntimeError("Chromium has not opened its DevTools port")
        path = "/" + address.split("/", 3)[3]
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1)
        return connection

    def exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise RuntimeError("Chromium is gone")
            data += part
        return data

    def receive(self):
        message, last = b"", False
        while not last:
            first, second = self.exactly(2)
            last, length = bool(first & 0x80), second & 0x7F
            if length == 126:
                length = struct.unpack(">H", self.exactly(2))[0]
            elif length == 127:
                length = struct.unpack(">Q", self.exactly(8))[0]
            message += self.exactly(length)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        data = json.dumps({"id": self.number, "method": method, "params": parameters}).encode()
        mask = os.urandom(4)
        size = struct.pack(">BBH", 0x81, 0xFE, len(data)) if 125 < len(data) < 65536 else struct.pack(">BB", 0x81, 0x80 | len(data))
        self.socket.sendall(size + mask + bytes(b ^ mask[k % 4] for k, b in enumerate(data)))
        while True:
            message = self.receive()
            if message.get("method") == "Runtime.exceptionThrown":
                self.errors.append(message["params"]["exceptionDetails"])
            if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.errors.append(message["params"]["entry"])
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(str(message["error"]))
                return message["result"]

    def open(self, address):
        self.call("Page.navigate", url=address)

    def js(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def wait(self, expression, limit=60):
        deadline = time.time() + limit
        while not self.js(expression):
            if time.time() > deadline:
                raise AssertionError(f"not within {limit} s: {expression}; the page says: {self.js('document.body.innerText')[:2000]}")
            time.sleep(0.1)

    def screenshot(self, file):
        data = self.call("Page.captureScreenshot", format="png")
        with open(file, "wb") as out:
            out.write(base64.b64decode(data["data"]))

    def close(self):
        self.socket.close()
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()
