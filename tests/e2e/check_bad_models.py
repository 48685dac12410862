#!/usr/bin/env python3
"""Model folders with something wrong, and requests that do not fit a model, as a user meets them. usage: check_bad_models.py BINARY GOLDEN

What `attnd --check-config --model m=FOLDER` says names the file, the key or tensor, what was found and what was expected, and the folder;
what a request hears has the pointer to the place, and both."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from attnd_process import Attnd  # noqa: E402

CONFIG, INDEX, ONE = "config.json", "model.safetensors.index.json", "model.safetensors"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
KEY = "bert.encoder.layer.1.attention.self.key."
TYPES = ("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "electra", "gpt2", "llama", "mistral", "qwen2", "t5", "vit", "esm")
faults = []


def check(right, place, text):
    if not right:
        faults.append("%s: %s" % (place, text))


# ---- changes to a folder

def read_tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size, = struct.unpack("<Q", data[:8])
    return {name: (e["dtype"], e["shape"], data[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]])
            for name, e in json.loads(data[8:8 + size]).items() if name != "__metadata__"}


def write_tensors(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def config(**keys):
    """Values of keys; None takes one out."""
    def change(folder):
        path = os.path.join(folder, CONFIG)
        with open(path) as file:
            document = {**json.load(file), **keys}
        with open(path, "w") as file:
            json.dump({key: value for key, value in document.items() if value is not None}, file, indent=1)
    return change


def tensors(name, tensor):
    """Another tensor of that name; None takes it out."""
    def change(folder):
        path = os.path.join(folder, ONE)
        made = {**read_tensors(path), name: tensor}
        write_tensors(path, {k: v for k, v in made.items() if v})
    return change


def without(name):
    return lambda folder: os.remove(os.path.join(folder, name))


def cut(name, size):
    return lambda folder: os.truncate(os.path.join(folder, name), size)


def text_file(name, text):
    def change(folder):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    return change


def shard_of(name, shard):
    def change(folder):
        path = os.path.join(folder, INDEX)
        with open(path) as file:
            document = json.load(file)
        document["weight_map"][name] = shard
        with open(path, "w") as file:
            json.dump(document, file, indent=1)
    return change


def in_both_shards(folder):
    first, second = (read_tensors(os.path.join(folder, name)) for name in (FIRST, SECOND))
    write_tensors(os.path.join(folder, SECOND), {**second, "embed_tokens.weight": first["embed_tokens.weight"]})


def overlapping(folder):
    path = os.path.join(folder, FIRST)
    with open(path, "rb") as file:
        data = file.read()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    second = sorted((e["data_offsets"], name) for name, e in header.items() if name != "__metadata__")[1][1]
    header[second]["data_offsets"] = [at - 4 for at in header[second]["data_offsets"]]
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data[8 + size:])


def floats(count, last=0.0):
    return struct.pack("<%df" % count, *[0.0] * (count - 1), last)


# The model, what is changed, what must be said.
FOLDERS = [
    ("bert", without(CONFIG), [CONFIG, "the folder has no"]),
    ("bert", without(ONE), ["neither " + ONE + " nor " + INDEX]),
    ("bert", shutil.rmtree, ["No such file"]),
    ("bert", text_file(CONFIG, '{"a":\n1,}'), [CONFIG + ":2", "not JSON", "'}'"]),
    ("bert", config(model_type="mamba"), [CONFIG, "/model_type", '"mamba"', *TYPES]),
    ("bert", config(model_type=None), [CONFIG, '"model_type" is missing', *TYPES]),
    ("bert", config(hidden_act="quick_gelu"), [CONFIG, "/hidden_act", '"quick_gelu"', "expected gelu, gelu_new"]),
    ("bert", config(position_embedding_type="relative_key"), [CONFIG, "/position_embedding_type", "relative_key", "expected absolute"]),
    ("bert", config(quantization_config={"bits": 4}), [CONFIG, "quantization_config"]),
    ("bert", tensors(KEY + "bias", None), ['"encoder.layer.1.attention.self.key.bias"', "1 tensor is missing", "39"]),
    ("bert", tensors(KEY + "weight", ("F32", [32, 31], floats(32 * 31))), [ONE, KEY + "weight", "[32, 31]", "expected [32, 32]"]),
    ("bert", tensors(KEY + "bias", ("I32", [32], bytes(128))), [ONE, KEY + "bias", "I32", "expected F32, F16, BF16 or F64"]),
    ("bert", tensors(KEY + "bias", ("F32", [32], floats(32, float("nan")))), [KEY + "bias", "[31]", "not a finite float32"]),
    ("bert", tensors("bert.embeddings.LayerNorm.weight", ("F32", [32], floats(32))),
     ["bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.weight", "two names of one"]),
    ("bert", config(hidden_size=64), [ONE, "word_embeddings.weight", "[96, 32]", "expected [96, 64]"]),
    ("bert", config(intermediate_size=63), [ONE, "layer.0.intermediate.dense.weight", "[64, 32]", "expected [63, 32]"]),
    ("bert", config(num_hidden_layers=3), ["16 tensors are missing", "encoder.layer.2.attention.self.query.weight"]),
    ("bert", config(hidden_size=10**12), [CONFIG, "/hidden_size", "from 1 to 2147483647", "got 1000000000000"]),
    ("bert", config(hidden_size="32"), [CONFIG, "/hidden_size", "expected an integer", "got a string"]),
    ("bert", config(num_hidden_layers=10**6), [CONFIG, "/num_hidden_layers", "from 1 to 4096", "got 1000000"]),
    ("bert", config(num_attention_heads=-4), [CONFIG, "/num_attention_heads", "from 1 to", "got -4"]),
    ("bert", config(num_attention_heads=5), [CONFIG, "32", "5 heads"]),
    ("bert", config(vocab_size=2**31 - 1), [ONE, "[96, 32]", "expected [2147483647, 32]"]),
    ("bert", cut(ONE, 5000), [ONE, "data_offsets", "only", "cut short"]),
    ("bert", cut(ONE, 500), [ONE, "the header should have", "500 bytes"]),
    ("bert", cut(ONE, 0), [ONE, "not a safetensors file", "0 bytes"]),
    ("bert", text_file(ONE, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"), [ONE, "not a safetensors file", "Git LFS pointer", "git lfs pull"]),
    ("qwen2", without(FIRST), [FIRST, "No such file"]),
    ("qwen2", in_both_shards, ['"embed_tokens.weight"', "two files", FIRST + " and " + SECOND]),
    ("qwen2", overlapping, [FIRST, "within", "overlap"]),
    ("qwen2", shard_of("embed_tokens.weight", SECOND), [INDEX, '"embed_tokens.weight" is in ' + SECOND, "it is in " + FIRST]),
    ("qwen2", shard_of("more", SECOND), [INDEX, '"more" is in ' + SECOND, "no file has it"]),
    ("qwen2", shard_of("embed_tokens.weight", "../" + FIRST), [INDEX, "/weight_map/embed_tokens.weight", '"../' + FIRST + '"', "another folder"]),
    ("qwen2", shard_of("embed_tokens.weight", "a/" + FIRST), [INDEX, '"a/' + FIRST + '"', "another folder"]),
    ("qwen2", shard_of("embed_tokens.weight", "/" + FIRST), [INDEX, '"/' + FIRST + '"', "absolute path"]),
    ("qwen2", shard_of("embed_tokens.weight", ".."), [INDEX, '".."', "expected the name of a safetensors file"]),
    ("qwen2", text_file(INDEX, '{"weight_map": {}}'), [INDEX, "names no tensor"]),
]


def wrong_folders(binary, golden, scratch):
    folder = os.path.join(scratch, "m")
    for number, (model, change, words) in enumerate(FOLDERS):
        place = "folder %d, %s, %s" % (number, model, words[:2])
        shutil.copytree(os.path.join(golden, model), folder)
        change(folder)
        ended = subprocess.run([binary, "--check-config", "--model", "m=" + folder], capture_output=True, text=True, env={})
        check(ended.returncode == 2, place, "exit code %d" % ended.returncode)
        lines = ended.stderr.strip().split("\n")
        check(len(lines) == 1 and lines[0].startswith('--model: weight set "m": '), place, "said %s" % lines)
        for word in [*words, folder]:
            check(word in ended.stderr, place, "%r is not in: %s" % (word, ended.stderr))
        shutil.rmtree(folder, ignore_errors=True)


def extra_tensors(binary, golden, scratch):
    """No error: the log names them, once."""
    folder = os.path.join(scratch, "extra")
    shutil.copytree(os.path.join(golden, "bert"), folder)
    tensors("bert.strange.weight", ("I64", [2], bytes(16)))(folder)
    with Attnd(binary, ["--model", "m=" + folder]) as server:
        said = [json.loads(line)["tensors"] for line in server.log if "unused_tensors" in line]
    check(len(said) == 1 and "bert.strange.weight" in said[0] and KEY not in said[0], "an extra tensor", "the log says %s" % said)


# What is sent, the pointer, what must be said.
REQUESTS = [
    ("bert", {"input_ids": [[1, 2], [3, 96]]}, "/input_ids/1/1", ["96", "0 to 95"]),
    ("bert", {"input_ids": [[1, -1]]}, "/input_ids/0/1", ["got -1", "from 0"]),
    ("bert", {"input_ids": [1, 1.5]}, "/input_ids/1", ["expected an integer", "got 1.5"]),
    ("bert", {"input_ids": [1, "2"]}, "/input_ids/1", ["expected integers", "got a string", "no tokenizer"]),
    ("bert", {"input_ids": [1, True]}, "/input_ids/1", ["expected an integer", "got true"]),
    ("bert", {"input_ids": [1, 2**40]}, "/input_ids/1", ["got 1099511627776"]),
    ("bert", {"input_ids": [[1, 2], [3]]}, "/input_ids/1", ["1", "2"]),
    ("bert", {"input_ids": {"shape": [2], "data": [1, 2.5]}}, "/input_ids/data/1", ["got 2.5"]),
    ("bert", {"input_ids": {"shape": [1], "dtype": "f32", "base64": "AAAAAA=="}}, "/input_ids/dtype", ["f32", "i32 and i64"]),
    ("bert", {"input_ids": [1] * 25}, "/input_ids", ["25 tokens", "24"]),
    ("bert", {"input_ids": [[1] * 25] * 2}, "/input_ids", ["25 tokens", "24"]),
    ("roberta", {"input_ids": [5] * 23}, "/input_ids", ["23 tokens", "22"]),
    ("bert", {"input_ids": [1, 2], "token_type_ids": [0, 2]}, "/token_type_ids/1", ["2", "0 to 1"]),
    ("bert", {"input_ids": [1, 2], "token_type_ids": [0]}, "/token_type_ids", ["[1]", "expected [2]"]),
    ("bert", {"input_ids": [1, 2], "position_ids": [0, 24]}, "/position_ids/1", ["24", "0 to 23"]),
    ("bert", {"input_ids": [1, 2], "input": [[0] * 32] * 2}, "/input_ids", ["input and input_ids", "cannot stand together"]),
    ("bert", {"token_type_ids": [0]}, None, ["input_ids"]),
    ("bert", {"inputs_embeds": [[0] * 31]}, "/inputs_embeds", ["[1, 31]", "[tokens, 32]"]),
    ("bert", {"pixel_values": [[[0.5] * 16] * 16] * 3}, "/pixel_values", ["input_ids"]),
    ("vit", {"pixel_values": [[[0.5] * 15] * 16] * 3}, "/pixel_values", ["[3, 16, 15]", "3, 16, 16]"]),
    ("vit", {"pixel_values": [[[[0.5] * 16] * 15] * 3]}, "/pixel_values", ["[1, 3, 15, 16]", "[batch, 3, 16, 16]"]),
    ("vit", {"pixel_values": [[[0.5] * 16] * 16]}, "/pixel_values", ["[1, 16, 16]", "3, 16, 16]"]),
    ("vit", {"input_ids": [1]}, "/input_ids", ["pixel_values"]),
]


def wrong_requests(binary, golden):
    arguments = [word for name in ("bert", "roberta", "vit") for word in ("--model", "%s=%s" % (name, os.path.join(golden, name)))]
    with Attnd(binary, arguments) as server:
        for path in ("/v1/forward", "/v1/heads/stats"):
            for model, members, pointer, words in REQUESTS:
                place = "%s %s %.80s" % (path, model, json.dumps(members))
                reply = server.post(path, {"weights": model, **members})
                said = json.loads(reply.body)
                check(reply.status == 422, place, "status %d" % reply.status)
                check(pointer is None or said.get("pointer") == pointer, place, "the pointer is %r, expected %r" % (said.get("pointer"), pointer))
                for word in words:
                    check(word in said.get("detail", ""), place, "%r is not in: %s" % (word, said.get("detail")))


def main():
    binary, golden = sys.argv[1], os.path.abspath(os.path.join(sys.argv[2], "models", "tiny"))
    with tempfile.TemporaryDirectory() as scratch:
        wrong_folders(binary, golden, scratch)
        extra_tensors(binary, golden, scratch)
    wrong_requests(binary, golden)
    print("\n".join(faults[:40]) or "%d folders and %d requests, no fault" % (len(FOLDERS), len(REQUESTS)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
