"""A model in ONNX Runtime (../peers/session.py). usage: onnx_peer.py MODEL.onnx INPUT THREADS"""
import sys

import numpy as np
import paths  # noqa: F401

from folders import read_ids
from protocol import serve
from session import make_session, repeater


def main():
    session = make_session(sys.argv[1], int(sys.argv[3]))
    ids = read_ids(sys.argv[2])
    outputs = {o.name: o for o in session.get_outputs()}
    first = session.run(None, {"input_ids": ids})
    made = {name: np.empty_like(tensor) for name, tensor in zip(outputs, first)}
    maps = [tensor for name, tensor in made.items() if name.startswith("maps_")]
    serve(repeater(session, {"input_ids": ids}, made), lambda: (made["output"], *([np.stack(maps, 1)] if maps else [])))


main()
