#!/usr/bin/env python3
"""Model folders as weight sets, from outside: served without a configuration file, described, asked in the Open Inference Protocol, and
reloaded while their files change. usage: check_model_sets.py BINARY GOLDEN"""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from attnd_process import Attnd  # noqa: E402

JSON = {"Content-Type": "application/json"}
TOKEN = {"Authorization": "Bearer secret", **JSON}


def expect(what, got, wanted):
    if got != wanted:
        raise SystemExit("%s: %.300r, expected %.300r" % (what, got, wanted))


def said(reply):
    return json.loads(reply.body)


def forward(server, **members):
    reply = server.post("/v1/forward", members)
    return reply.status, said(reply)


def without_a_file(binary, folder):
    """Two by the flag, of which the first serves requests that name none; then the same by the variable."""
    flags = ["--model", "bert=" + folder("bert"), "--model=picture=" + folder("vit") + "/"]
    variable = {"ATTND_MODELS": "bert=%s, picture=%s" % (folder("bert"), folder("vit"))}
    for arguments, environment in ((flags, {}), ([], variable)):
        with Attnd(binary, arguments, environment) as server:
            bert, picture = said(server.request("GET", "/v1/weights"))["weights"]
            facts = ("name", "source", "num_layers", "vocab_size", "max_positions", "inputs", "dtype")
            expect("bert", [bert.get(fact) for fact in facts],
                   ["bert", "huggingface:bert", 2, 96, 24, ["input", "input_ids", "inputs_embeds", "token_type_ids", "position_ids"], "f32"])
            expect("vit", [picture.get(fact) for fact in facts], ["picture", "huggingface:vit", 2, None, 17, ["input", "pixel_values"], "f32"])
            status, answer = forward(server, input_ids=[[1, 2, 3]], include_layers=[1], **{"return": ["attention", "hidden_states"]})
            expect("status", status, 200)
            expect("shapes", answer["shapes"], {"attention": [1, 1, 4, 3, 3], "hidden_states": [1, 3, 3, 32]})
            expect("weights", answer["weights"], "bert")
            unused = [json.loads(line) for line in server.log if "unused_tensors" in line]
            expect("unused", [line["weights"] for line in unused], ["bert", "picture"])
            expect("bert's pooler", "bert.pooler.dense.weight" in unused[0]["tensors"], True)


def wrong_flags(binary, folder):
    for arguments, words in ((["--model", "bert"], "NAME=PATH"), (["--model", "a=/nowhere"], "/nowhere"), (["--model", "a b=" + folder("bert")], "letters"),
                             (["--model", "a=" + folder("bert"), "--model", "a=" + folder("vit")], "taken")):
        ended = subprocess.run([binary, "--check-config", *arguments], capture_output=True, text=True, env={})
        expect(" ".join(arguments), (ended.returncode, "--model" in ended.stderr and words in ended.stderr), (2, True))
    plan = subprocess.run([binary, "--check-config", "--model", "a=" + folder("bert")], capture_output=True, text=True, env={})
    expect("plan", (plan.returncode, "a (default), huggingface:bert, 2 layers, d_model 32" in plan.stdout), (0, True))


def inference_protocol(server):
    """Ids as numbers and as bytes, hidden_states by name, errors at their place."""
    model = said(server.request("GET", "/v2/models/m"))
    expect("inputs", [tensor["name"] for tensor in model["inputs"]][:2], ["input_ids", "token_type_ids"])
    expect("attention", next(t["shape"] for t in model["outputs"] if t["name"] == "attention"), [-1, 2, 4, -1, -1])
    outputs = [{"name": "hidden_states"}, {"name": "output"}]
    ids = {"name": "input_ids", "shape": [1, 4], "datatype": "INT64"}
    types = {"name": "token_type_ids", "shape": [1, 4], "datatype": "INT32", "data": [0, 0, 1, 1]}
    first = server.post("/v2/models/m/infer", {"inputs": [{**ids, "data": [5, 6, 7, 8]}, types], "outputs": outputs})
    expect("infer", first.status, 200)
    expect("shapes", [tensor["shape"] for tensor in said(first)["outputs"]], [[1, 3, 4, 32], [1, 4, 32]])
    text = json.dumps({"inputs": [{**ids, "parameters": {"binary_data_size": 32}}, types], "outputs": outputs}).encode()
    other = server.request("POST", "/v2/models/m/infer", text + struct.pack("<4q", 5, 6, 7, 8), {**JSON, "Inference-Header-Content-Length": str(len(text))})
    expect("as bytes", said(other), said(first))
    for data, place in (([5, 6, 7, 96], "/inputs/0"), ([5, 6, 7, 1.5], "/inputs/0/data/3")):
        reply = server.post("/v2/models/m/infer", {"inputs": [{**ids, "data": data}]})
        expect("refused", (reply.status, place in said(reply)["error"]), (400, True))


def reloads(server, folder, served):
    """Another model in its place, a broken one that is not taken, and importance that a reload forgets."""
    first = said(server.request("GET", "/v1/weights/m"))
    expect("the same", said(server.request("POST", "/v1/weights/m/reload", b"", TOKEN))["digest"], first["digest"])
    shutil.rmtree(served)
    shutil.copytree(folder("gpt2"), served)
    other = said(server.request("POST", "/v1/weights/m/reload", b"", TOKEN))
    expect("another", (other["digest"] != first["digest"], other["num_layers"], other["causal"]), (True, 3, True))
    keeps = {"weights": "m", "input_ids": [1, 2], "keep_heads": {"count": 1, "by": "importance"}}
    expect("nothing stored", forward(server, **keeps)[1]["pointer"], "/keep_heads/by")
    put = server.request("PUT", "/v1/weights/m/head_importance", json.dumps([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]).encode(), TOKEN)
    expect("stored", put.status, 200)
    expect("kept", forward(server, **keeps)[1]["heads_used"], [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
    config = os.path.join(served, "config.json")
    os.rename(config, config + ".away")
    broken = server.request("POST", "/v1/weights/m/reload", b"", TOKEN)
    expect("broken", (broken.status, said(broken)["pointer"], "config.json" in said(broken)["detail"]), (422, "/path", True))
    expect("still served", forward(server, **keeps)[0], 200)
    os.rename(config + ".away", config)
    server.process.send_signal(signal.SIGHUP)
    server.wait_for_log('"loaded":["m"]')
    expect("forgotten", forward(server, **keeps)[0], 422)


def lower_rank(server, folder, served):
    """A folder whose heads' rank is lowered: how it is described, the original for who asks, another rank's model after a reload."""
    rule = {"kind": "svd", "rank": 3, "values": True}
    described = said(server.request("GET", "/v1/weights/low"))
    expect("described", [described.get(fact) for fact in ("low_rank", "d_k", "d_v", "num_layers")], [rule, 8, 8, 2])
    outputs = {tensor["name"]: tensor["shape"] for tensor in said(server.request("GET", "/v2/models/low"))["outputs"]}
    expect("listed", [outputs[name] for name in ("heads", "query", "attention")], [[-1, 2, 4, -1, 3], [-1, 2, 4, -1, 3], [-1, 2, 4, -1, -1]])
    ids = {"name": "input_ids", "shape": [1, 4], "datatype": "INT64", "data": [5, 6, 7, 8]}
    answer = server.post("/v2/models/low/infer", {"inputs": [ids], "outputs": [{"name": "heads"}, {"name": "output"}]})
    expect("inferred", [tensor["shape"] for tensor in said(answer)["outputs"]], [[1, 2, 4, 4, 3], [1, 4, 32]])
    asked = {"input_ids": [[5, 6, 7, 8]], "return": ["output", "heads", "hidden_states"]}
    original = forward(server, weights="m", **asked)[1]
    lower, full = (forward(server, weights="low", **asked, **rules)[1] for rules in ({}, {"low_rank": None}))
    expect("shapes", [answer["shapes"]["heads"][-1] for answer in (original, lower, full)], [8, 3, 8])
    expect("the original", [full[name] == original[name] for name in asked["return"]], [True] * 3)
    expect("another output", lower["output"] != original["output"], True)
    expect("asked for svd", forward(server, weights="low", **asked, low_rank=rule)[1]["pointer"], "/low_rank/kind")
    for name, status in (("gpt2", 200), ("llama", 422)):
        shutil.rmtree(served)
        shutil.copytree(folder(name), served)
        loaded = server.request("POST", "/v1/weights/low/reload", b"", TOKEN)
        expect(name, loaded.status, status)
    expect("rope", (said(loaded)["pointer"], "position rope" in said(loaded)["detail"]), ("/low_rank", True))
    expect("still served", forward(server, weights="low", **asked)[1]["shapes"]["heads"], [1, 3, 4, 4, 3])
    shutil.rmtree(served)
    shutil.copytree(folder("gpt2"), served)


def main():
    binary, golden = sys.argv[1], os.path.abspath(os.path.join(sys.argv[2], "models", "tiny"))

    def folder(name):
        return os.path.join(golden, name)

    without_a_file(binary, folder)
    wrong_flags(binary, folder)
    with tempfile.TemporaryDirectory() as scratch:
        served = os.path.join(scratch, "model")
        shutil.copytree(folder("bert"), served)
        shutil.copytree(folder("bert"), served + "-low")
        with open(os.path.join(scratch, "token"), "w") as file:
            file.write("secret")
        with open(os.path.join(scratch, "attnd.json"), "w") as file:
            json.dump({"admin": {"token_file": "token"}, "weights": [{"name": "m", "source": "huggingface", "path": "model"},
                                                                            {"name": "low", "source": "huggingface", "path": "model-low",
                                                                             "low_rank": {"kind": "svd", "rank": 3, "values": True}}]}, file)
        with Attnd(binary, ["--config", os.path.join(scratch, "attnd.json")]) as server:
            inference_protocol(server)
            lower_rank(server, folder, served + "-low")
            reloads(server, folder, served)
    print("two ways to serve folders, four wrong ones, and what comes of changing files")


if __name__ == "__main__":
    main()
