"""Starts the attnd executable on a free port of 127.0.0.1 and stops it again. Shared by the tests that are written in Python."""
import http.client
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import threading
import time

START_SECONDS = 60
STOP_SECONDS = 60
# A machine may stand still for seconds at any moment. What needs luck, such as that it does not while a short deadline runs, is tried so
# often; what must be so whenever it stands still is demanded of each try.
TRIES = 30


def free_port():
    """A port of 127.0.0.1 that nobody has, below those that the system gives away: no other test gets it by chance before it is used."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first = int(file.read().split()[0])
    while True:
        port = random.SystemRandom().randrange(min(10000, first // 2), first)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.lines = headers
        self.headers = {name.lower(): value for name, value in headers}

    def all(self, name):
        """The values of every line of this name, as one."""
        return ", ".join(value for own, value in self.lines if own.lower() == name)

    @property
    def media_type(self):
        return self.headers.get("content-type", "").split(";")[0].strip().lower()


class Attnd:
    """`with Attnd(binary) as server:` runs it until the block ends; leaving the block without an error demands exit code 0.

    The port is free because the system chose it (--listen 127.0.0.1:0); it is read from the log line `listening`. Whatever ATTND_*
    variables the caller has are not passed on.
    """

    answer_seconds = 60  # that an answer is waited for

    def __init__(self, binary, arguments=(), environment=None, tls=None, limits=()):
        """`limits`: pairs of resource.RLIMIT_* and the most that the process may have, which it cannot raise."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("ATTND_")}
        own.update({"ATTND_SERVER_DRAIN_DELAY_S": "0", **(environment or {})})
        self.log, self.address, self.tls = [], None, tls
        self._listening = threading.Event()
        self.process = subprocess.Popen([binary, "--listen", "127.0.0.1:0", *arguments], env=own, stdin=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
                                        preexec_fn=(lambda: [resource.setrlimit(what, (most, most)) for what, most in limits]) if limits else None)
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
        self._reader.join(STOP_SECONDS)
        if kind is not None or self.process.returncode != 0:
            print("the end of attnd's log:\n" + "\n".join(self.log[-30:]))
        if kind is None and self.process.returncode != 0:
            raise SystemExit("attnd ended with exit code %d; expected 0" % self.process.returncode)

    @property
    def admin_address(self):
        """Where admin.listen is, which the log says last."""
        return json.loads(self.wait_for_log('"role":"admin"'))["address"]

    @property
    def base(self):
        return ("https://" if self.tls else "http://") + self.address

    def connect(self, address=None, tls=None):
        """A connection to `address`, or to the first that is listened on; `tls`: an ssl.SSLContext of its own."""
        host, port = (address or self.address).rsplit(":", 1)
        if tls or self.tls:
            return http.client.HTTPSConnection(host, int(port), timeout=self.answer_seconds, context=tls or self.tls)
        return http.client.HTTPConnection(host, int(port), timeout=self.answer_seconds)

    def request(self, method, path, body=None, headers=None, address=None, tls=None):
        connection = self.connect(address, tls)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return Reply(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def wait_for_log(self, text, beyond=0):
        """The first line behind the first `beyond` that holds `text`."""
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            for line in self.log[beyond:]:
                if text in line:
                    return line
            time.sleep(0.01)
        raise SystemExit("nothing in the log with %s:\n%s" % (text, "\n".join(self.log[-30:])))

    def reload(self):
        """SIGHUP; the lines that it logs, to the one that says how it ended."""
        before = len(self.log)
        self.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            lines = [json.loads(line) for line in self.log[before:]]
            if any(line["event"] == "reload" and ("weight_sets" in line or "nothing was changed" in line.get("message", "")) for line in lines):
                return [line for line in lines if line["event"] in ("reload", "configuration")]
            time.sleep(0.01)
        raise SystemExit("no end of the reload in the log:\n%s" % "\n".join(self.log[-30:]))

    def post(self, path, document):
        return self.request("POST", path, json.dumps(document), {"Content-Type": "application/json"})
