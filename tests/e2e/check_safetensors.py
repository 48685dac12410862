#!/usr/bin/env python3
"""Safetensors in and out of the real server, with files made and read by struct alone. usage: check_safetensors.py BINARY GOLDEN

Golden answers within their tolerance; the same bits as base64 has, in every number format; masks in every format; errors; answers and
bodies of megabytes, many at a time. Where the package safetensors is installed with NumPy, its files too."""
import base64
import gzip
import itertools
import json
import math
import os
import struct
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
from attnd_process import Attnd  # noqa: E402

try:
    import numpy
    import safetensors.numpy
except ImportError:
    numpy = None

FORWARD, IMPORTANCE, STATS = "/v1/forward", "/v1/heads/importance", "/v1/heads/stats"
TYPE = "application/x-safetensors"
CODES = {"F32": "f", "F16": "e", "F64": "d", "I32": "i", "I64": "q", "U8": "B", "BOOL": "?"}
TENSORS = ("input", "query", "key", "value", "attention_mask", "bias", "head_mask")
RETURNS = ["output", "attention", "heads", "query", "key", "value"]
faults = []


def check(right, place, text):
    if not right:
        faults.append("%s: %s" % (place, text))
    return right


# ---- files

def flat(nested):
    return list(itertools.chain.from_iterable(map(flat, nested))) if isinstance(nested, list) else [nested]


def shape_of(nested):
    return [len(nested)] + shape_of(nested[0]) if isinstance(nested, list) else []


def to_bytes(dtype, values):
    if dtype == "BF16":
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    number = float if CODES[dtype] in "fed" else bool if dtype == "BOOL" else int
    return struct.pack("<%d%s" % (len(values), CODES[dtype]), *map(number, values))


def save(tensors, metadata=None, shift=0):
    """{name: (dtype, shape, bytes)}; the data begin `shift` bytes behind a multiple of 8."""
    header, data = {"__metadata__": metadata} if metadata is not None else {}, b""
    for name, (dtype, shape, part) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * ((shift - len(text)) % 8)
    return struct.pack("<Q", len(text)) + text + data


def load(body):
    """(metadata, {name: (dtype, shape, bytes)}); the tensors stand side by side and reach the end."""
    length = struct.unpack("<Q", body[:8])[0]
    header, data, at = json.loads(body[8:8 + length]), body[8 + length:], 0
    metadata = {key: json.loads(value) for key, value in header.pop("__metadata__").items()}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if begin != at or end - begin != 4 * math.prod(entry["shape"]) or length % 8:
            raise ValueError("%s lies at %d to %d, expected it at %d" % (name, begin, end, at))
        tensors[name], at = (entry["dtype"], entry["shape"], data[begin:end]), end
    if at != len(data):
        raise ValueError("%d bytes behind the last tensor" % (len(data) - at))
    return metadata, tensors


def convert(request, dtype="F32", mask_dtype="I64", shift=0):
    """A JSON request as a file."""
    tensors, metadata = {}, {}
    for name, value in request.items():
        if name in TENSORS:
            kind = mask_dtype if name == "attention_mask" else dtype
            tensors[name] = (kind, shape_of(value), to_bytes(kind, flat(value)))
        else:
            metadata[name] = json.dumps(value)
    return save(tensors, metadata or None, shift)


# ---- requests

def post(server, path, body, accept=TYPE):
    return server.request("POST", path, body, {"Content-Type": TYPE, "Accept": accept})


def ask(server, place, body):
    """The answer to a file, as load gives it; None where it is none."""
    reply = post(server, FORWARD, body)
    if check(reply.status == 200 and reply.media_type == TYPE, place, "%d %s" % (reply.status, reply.body[:300])):
        return load(reply.body)
    return None


def base64_answer(server, request):
    """The same from JSON: (the document, {name: (dtype, shape, bytes)})."""
    document = json.loads(server.post(FORWARD, {**request, "encoding": "base64"}).body)
    of = lambda form: (form["dtype"].upper(), form["shape"], base64.b64decode(form["base64"]))
    tensors = {}
    for name in RETURNS:
        form = document.get(name)
        if form and "top_k" in form:
            tensors["attention_keys"], tensors["attention_weights"] = of(form["keys"]), of(form["weights"])
        elif form:
            tensors[name] = of(form)
    return document, tensors


def expect_same(server, place, request, body):
    found = ask(server, place, body)
    if not found:
        return
    document, tensors = base64_answer(server, request)
    metadata, got = found
    check(list(got) == list(tensors), place, "tensors %s, expected %s" % (list(got), list(tensors)))
    for name in tensors:
        check(got.get(name) == tensors[name], place, "%s has not the bits that base64 has" % name)
    for name in ("id", "weights", "digest", "shapes", "fully_masked_rows"):
        check(metadata.get(name) == document.get(name), place,
              "%s is %r, in JSON %r" % (name, metadata.get(name), document.get(name)))
    check(set(metadata["timing_us"]) == set(document["timing_us"]), place, "timing_us is %r" % metadata["timing_us"])


# ---- the cases

def golden_cases(server, folder):
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".json"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            golden = json.load(file)
        width = golden["weights"]["d_model"]
        request = {"weights": {("numpy", 64): "demo", ("identity", 512): "wide", ("identity", 64): "narrow"}[golden["weights"]["source"], width],
                   **golden["request"]}
        for shift in (0, 4, 1):
            place = "%s, data shifted by %d" % (name, shift)
            body = convert(request, shift=shift)
            found = ask(server, place, body)
            for tensor in ("output", "attention") if found else ():
                dtype, shape, data = found[1][tensor]
                wanted = flat(golden["expect"][tensor])
                got = struct.unpack("<%df" % len(wanted), data)
                check(shape == shape_of(golden["expect"][tensor]), place, "%s has shape %s" % (tensor, shape))
                worst = max(abs(a - b) - 1e-5 * abs(b) for a, b in zip(got, wanted))
                check(worst <= 1e-5, place, "%s is off by %g" % (tensor, worst))
                check(tensor == "output" or all(a == 0 for a, b in zip(got, wanted) if b == 0), place, "a masked weight is not 0")
            expect_same(server, place, request, body)
        reply = post(server, FORWARD, convert(request), "application/json")
        document = json.loads(reply.body)
        direct = json.loads(server.post(FORWARD, request).body)
        check([document[k] for k in ("output", "attention")] == [direct[k] for k in ("output", "attention")], name,
              "a file is answered with other numbers than JSON")


# Numbers that every format has.
INPUT = [[[((7 * i + 3 * j) % 17 - 8) / 8 for j in range(64)] for i in range(5)]]


def formats(server):
    everything = {"input": INPUT, "return": RETURNS, "include_heads": [5, 0], "id": "a \"b\" \u00e9", "causal": True,
                  "bias": [[[0.5] * 5] * 5] * 8, "head_mask": [1, 0.5, 0, 1, 1, 1, -1, 1]}
    for dtype in ("F32", "F16", "BF16", "F64"):
        for shift in range(0, 8, 3):
            expect_same(server, "%s, shifted by %d" % (dtype, shift), everything, convert(everything, dtype, shift=shift))
    masked = {"input": INPUT, "attention_mask": [[1, 0, 1, 1, 0]], "id": 7}
    for dtype in ("BOOL", "U8", "I32", "I64", "F32", "F16", "BF16", "F64"):
        for shift in (0, 3):
            expect_same(server, "a mask of %s" % dtype, masked, convert(masked, mask_dtype=dtype, shift=shift))
    kept = {"input": INPUT, "top_k": 3, "return": ["attention", "output"]}
    expect_same(server, "top_k", kept, convert(kept))
    flat_input = {"input": INPUT[0], "return": ["attention", "heads"]}
    expect_same(server, "rank 2", flat_input, convert(flat_input))
    # How JSON prints numbers means nothing here.
    expect_same(server, "decimals", {"input": INPUT}, convert({"input": INPUT, "decimals": 1, "encoding": "json"}))


def accepting(server):
    body = convert({"input": INPUT})
    for accept, wanted in ((TYPE, TYPE), ("*/*", "application/json"), ("application/json, " + TYPE, "application/json"),
                           (TYPE + ", */*;q=0.5", TYPE), (TYPE + ";q=0", "application/json"), ("text/html", "application/json")):
        reply = post(server, FORWARD, body, accept)
        check((reply.status, reply.media_type) == (200, wanted), "Accept: " + accept, "%d %s" % (reply.status, reply.media_type))
    huge = server.request("POST", FORWARD, json.dumps({"input": [[3e38] * 64], "return": ["query"]}), {"Accept": TYPE})
    check(huge.status == 200, "infinity", "%d %s" % (huge.status, huge.body[:200]))
    query = struct.unpack("<64f", load(huge.body)[1]["query"][2]) if huge.status == 200 else [0]
    check(not all(map(math.isfinite, query)), "infinity", "there is none in %s" % (query,))


def compressed(server):
    request = {"input": INPUT, "return": RETURNS}
    plain = convert(request)
    reply = server.request("POST", FORWARD, gzip.compress(plain), {"Content-Type": TYPE, "Accept": TYPE, "Content-Encoding": "gzip",
                                                                   "Accept-Encoding": "gzip"})
    if check((reply.status, reply.headers.get("content-encoding")) == (200, "gzip"), "gzip", "%d %s" % (reply.status, reply.headers)):
        check(load(gzip.decompress(reply.body))[1] == base64_answer(server, request)[1], "gzip", "other bits than base64 has")


def importance(server):
    request = {"input": INPUT, "method": "zero", "prune_plan": True, "tolerance": 0.5, "id": 3}
    direct = json.loads(server.post(IMPORTANCE, request).body)
    reply = post(server, IMPORTANCE, convert(request))
    check(reply.media_type == "application/json" and json.loads(reply.body) == direct, "importance",
          "%d %s" % (reply.status, reply.body[:300]))
    maps = {"attention": ("F32", [1, 1, 1], to_bytes("F32", [1]))}
    problem(post(server, IMPORTANCE, save(maps)), "importance of maps", 422, "/attention", "input")


def maps(server):
    """Maps as float32, where they lie, and of 16 bits, whose sums may be farther from 1."""
    rows = [[0.25, 0.75], [1.0, 0.0], [0.5, 0.5], [0.125, 0.875]]
    request = {"attention": [rows[:2], rows[2:]], "exclude": [1], "include_heads": [1, 0], "stderr": True}
    direct = json.loads(server.post(STATS, request).body)
    flat = [v for row in rows for v in row]
    meta = {k: json.dumps(request[k]) for k in ("exclude", "include_heads", "stderr")}
    for dtype in ("F32", "F16", "BF16", "F64"):
        reply = post(server, STATS, save({"attention": (dtype, [2, 2, 2], to_bytes(dtype, flat))}, meta))
        check(json.loads(reply.body) == direct, "maps as " + dtype, "%d %s" % (reply.status, reply.body[:300]))
    off = [0.5, 0.501953125]                                        # exact in BF16: 2e-3 over 1
    check(post(server, STATS, save({"attention": ("BF16", [1, 1, 2], to_bytes("BF16", off))})).status == 200, "maps as BF16", "refused")
    problem(post(server, STATS, save({"attention": ("F32", [1, 1, 2], to_bytes("F32", off))})), "maps as F32", 422, "/attention/0/0", "renormalize")


def problem(reply, place, status, pointer=None, *words):
    document = json.loads(reply.body) if reply.media_type == "application/problem+json" else {}
    check(reply.status == status and document, place, "%d %s" % (reply.status, reply.body[:300]))
    check(pointer is None or document.get("pointer") == pointer, place, "pointer %r" % document.get("pointer"))
    for word in words:
        check(word in document.get("detail", ""), place, "%r is not in %r" % (word, document.get("detail")))


def errors(server):
    row = {"input": ("F32", [1, 64], bytes(256))}
    header = lambda text, data=b"": struct.pack("<Q", len(text)) + text + data
    entry = lambda **changes: header(json.dumps({"input": {"dtype": "F32", "shape": [1, 64], "data_offsets": [0, 256], **changes}}).encode(), bytes(256))
    for place, body, status, pointer, *words in (
            ("an empty body", b"", 400, None, "0 bytes"),
            ("JSON", json.dumps({"input": INPUT}).encode(), 400, None, "application/json"),
            ("a header of 2^62 bytes", struct.pack("<Q", 1 << 62) + b"{}", 400, None),
            ("a header over its limit", header(b"{" + b" " * (1 << 20) + b"}"), 413, None, "1048576"),
            ("an array", header(b"[]"), 400, None, "array"),
            ("nothing", header(b"{}"), 422, "", "input"),
            ("a name twice", header(b'{"input":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"input":1}'), 400, None, "duplicate"),
            ("a hole", entry(data_offsets=[4, 260]), 400, None, "260"),
            ("a range beyond the end", entry(data_offsets=[0, 1 << 40]), 400, None),
            ("a negative range", entry(data_offsets=[-256, 0]), 400, None, "data_offsets"),
            ("a shape that does not fit", entry(shape=[1, 63]), 400, None, "256", "252"),
            ("an unknown dtype", entry(dtype="F31"), 400, None, "F31"),
            ("a number by itself", save({"input": ("F32", [], bytes(4))}), 422, "/input", "[]"),
            ("an empty axis", save({"input": ("F32", [0, 64], b"")}), 422, "/input", "[0, 64]"),
            ("four axes", save({"input": ("F32", [1, 1, 1, 64], bytes(256))}), 422, "/input", "4"),
            ("a wrong width", save({"input": ("F32", [1, 63], bytes(252))}), 422, "/input", "63", "64"),
            ("integers", save({"input": ("I32", [1, 64], bytes(256))}), 422, "/input", "I32"),
            ("infinity", save({"input": ("F16", [1, 64], bytes(126) + b"\x00\x7c")}), 422, "/input", "63"),
            ("beyond float32", save({"input": ("F64", [1, 64], to_bytes("F64", [1e39] * 64))}), 422, "/input", "0"),
            ("2 in a mask", save({**row, "attention_mask": ("U8", [1], b"\x02")}), 422, "/attention_mask", "0"),
            ("an unknown tensor", save({"inptu": row["input"]}), 422, "/inptu", '"input"'),
            ("a member as a tensor", save({**row, "causal": ("BOOL", [1], b"\x01")}), 422, "/causal", "__metadata__"),
            ("a tensor as a member", save(row, {"head_mask": "[1]"}), 422, "/head_mask", "tensor"),
            ("an unknown member", save(row, {"casual": "true"}), 422, "/casual", '"causal"'),
            ("a bare word", save(row, {"weights": "demo"}), 400, "/weights", '"demo"'),
            ("an unknown weight set", save(row, {"weights": '"dmeo"'}), 404, None, "demo"),
            ("metadata that is no text", save(row, {"causal": True}), 400, None, "causal"),
            ("an unknown head", save(row, {"include_heads": "[3, 99]"}), 422, "/include_heads/1", "99")):
        problem(post(server, FORWARD, body), place, status, pointer, *words)
    other = server.request("POST", FORWARD, save(row), {"Content-Type": "application/x-safetensor"})
    problem(other, "another type", 415, None, "application/json", TYPE)
    expect_same(server, "what libraries write", {"input": INPUT}, save({"input": ("F32", [1, 5, 64], to_bytes("F32", flat(INPUT)))}, {"format": "pt"}))


def large(server):
    """Bodies that a worker decodes, answers that are sent in place, and small requests between them, computed together."""
    rows = [[((31 * i + 7 * j) % 257 - 128) / 128 for j in range(64)] for i in range(1500)]
    request = {"input": rows, "return": ["output", "attention"], "include_heads": [1], "causal": True}
    body, wanted = convert(request, "F32"), base64_answer(server, request)[1]
    small = [{"input": [[[(i + j + k) % 5 - 2 for k in range(64)] for j in range(1 + i)]], "id": i} for i in range(6)]
    bodies = [(convert(each, "F32"), base64_answer(server, each)[1]) for each in small]

    def run(body, wanted, times):
        for _ in range(times):
            found = ask(server, "many at a time", body)
            check(found and found[1] == wanted, "many at a time", "other bits than base64 alone has")

    threads = [threading.Thread(target=run, args=(body, wanted, 3)) for _ in range(3)]
    threads += [threading.Thread(target=run, args=(*each, 30)) for each in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def limits(binary):
    with Attnd(binary, environment={"ATTND_LIMITS_MAX_RESPONSE_BYTES": "20000"}) as server:
        # 4 bytes a number: 4096 of them fit with their header, where text would not.
        fitting = save({"input": ("F32", [64, 64], bytes(16384))}, {"return": '["output"]'})
        check(post(server, FORWARD, fitting).status == 200, "an answer within its limit", "refused")
        problem(post(server, FORWARD, fitting, "application/json"), "the same as text", 413, None, "max_response_bytes")
        problem(post(server, FORWARD, save({"input": ("F32", [80, 64], bytes(20480))}, {"return": '["output"]'})),
                "an answer over its limit", 413, None, "max_response_bytes", "20000")


def package(server):
    if numpy is None:
        print("note: no package safetensors with NumPy here, its files were not tried")
        return
    x = numpy.array(INPUT, dtype=numpy.float32)
    body = safetensors.numpy.save({"input": x, "attention_mask": numpy.ones((1, 5), dtype=bool)}, {"format": "np", "causal": "true"})
    reply = post(server, FORWARD, body)
    check(reply.status == 200, "the package", "%d %s" % (reply.status, reply.body[:300]))
    tensors = safetensors.numpy.load(reply.body)
    wanted = base64_answer(server, {"input": INPUT, "causal": True})[1]
    for name, (_, shape, data) in wanted.items():
        check(list(tensors[name].shape) == shape and tensors[name].tobytes() == data, "the package", "%s differs" % name)


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    binary, golden = sys.argv[1:]
    sets = [{"name": "demo", "source": "numpy", "seed": 42, "scale": 0.1, "d_model": 64, "num_heads": 8},
            {"name": "wide", "source": "identity", "d_model": 512, "num_heads": 8},
            {"name": "narrow", "source": "identity", "d_model": 64, "num_heads": 4}]
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump({"default_weights": "demo", "weights": sets}, file)
        file.flush()
        with Attnd(binary, ["--config", file.name]) as server:
            golden_cases(server, os.path.join(golden, "forward"))
            formats(server)
            accepting(server)
            compressed(server)
            importance(server)
            maps(server)
            errors(server)
            large(server)
            package(server)
    limits(binary)
    print("\n".join(faults) or "safetensors in and out: no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
