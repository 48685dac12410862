#!/usr/bin/env python3
"""Builds the image of the Dockerfile, runs it as a container would be run, and asks it for what matters. usage: image.py SOURCE_ROOT

No engine is needed: mmdebstrap makes a base like debian:bookworm-slim, buildah builds on it with chroot for its isolation, and the image's
own command runs in its root file system: read-only, as any user, without capabilities, as process 1. Takes minutes, so that it runs only
where ATTND_TEST_IMAGE=true, as scripts/test --deploy says. Prints the image's size and how long it took to be ready."""
import base64
import http.client
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import parts

# Of nobody that the image knows.
USER = 54321
SUITE = "bookworm"
# As in Debian's own slim images.
LEFT_OUT = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*"]


class Builder:
    """Layers are overlays where those can be mounted, or copies, which take longer."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {**os.environ, "BUILDAH_ISOLATION": "chroot", "TMPDIR": folder}
        for driver in ("overlay", "vfs"):
            self.command = [parts.program("buildah"), "--root", os.path.join(folder, driver), "--runroot", os.path.join(folder, "run-" + driver),
                            "--storage-driver", driver]
            container = self("from", "scratch", check=False)
            if container and self("mount", container, check=False):
                break

    def __call__(self, *arguments, check=True):
        log = os.path.join(self.folder, "buildah.log")
        with open(log, "w", encoding="utf-8") as file:
            done = subprocess.run([*self.command, *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=file, text=True, check=False)
        if done.returncode == 0 or not check:
            return done.stdout.strip()
        with open(log, encoding="utf-8") as file:
            raise SystemExit("buildah %s failed:\n%s%s" % (arguments[0], done.stdout[-2000:], "".join(file.readlines()[-30:])))


def can_build(folder):
    """False where the sandbox that this runs in forbids what every builder needs."""
    done = subprocess.run(["chroot", "/", "true"], stderr=subprocess.DEVNULL, check=False)
    mounts = subprocess.run(["unshare", "--mount", "--pid", "--fork", "mount", "--bind", folder, folder], stderr=subprocess.DEVNULL, check=False)
    return os.geteuid() == 0 and done.returncode == 0 and mounts.returncode == 0


def build(builder, root, folder):
    base = os.path.join(folder, "base.tar")
    done = subprocess.run([parts.program("mmdebstrap"), "--quiet", "--variant=minbase", "--mode=root", "--include=ca-certificates",
                           *("--dpkgopt=path-exclude=" + path for path in LEFT_OUT), SUITE, base],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit("mmdebstrap failed:\n" + done.stdout[-3000:])
    container = builder("from", "scratch")
    builder("add", "--quiet", container, base, "/")
    builder("commit", "--quiet", "--rm", container, "localhost/debian-slim")
    os.remove(base)
    builder("build", "--format", "docker", "--layers=false", "--build-arg", "DEBIAN=localhost/debian-slim", "--tag", "localhost/attnd", root)


class Container:
    """The image's command in its root file system."""

    def __init__(self, builder, folder):
        self.port = parts.free_port()
        self.configuration = json.loads(builder("inspect", "--type", "image", "localhost/attnd"))["Docker"]["config"]
        self.root = builder("mount", builder("from", "--pull-never", "localhost/attnd"))
        self.log = os.path.join(folder, "container.log")
        self.variables = {**dict(one.split("=", 1) for one in self.configuration["Env"]), "ATTND_LISTEN": "0.0.0.0:%d" % self.port,
                          "ATTND_SERVER_DRAIN_DELAY_S": "3000"}
        self.process = None

    def command(self, arguments):
        """In namespaces of its own: everything read-only but /proc, which is its own too."""
        steps = ('mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && mount -t proc proc "$0/proc" && '
                 'exec chroot "$0" setpriv --reuid=%d --regid=%d --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"' %
                 (USER, USER))
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", steps, self.root, *arguments]

    def run(self, arguments):
        return subprocess.run(self.command(arguments), env=self.variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)

    def start(self):
        begun = time.monotonic()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.command(self.configuration["Entrypoint"]), env=self.variables, stdin=subprocess.DEVNULL,
                                            stderr=log)
        parts.wait_until("the container is ready, or ends", lambda: self.process.poll() is not None or self.get("/readyz")[0] == 200,
                         pause=0.002)
        return time.monotonic() - begun

    def get(self, path):
        return parts.get("http://127.0.0.1:%d%s" % (self.port, path))

    def process_1(self):
        """Its process, as the machine numbers it: the child of unshare."""
        with open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid), encoding="ascii") as file:
            return int(file.read().split()[0])

    def facts(self):
        with open("/proc/%d/status" % self.process_1(), encoding="ascii") as file:
            lines = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        return {"user": int(lines["Uid"].split()[0]), "capabilities": int(lines["CapEff"], 16) | int(lines["CapBnd"], 16),
                "process": int(lines["NSpid"].split()[-1]), "groups": lines.get("Groups", "").split()}


def check_forward(port):
    """Identity weights are not in the image's configuration: the sum of each map's row must be 1."""
    x = struct.pack("<256f", *(((index * 37) % 101) / 50 - 1 for index in range(256)))
    body = json.dumps({"input": {"shape": [1, 4, 64], "dtype": "f32", "base64": base64.b64encode(x).decode()}})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/v1/forward", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    document = json.loads(answer.read())
    connection.close()
    maps = document.get("attention", [[[[]]]])[0]
    return answer.status == 200 and len(maps) == 8 and all(abs(sum(row) - 1) < 1e-5 for head in maps for row in head)


def drain(container):
    """A request in mid-upload is answered during the delay, which a second signal ends; the exit code is 0."""
    body = json.dumps({"input": [[[0.5] * 64]]}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", container.port, timeout=60)
    connection.putrequest("POST", "/v1/forward")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body[:20])
    stop = getattr(signal, container.configuration.get("StopSignal", "SIGTERM"))
    os.kill(container.process_1(), stop)
    parts.wait_until("readiness fails", lambda: container.get("/readyz")[0] == 503)
    connection.send(body[20:])
    answer = connection.getresponse()
    answer.read()
    os.kill(container.process_1(), stop)
    return answer.status == 200 and container.process.wait(60) == 0


def size_of(root):
    sizes = subprocess.run(["du", "--summarize", "--block-size=1", "--one-file-system", root], stdout=subprocess.PIPE, text=True, check=True)
    return int(sizes.stdout.split()[0])


def check(container):
    right = True

    def expect(what, condition):
        nonlocal right
        if not condition:
            print("not so: " + what)
            right = False

    ready = container.start()
    if container.process.poll() is not None:
        with open(container.log, encoding="utf-8", errors="replace") as log:
            print("it ended with exit code %d:\n%s" % (container.process.returncode, log.read()[-3000:]))
        return False
    facts = container.facts()
    expect("it runs as user %d, in no other group" % USER, facts["user"] == USER and set(facts["groups"]) <= {str(USER)})
    expect("it has no capability", facts["capabilities"] == 0)
    expect("it is process 1", facts["process"] == 1)
    # It has five seconds, which may pass while the machine stands still.
    expect("a health check as the image says succeeds",
           any(container.run(container.configuration["Healthcheck"]["Test"][1:]).returncode == 0 for _ in range(5)))
    written = container.run(["/bin/sh", "-c", "echo x > /tmp/x"])
    expect("nothing can be written", written.returncode != 0 and "Read-only" in written.stdout)
    expect("/healthz answers 200", container.get("/healthz")[0] == 200)
    expect("a forward is right", check_forward(container.port))
    # Just behind its answer; after a minute this raises.
    parts.wait_until("/metrics counts the forward",
                     lambda: 'attnd_requests_total{route="/v1/forward",method="POST",code="200"} 1' in container.get("/metrics")[1])
    expect("it drains and ends with exit code 0", drain(container))
    binary = os.path.join(container.root, "usr/local/bin/attnd")
    print("image: %.1f MB, of these the executable %.1f MB; ready %.0f ms after its start" %
          (size_of(container.root) / 1e6, os.path.getsize(binary) / 1e6, ready * 1e3))
    if not right:
        with open(container.log, encoding="utf-8", errors="replace") as log:
            print("the end of its log:\n" + "".join(log.readlines()[-20:]))
    return right


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    root = os.path.abspath(sys.argv[1])
    if os.environ.get("ATTND_TEST_IMAGE") != "true":
        print("not asked for: scripts/test --deploy builds the image")
        return parts.SKIP
    folder = tempfile.mkdtemp(prefix="attnd-image-")
    try:
        if not can_build(folder):
            print("no builder can run here: chroot and mounts in a namespace of one's own are not allowed. Nothing was built")
            return parts.SKIP
        builder = Builder(folder)
        begun = time.monotonic()
        build(builder, root, folder)
        print("built in %.0f s" % (time.monotonic() - begun))
        container = Container(builder, folder)
        try:
            return 0 if check(container) else 1
        finally:
            if container.process and container.process.poll() is None:
                container.process.kill()
                container.process.wait()
            builder("rm", "--all", check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
