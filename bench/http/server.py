"""Starts attnd with a configuration of the benchmark's own on a free port of 127.0.0.1, or another program to compare it with, and
reads their times and memory from /proc."""
import http.client
import json
import os
import re
import shlex
import signal
import socket
import statistics
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
# In a log line of a forward.
STAGES = re.compile(rb'"route":"/v1/forward","status":200,.*"parse_us":([0-9.e+-]+),.*"compute_us":([0-9.e+-]+),.*'
                    rb'"encode_us":([0-9.e+-]+)')


def machine_cpu():
    """CPU time of the whole machine so far, in seconds: user, nice, system, irq, softirq and steal of proc(5)."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(field) for field in file.readline().split()[1:]]
    return (sum(fields[0:3]) + sum(fields[5:8])) / TICKS


class Process:
    """A child that serves HTTP at `address`: its costs, and one request at a time. Subclasses start it."""

    process, address = None, None

    def end(self):
        """True where it had ended by itself."""
        if self.process.poll() is not None:
            return True
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return False

    def stage_seconds(self):
        """Of a forward, since the log was trimmed: parse, compute and encode, the median of their sum. None: not known."""

    def trim_log(self):
        """Forgets what is logged."""

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

    def reset_peak(self):
        """From here on `peak` is of what comes."""
        with open("/proc/%d/clear_refs" % self.process.pid, "w", encoding="ascii") as file:
            file.write("5")

    def peak(self):
        """The most bytes in memory since it was started, or since `reset_peak`."""
        with open("/proc/%d/status" % self.process.pid, encoding="ascii", errors="replace") as file:
            return 1024 * int(re.search(r"VmHWM:\s*([0-9]+)", file.read()).group(1))


class Server(Process):
    """`with Server(binary, limits) as server:`. Everything but the weight sets, `limits` and `more` (further members of the
    configuration) has attnd's defaults. The log goes to a file, emptied by `trim_log`. ATTND_* and OTEL_* variables of the caller
    are not passed on."""

    def __init__(self, binary, limits=None, weights=None, more=None):
        self.folder = tempfile.TemporaryDirectory(prefix="attnd-bench-")
        weights = weights or WEIGHTS
        config = {"listen": ["127.0.0.1:0"], "weights": weights, "default_weights": weights[0]["name"],
                  "server": {"drain_delay_s": 0}, "limits": limits or {}, **(more or {})}
        path = os.path.join(self.folder.name, "attnd.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("ATTND_", "OTEL_"))}
        self.log_path = os.path.join(self.folder.name, "log")
        # Appended to, so that emptying the file from here leaves no hole in it.
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([binary, "--config", path], env=environment, stdin=subprocess.DEVNULL, stderr=log)

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
        died = self.end()
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

    def stage_seconds(self):
        with open(self.log_path, "rb") as file:
            sums = [sum(map(float, found)) for found in STAGES.findall(file.read())]
        return 1e-6 * statistics.median(sums) if sums else None


class Program(Process):
    """`with Program(command, values, path) as program:`. {port} in the command is a free port of 127.0.0.1, which it must serve;
    {NAME} is values[NAME]. It is ready when GET `path` is answered with 200."""

    def __init__(self, command, values, path="/healthz"):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        try:
            self.command = shlex.split(command.format(port=port, **values))
        except (KeyError, IndexError, ValueError) as error:
            raise Invalid("the command '%s' cannot be read (%s); it may name {port}, {%s}" %
                          (command, error, "}, {".join(values))) from None
        self.address, self.path = "127.0.0.1:%d" % port, path
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        until = time.monotonic() + START_SECONDS
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > until:
                how = "ended by itself" if self.end() else "was not ready in %d s" % START_SECONDS
                raise Invalid("%s %s:\n%s" % (self.command[0], how, self._end_of_log()))
            time.sleep(0.05)
        return self

    def __exit__(self, kind, error, trace):
        if self.end():
            raise Invalid("%s ended by itself:\n%s" % (self.command[0], self._end_of_log()))

    def _end_of_log(self):
        self.log.seek(0)
        return self.log.read()[-4000:].decode(errors="replace")

    def _ready(self):
        try:
            return self.request("GET", self.path)[0] == 200
        except (OSError, http.client.HTTPException):
            return False
