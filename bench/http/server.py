"""Starts attnd with a configuration of the benchmark's own on a free port of 127.0.0.1, and reads its times and memory from
/proc."""
import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import time

from load import Invalid

START_SECONDS = 60
STOP_SECONDS = 30
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
WEIGHTS = [{"name": "narrow", "source": "numpy", "seed": 42, "scale": 0.1, "d_model": 64, "num_heads": 8},
           {"name": "wide", "source": "numpy", "seed": 42, "scale": 0.1, "d_model": 768, "num_heads": 12}]


def machine_cpu():
    """CPU time of the whole machine so far, in seconds: user, nice, system, irq, softirq and steal of proc(5)."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(field) for field in file.readline().split()[1:]]
    return (sum(fields[0:3]) + sum(fields[5:8])) / TICKS


class Server:
    """`with Server(binary, limits) as server:`. Everything but the weight sets and `limits` has attnd's defaults, the log too: it
    goes to a file, emptied by `trim_log`. ATTND_* variables of the caller are not passed on."""

    def __init__(self, binary, limits=None):
        self.folder = tempfile.TemporaryDirectory(prefix="attnd-bench-")
        config = {"listen": ["127.0.0.1:0"], "weights": WEIGHTS, "server": {"drain_delay_s": 0}, "limits": limits or {}}
        path = os.path.join(self.folder.name, "attnd.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ATTND_")}
        self.log_path = os.path.join(self.folder.name, "log")
        # Appended to, so that emptying the file from here leaves no hole in it.
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([binary, "--config", path], env=environment, stdin=subprocess.DEVNULL, stderr=log)
        self.address = None

    def __enter__(self):
        until = time.monotonic() + START_SECONDS
        while self.address is None or not self._ready():
            if self.process.poll() is not None or time.monotonic() > until:
                log = self._log()
                self.__exit__(Invalid, None, None)
                raise Invalid("attnd was not ready in %d s:\n%s" % (START_SECONDS, log))
            found = re.search(r'"listening".*"(127\.0\.0\.1:[0-9]+)"', self._log())
            self.address = found.group(1) if found else None
            time.sleep(0.02)
        return self

    def __exit__(self, kind, error, trace):
        died = self.process.poll() is not None
        if not died:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        log = self._log()
        self.folder.cleanup()
        if died or (kind is None and self.process.returncode != 0):
            raise Invalid("attnd ended%s with exit code %d:\n%s" % (" by itself" if died else "", self.process.returncode, log))

    def _log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()[-4000:]

    def _ready(self):
        return self.request("GET", "/readyz")[0] == 200

    def trim_log(self):
        os.truncate(self.log_path, 0)

    def request(self, method, path, body=None):
        host, port = self.address.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        try:
            connection.request(method, path, body=body, headers={"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def forward(self, path):
        """Posts the body in the file `path` once; the length of its answer, which must be 200."""
        with open(path, "rb") as file:
            status, answer = self.request("POST", "/v1/forward", file.read())
        if status != 200:
            raise Invalid("a request was answered with %d: %s" % (status, answer[:500].decode(errors="replace")))
        return len(answer)

    def _stat(self):
        """The fields of /proc/PID/stat after the command, which may hold spaces: the first is field 3 of proc(5)."""
        with open("/proc/%d/stat" % self.process.pid, encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()

    def cpu(self):
        """User and system time of all its threads so far, in seconds, to a tick (10 ms as a rule)."""
        stat = self._stat()
        return (int(stat[14 - 3]) + int(stat[15 - 3])) / TICKS

    def minor_faults(self):
        return int(self._stat()[10 - 3])

    def resident(self):
        """Bytes in memory."""
        with open("/proc/%d/statm" % self.process.pid, encoding="ascii") as file:
            return int(file.read().split()[1]) * PAGE
