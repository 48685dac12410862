"""attnd's server over HTTP, as a program under comparison: one client, ids and results as bytes (/v2). A pass's CPU is the server's.

usage: server_peer.py FOLDER INPUT THREADS none|all ATTND"""
import ctypes
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import paths  # noqa: F401

from folders import read_ids

PR_SET_PDEATHSIG = 1


class Server:
    """One that ends with this program."""

    def __init__(self, attnd, folder, workers):
        libc = ctypes.CDLL(None)
        self.process = subprocess.Popen([attnd, "--model", f"model={folder}", "--listen", "127.0.0.1:0"], env=os.environ | {"ATTND_SERVER_WORKERS": workers},
                                        stderr=subprocess.PIPE, text=True, preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        for line in self.process.stderr:
            if '"listening"' in line or "127.0.0.1:" in line:
                self.port = int(line.rpartition("127.0.0.1:")[2].split('"')[0].split()[0].rstrip(","))
                break
        else:
            sys.exit("the server did not start")

    def cpu(self):
        """Seconds of all its threads."""
        return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{self.process.pid}/task").iterdir()) * 1e-9


def main():
    folder, path, threads, maps, attnd = sys.argv[1:6]
    ids = read_ids(path)
    names = ["output"] + (["attention"] if maps == "all" else [])
    header = json.dumps({"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": ids.shape, "parameters": {"binary_data_size": ids.nbytes}}],
                         "outputs": [{"name": name, "parameters": {"binary_data": True}} for name in names]}).encode()
    server = Server(attnd, folder, threads)
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    headers = {"Inference-Header-Content-Length": str(len(header)), "Content-Type": "application/octet-stream"}
    body = header + ids.tobytes()

    def post():
        connection.request("POST", "/v2/models/model/infer", body, headers)
        answer = connection.getresponse()
        made = answer.read()
        if answer.status != 200:
            sys.exit(f"{answer.status}: {made[:1000].decode(errors='replace')}")
        return answer, made

    for line in sys.stdin:
        words = line.split(maxsplit=1)
        answer, made = post()
        wall, cpu = time.perf_counter(), server.cpu()
        for _ in range(int(words[0])):
            answer, made = post()
        wall, cpu = time.perf_counter() - wall, server.cpu() - cpu
        if len(words) > 1:
            Path(words[1].strip()).write_bytes(made[int(answer.headers["Inference-Header-Content-Length"]):])
        print(f"{wall:.9f} {cpu:.9f}", flush=True)


main()
