"""The requests, written to files that wrk posts. Standard normal inputs from a fixed seed: the same in every run."""
import array
import base64
import json
import os
import random
import sys


def nested(data, shape):
    for length in reversed(shape):
        data = [data[i:i + length] for i in range(0, len(data), length)]
    return data


def write(folder, name, count, sequences, tokens, d_model, encoding, **members):
    """`count` different bodies with input [sequences, tokens, d_model], as base64, text with its shape, or nested text (which any
    server takes); their file names."""
    numbers, paths = random.Random(name), []
    for i in range(count):
        values = array.array("f", (numbers.gauss(0, 1) for _ in range(sequences * tokens * d_model)))
        shape = [sequences, tokens, d_model]
        if encoding == "base64":
            if sys.byteorder == "big":
                values.byteswap()
            tensor = {"shape": shape, "dtype": "f32", "base64": base64.b64encode(values.tobytes()).decode("ascii")}
            members = {"encoding": "base64", **members}
        else:
            # As text with the digits of a float32: what a client sends that prints its own numbers.
            data = [float("%.9g" % value) for value in values]
            tensor = {"shape": shape, "data": data} if encoding == "text" else nested(data, shape[1:])
        paths.append(os.path.join(folder, "%s-%d.json" % (name, i)))
        with open(paths[-1], "w", encoding="ascii") as file:
            json.dump({"input": tensor, **members}, file)
    return paths
