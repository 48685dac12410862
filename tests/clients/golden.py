"""The golden cases of tests/golden, whose values were computed by other programs, and how near an answer must come to them."""
import json
import os

import numpy
import safetensors.numpy

FOLDER = os.environ["ATTND_GOLDEN"]
# As host:port and as http://host:port.
ADDRESS = os.environ["ATTND_ADDRESS"]
BASE = "http://" + ADDRESS
# The weight sets of the server, by the golden cases' names: MODEL is what all of tests/golden/forward but identity uses.
MODEL, REAL_MODEL = "demo", "layer0"


class Case:
    """One case of tests/golden/forward: its tensors as arrays, its other members, what is expected."""

    def __init__(self, name):
        with open(os.path.join(FOLDER, "forward", name + ".json"), encoding="utf-8") as file:
            case = json.load(file)
        self.request = case["request"]
        self.tensors = {member: numpy.array(value, numpy.float32) for member, value in self.request.items()
                        if isinstance(value, list)}
        self.members = {member: value for member, value in self.request.items() if not isinstance(value, list)}
        self.output = numpy.array(case["expect"]["output"])
        self.attention = numpy.array(case["expect"]["attention"])


def reference(x):
    """Output and attention of MODEL for x [B, T, 64], in float64: its weights are NumPy's, of the seed 42."""
    generator, (batch, tokens, d_model), heads = numpy.random.RandomState(42), x.shape, 8
    query, key, value, out = ((0.1 * generator.randn(d_model, d_model)).astype(numpy.float32).astype(numpy.float64) for _ in range(4))

    def split(rows):
        return rows.reshape(batch, tokens, heads, d_model // heads).transpose(0, 2, 1, 3)

    x = x.astype(numpy.float64)
    scores = split(x @ query) @ split(x @ key).transpose(0, 1, 3, 2) / (d_model // heads) ** 0.5
    attention = numpy.exp(scores - scores.max(-1, keepdims=True))
    attention /= attention.sum(-1, keepdims=True)
    return (attention @ split(x @ value)).transpose(0, 2, 1, 3).reshape(x.shape) @ out, attention


def real_sentence():
    """The tensors of tests/golden/real/cat-layer0.safetensors: input, output and attention of a layer of a real model."""
    return safetensors.numpy.load_file(os.path.join(FOLDER, "real", "cat-layer0.safetensors"))


def near(test, got, wanted):
    """Within 1e-5 + 1e-5 |wanted|, with the same shape; what is wanted as 0 must be 0."""
    got, wanted = numpy.asarray(got), numpy.asarray(wanted)
    test.assertEqual(got.shape, wanted.shape)
    excess = numpy.abs(got.astype(numpy.float64) - wanted) - 1e-5 * (1 + numpy.abs(wanted))
    test.assertLessEqual(float(excess.max()), 0, "further from the golden values than the tolerance")
    test.assertFalse(numpy.any(got[wanted == 0]), "not 0 where 0 is wanted")
