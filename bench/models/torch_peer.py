"""A model in PyTorch, eager, float32. usage: torch_peer.py FOLDER INPUT THREADS none|all"""
import sys

import paths  # noqa: F401
import torch

from folders import read_ids
from hugging_face import Outputs, load
from protocol import serve


def main():
    folder, path, threads, maps = sys.argv[1:5]
    torch.set_num_threads(int(threads))
    model = Outputs(load(folder), maps == "all")
    ids = torch.from_numpy(read_ids(path))
    made = []

    def repeat(count):
        with torch.inference_mode():
            for _ in range(count):
                made[:] = model(ids)

    def results():
        return (made[0].numpy(), *([torch.stack(made[1:], 1).numpy()] if len(made) > 1 else []))

    serve(repeat, results)


main()
