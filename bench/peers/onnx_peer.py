"""Multi-head attention with ONNX Runtime (session.py), weights as constants, which it packs once. usage: onnx_peer.py INPUT THREADS VARIANT"""
import sys

import numpy as np

from graphs import VARIANTS
from protocol import Task, serve
from session import make_session, repeater


def main():
    task = Task(sys.argv[1])
    session = make_session(VARIANTS[sys.argv[3]](task).SerializeToString(), int(sys.argv[2]))
    output = np.empty_like(task.x)
    maps = np.empty((task.batch, task.heads, task.length, task.length), np.float32)
    serve(repeater(session, {"x": task.x}, {"output": output, "attention": maps}), lambda: (output, maps))


main()
