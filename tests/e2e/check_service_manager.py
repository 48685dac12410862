#!/usr/bin/env python3
"""Runs attnd as systemd would: with a socket that is open already and a socket to be told on. usage: check_service_manager.py BINARY"""
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BINARY = ""
PATIENCE = 60
FIRST_SOCKET = 3


class Manager:
    """Keeps a listening socket over the lives of its services, and hears what they say."""

    def __init__(self, folder, drain_delay=0.0):
        self.drain_delay = drain_delay
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(64)
        self.port = self.listener.getsockname()[1]
        self.path = os.path.join(folder, "notify")
        self.told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.told.bind(self.path)
        self.told.settimeout(PATIENCE)

    def close(self):
        self.listener.close()
        self.told.close()

    def start(self, sockets=None, **variables):
        """A service with these sockets (default: the listener) as its descriptors 3 and on."""
        sockets = [self.listener] if sockets is None else sockets
        own = {name: value for name, value in os.environ.items() if not name.startswith("ATTND_")}
        own.update({"NOTIFY_SOCKET": self.path, "ATTND_SERVER_DRAIN_DELAY_S": str(self.drain_delay), **variables})
        copies = [os.dup(one.fileno()) for one in sockets]

        def place():
            high = [os.dup2(copy, 200 + n) for n, copy in enumerate(copies)]
            for n, descriptor in enumerate(high):
                os.dup2(descriptor, FIRST_SOCKET + n, inheritable=True)
                os.close(descriptor)

        # The shell takes the place of the service: its process id is the service's.
        command = 'export LISTEN_PID=$$ LISTEN_FDS=%d; exec "$0"' % len(sockets)
        try:
            return subprocess.Popen(["sh", "-c", command, BINARY], env=own, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                    preexec_fn=place, pass_fds=range(FIRST_SOCKET, FIRST_SOCKET + len(sockets)), text=True)
        finally:
            for copy in copies:
                os.close(copy)

    def hear(self, wanted):
        """The next message that begins with `wanted`."""
        while True:
            message = self.told.recv(4096).decode()
            if message.startswith(wanted):
                return message

    @contextlib.contextmanager
    def service(self, **arguments):
        process = self.start(**arguments)
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            if process.wait(PATIENCE) != 0:
                raise AssertionError("exit code %d" % process.returncode)
        finally:
            process.kill()
            process.communicate()


def status_of(port, path="/healthz"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


class ServiceManager(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="attnd-manager-")
        self.addCleanup(folder.cleanup)
        self.manager = Manager(folder.name)
        self.addCleanup(self.manager.close)

    def test_ready_once_it_serves_on_the_given_socket(self):
        with self.manager.service() as process:
            self.manager.hear("READY=1")
            self.assertEqual(status_of(self.manager.port, "/readyz"), 200)
            process.send_signal(signal.SIGTERM)
            self.manager.hear("STOPPING=1")

    def test_says_when_it_reloads(self):
        with self.manager.service() as process:
            self.manager.hear("READY=1")
            for _ in range(3):
                before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
                process.send_signal(signal.SIGHUP)
                began = self.manager.hear("RELOADING=1").split("MONOTONIC_USEC=")[1]
                self.manager.hear("READY=1")
                self.assertTrue(before <= int(began) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)
            self.assertEqual(status_of(self.manager.port, "/readyz"), 200)

    def test_what_waits_is_the_successors(self):
        """Clients that come while the one has stopped and the other not begun are answered, none is refused."""
        with self.manager.service():
            self.manager.hear("READY=1")
            self.assertEqual(status_of(self.manager.port), 200)
        waiting = []
        for _ in range(8):
            client = socket.create_connection(("127.0.0.1", self.manager.port), timeout=PATIENCE)
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            waiting.append(client)
        with self.manager.service():
            for client in waiting:
                self.assertTrue(client.recv(64).startswith(b"HTTP/1.1 200"))
                client.close()

    def test_beats(self):
        with self.manager.service(WATCHDOG_USEC="300000"):
            for _ in range(5):
                self.manager.hear("WATCHDOG=1")

    def wait_until_stopped(self, pid):
        """Every thread of it."""
        until, states = time.monotonic() + PATIENCE, {""}
        while states != {"T"}:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.001)
            states = set()
            for thread in os.listdir("/proc/%d/task" % pid):
                with open("/proc/%d/task/%s/stat" % (pid, thread), encoding="ascii") as file:
                    states.add(file.read().rsplit(")", 1)[1].split()[0])

    def test_is_quiet_while_it_stands_still(self):
        with self.manager.service(WATCHDOG_USEC="300000") as process:
            self.manager.hear("WATCHDOG=1")
            process.send_signal(signal.SIGSTOP)
            self.wait_until_stopped(process.pid)
            self.manager.told.settimeout(0)
            with contextlib.suppress(BlockingIOError):
                while True:
                    self.manager.told.recv(4096)
            self.manager.told.settimeout(2)
            with self.assertRaises(TimeoutError):
                self.manager.hear("WATCHDOG=1")
            self.manager.told.settimeout(PATIENCE)
            process.send_signal(signal.SIGCONT)
            self.manager.hear("WATCHDOG=1")

    def test_beats_only_where_it_is_asked_to(self):
        with self.manager.service() as process:
            self.manager.hear("READY=1")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(self.manager.told.recv(4096).decode().split("\n")[0], "STOPPING=1")

    def test_a_socket_of_another_kind_is_refused(self):
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(datagrams.close)
        process = self.manager.start(sockets=[datagrams])
        self.assertEqual(process.wait(PATIENCE), 2)
        message = process.communicate()[1]
        self.assertIn("LISTEN_FDS", message)
        self.assertIn("ListenStream", message)

    def loading(self):
        """A process that is busy with its start: its configuration is a pipe into which nothing was written yet."""
        folder = tempfile.TemporaryDirectory(prefix="attnd-loading-")
        self.addCleanup(folder.cleanup)
        pipe = os.path.join(folder.name, "attnd.json")
        os.mkfifo(pipe)
        holder = os.open(pipe, os.O_RDWR)
        self.addCleanup(os.close, holder)
        # Without variables for the tests themselves, of which attnd would warn.
        own = {name: value for name, value in os.environ.items() if not name.startswith("ATTND_")}
        process = subprocess.Popen([BINARY, "--config", pipe, "--listen", "127.0.0.1:0"], env=own, stdin=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        held = "/proc/%d/fd" % process.pid
        until = time.monotonic() + PATIENCE
        while not any(os.path.realpath(os.path.join(held, name)) == pipe for name in os.listdir(held)):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.001)
        return process, holder

    def test_ends_at_once_while_it_loads(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process, _ = self.loading()
            process.send_signal(number)
            self.assertEqual(process.wait(PATIENCE), 0)

    def test_closed_descriptors_are_nobody_elses(self):
        """Whoever has closed standard input, output and error finds nothing of the server's under their numbers."""
        process = subprocess.Popen(["sh", "-c", 'exec "$0" --listen 127.0.0.1:0 <&- >&- 2>&-', BINARY], env={**os.environ, "NOTIFY_SOCKET": self.manager.path})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.manager.hear("READY=1")
        self.assertEqual([os.readlink("/proc/%d/fd/%d" % (process.pid, n)) for n in range(3)], [os.devnull] * 3)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE), 0)

    def test_a_reload_waits_while_it_loads(self):
        process, holder = self.loading()
        process.send_signal(signal.SIGHUP)
        os.write(holder, b'{"log": {"format": "json"}}' + b" " * 100)
        # The end of what is read: nobody else may hold the pipe.
        end = os.open(os.devnull, os.O_RDONLY)
        os.dup2(end, holder)
        os.close(end)
        events = [json.loads(process.stderr.readline())["event"] for _ in range(2)]
        self.assertEqual(events, ["listening", "reload"])


def main():
    global BINARY
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    BINARY = os.path.abspath(sys.argv.pop())
    unittest.main(verbosity=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
