"""Starts the attnd executable on a free port of 127.0.0.1 and stops it again. Shared by the tests that are written in Python."""
import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time

START_SECONDS = 60
STOP_SECONDS = 60


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers}

    @property
    def media_type(self):
        return self.headers.get("content-type", "").split(";")[0].strip().lower()


class Attnd:
    """`with Attnd(binary) as server:` runs it until the block ends; leaving the block without an error demands exit code 0.

    The port is free because the system chose it (--listen 127.0.0.1:0); it is read from the log line `listening`. Whatever ATTND_*
    variables the caller has are not passed on.
    """

    def __init__(self, binary, arguments=(), environment=None):
        own = {name: value for name, value in os.environ.items() if not name.startswith("ATTND_")}
        own.update({"ATTND_SERVER_DRAIN_DELAY_S": "0", **(environment or {})})
        self.log, self.address = [], None
        self._listening = threading.Event()
        self.process = subprocess.Popen([binary, "--listen", "127.0.0.1:0", *arguments], env=own, stdin=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))
            if self.address is None and '"listening"' in line:
                found = re.search(r'"(127\.0\.0\.1:[0-9]+)"', line)
                if found:
                    self.address = found.group(1)
                    self._listening.set()
        self._listening.set()

    def __enter__(self):
        self._listening.wait(START_SECONDS)
        if self.address is None:
            self.process.kill()
            raise SystemExit("attnd did not say that it listens:\n" + "\n".join(self.log))
        until = time.monotonic() + START_SECONDS
        while self.request("GET", "/readyz").status != 200:
            if time.monotonic() > until:
                self.process.kill()
                raise SystemExit("attnd was not ready in time:\n" + "\n".join(self.log))
            time.sleep(0.05)
        return self

    def __exit__(self, kind, error, trace):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(5)
        if kind is not None or self.process.returncode != 0:
            print("the end of attnd's log:\n" + "\n".join(self.log[-30:]))
        if kind is None and self.process.returncode != 0:
            raise SystemExit("attnd ended with exit code %d; expected 0" % self.process.returncode)

    @property
    def base(self):
        return "http://" + self.address

    def request(self, method, path, body=None, headers=None):
        host, port = self.address.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return Reply(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def post(self, path, document):
        return self.request("POST", path, json.dumps(document), {"Content-Type": "application/json"})
