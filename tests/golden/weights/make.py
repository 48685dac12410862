"""Write numpy.json. usage: make.py   (needs NumPy; the file names the version that made it)

What numpy.random.RandomState(seed).randn gives, times the scale, in the order W_Q, W_K, W_V, W_O: the first numbers of each matrix as float64
before they are rounded, the SHA-256 of the whole matrices as little-endian float32, and the digest as src/weights/digest.c describes it."""
import hashlib
import json
import os
import struct

import numpy as np

MATRICES = ("W_Q", "W_K", "W_V", "W_O")


def digest(projected, d_model, num_heads, num_kv_heads, d_k, d_v, matrices):
    """Of a layer without biases."""
    scale = struct.unpack("<I", struct.pack("<f", 1 / np.sqrt(d_k)))[0]
    what = b"attnd-weights/1\0" + struct.pack("<8Q", 1, projected, d_model, num_heads, num_kv_heads, d_k, d_v, scale)
    for matrix in matrices:
        what += struct.pack("<2Q", *matrix.shape) + matrix.astype("<f4").tobytes()
    return hashlib.sha256(what + bytes(16) * (8 - len(matrices))).hexdigest()


def case(seed, scale, d_model, num_heads, num_kv_heads, d_k, d_v):
    rows, columns = num_heads * d_v, (num_heads * d_k, num_kv_heads * d_k, num_kv_heads * d_v)
    random = np.random.RandomState(seed)
    shapes = [(d_model, c) for c in columns] + [(rows, d_model)]
    drawn = {name: random.randn(*shape) * scale for name, shape in zip(MATRICES, shapes)}
    return {
        "seed": seed, "scale": scale, "d_model": d_model, "num_heads": num_heads, "num_kv_heads": num_kv_heads, "d_k": d_k, "d_v": d_v,
        "first": {name: matrix.ravel()[:5].tolist() for name, matrix in drawn.items()},
        "last": {name: matrix.ravel()[-5:].tolist() for name, matrix in drawn.items()},
        "sha256": {name: hashlib.sha256(matrix.astype("<f4").tobytes()).hexdigest() for name, matrix in drawn.items()},
        "digest": digest(True, d_model, num_heads, num_kv_heads, d_k, d_v, list(drawn.values())),
    }


def main():
    # demo's shape for four seeds; then 5 heads over one shared key and value head, whose numbers are odd in count
    cases = [case(seed, 0.1, 64, 8, 8, 8, 8) for seed in (0, 1, 42, 4294967295)] + [case(7, 2.5, 9, 5, 1, 3, 1)]
    identity = digest(False, 512, 8, 8, 64, 64, [])
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "numpy.json"), "w", encoding="utf-8") as f:
        json.dump({"numpy": np.__version__, "cases": cases, "identity_512_8": identity}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
