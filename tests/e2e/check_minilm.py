#!/usr/bin/env python3
"""A real model as a whole: token ids in, the last hidden state and the maps of every layer out, beside those of the model's own
implementation (golden/real). usage: check_minilm.py BINARY GOLDEN ROOT

The model is where scripts/get-minilm has put it, ROOT/build/minilm or $ATTND_MINILM. Without it the test is skipped, or fails where
CI=true."""
import array
import base64
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from attnd_process import Attnd  # noqa: E402

OUTPUT, MAPS = 2e-4, 2e-5
SKIPPED = 77
LAYERS, HEADS, WIDTH = 6, 12, 384
# For examples/python/bert.py: texts, and their tokens by the model's own tokenizer.
TEXTS = {
    "The cat sat on the mat": "[CLS] the cat sat on the mat [SEP]",
    "Zoë's naïve café résumé cost 12 €; déjà vu!": "[CLS] zoe ' s naive cafe resume cost 12 € ; de ##ja vu ! [SEP]",
    "Unbelievably, the lighthouse-keeper's granddaughter photographed bioluminescent jellyfish.":
        "[CLS] un ##bel ##ie ##va ##bly , the lighthouse - keeper ' s granddaughter photographed bio ##lum ##ines ##cent jelly ##fish . [SEP]",
}


def tensors_of(path):
    with open(path, "rb") as f:
        data = f.read()
    size, = struct.unpack("<Q", data[:8])
    return {name: floats(data[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]])
            for name, e in json.loads(data[8:8 + size]).items() if name != "__metadata__"}


def floats(raw):
    numbers = array.array("f")
    numbers.frombytes(raw)
    return numbers


def answered(tensor):
    return floats(base64.b64decode(tensor["base64"]))


def kept_rows(mask, batch, length):
    """Which of the rows are no padding."""
    if mask is None or isinstance(mask[0][0], list):
        return [True] * (batch * length)
    return [bool(kept) for row in mask for kept in row]


def furthest(got, wanted):
    assert len(got) == len(wanted), "%d numbers, expected %d" % (len(got), len(wanted))
    return max((abs(a - b) for a, b in zip(got, wanted)), default=0)


def check_case(server, name, asked, outputs, maps):
    """-> faults"""
    faults, batch, length = [], len(asked["input_ids"]), len(asked["input_ids"][0])
    layers = [n for n in range(LAYERS) if "%s/%d/attention" % (name, n) in maps]
    request = dict(asked, weights="minilm", encoding="base64")
    if layers:
        request["include_layers"] = layers
    else:
        request["return"] = ["output"]
    answer = server.post("/v1/forward", request)
    if answer.status != 200:
        return ["%d %s" % (answer.status, answer.body[:300])]
    got = json.loads(answer.body)
    output, wanted = answered(got["output"]), outputs[name]
    for i, kept in enumerate(kept_rows(asked.get("attention_mask"), batch, length)):
        row = slice(i * WIDTH, (i + 1) * WIDTH)
        off = furthest(output[row], wanted[row]) if kept else max(map(abs, output[row]))
        if off > (OUTPUT if kept else 0):
            faults.append("output, row %d: off by %.3g" % (i, off))
    if layers:
        attention, plane = answered(got["attention"]), HEADS * length * length
        for b in range(batch):
            for place, n in enumerate(layers):
                at = (b * len(layers) + place) * plane
                off = furthest(attention[at:at + plane], maps["%s/%d/attention" % (name, n)][b * plane:(b + 1) * plane])
                if off > MAPS:
                    faults.append("maps of layer %d, sequence %d: off by %.3g" % (n, b, off))
    return faults


def check_example(server, root, model):
    """Tokens, roles of heads and links of the example, for texts that it need not know. -> faults"""
    faults = []
    for text, tokens in TEXTS.items():
        done = subprocess.run([sys.executable, os.path.join(root, "examples", "python", "bert.py"), server.base, text,
                               os.path.join(model, "vocab.txt")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                              env={**os.environ, "PYTHONIOENCODING": "utf-8"}, timeout=120, check=False)
        printed, words = done.stdout.splitlines(), tokens.split()
        before = ["head 2 of layer 0: %s looks at %s" % pair for pair in zip(words, words[:1] + words)]
        if done.returncode != 0 or printed[0] != "tokens: " + tokens or printed[5:] != before \
                or not printed[1].startswith(("the token before: head 2 of layer 0, 0.99", "the token before: head 2 of layer 0, 1.000")) \
                or not printed[2].startswith("the token behind: head 8 of layer 1,"):
            faults.append("examples/python/bert.py printed for %r\n%s" % (text, done.stdout))
    return faults


def check_configurations(binary, server, root, model):
    """The model's folder as config/examples names it, and its layers as they are written out there, are the model. -> faults"""
    digest, faults = json.loads(server.request("GET", "/v1/weights/minilm").body)["digest"], []
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.abspath(model), os.path.join(folder, "all-MiniLM-L6-v2"))
        for name in ("huggingface.json", "blocks.json"):
            shutil.copy(os.path.join(root, "config", "examples", name), folder)
            done = subprocess.run([binary, "--config", os.path.join(folder, name), "--check-config"], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
            if done.returncode != 0 or not re.search("^weights: minilm .*%s$" % digest, done.stdout, re.MULTILINE):
                faults.append("config/examples/%s does not make the weights %s:\n%s" % (name, digest, done.stdout))
    return faults


def main():
    binary, golden, root = sys.argv[1:4]
    model = os.path.join(os.environ.get("ATTND_MINILM") or os.path.join(root, "build", "minilm"), "model")
    if not os.path.exists(os.path.join(model, "model.safetensors")):
        print("no model in %s; scripts/get-minilm fetches it" % model)
        return 1 if os.environ.get("CI") == "true" else SKIPPED
    with open(os.path.join(golden, "real", "model.json"), encoding="utf-8") as f:
        texts = json.load(f)
    outputs = tensors_of(os.path.join(golden, "real", "model.safetensors"))
    maps = tensors_of(os.path.join(golden, "real", "heads.safetensors"))
    faults = []
    with Attnd(binary, ["--model", "minilm=" + model]) as server:
        for name, asked in texts.items():
            faults += ["%s: %s" % (name, fault) for fault in check_case(server, name, asked, outputs, maps)]
        faults += check_example(server, root, model) + check_configurations(binary, server, root, model)
    for fault in faults[:20]:
        print(fault)
    print("%d texts, %d faults" % (len(texts), len(faults)))
    return 1 if faults or not texts else 0


sys.exit(main())
