#!/usr/bin/env python3
"""Holds the server to its description. usage: check_openapi.py BINARY OPENAPI [VERSION]

The served document must be the file OPENAPI, be well-formed OpenAPI 3.1, and carry the project's VERSION where that is given. Every
example in it is posted. Every answer, to good requests and to bad ones, must have a status that the description lists for the route,
the media type it lists for the status, a body that its schema accepts, and the headers it requires. Exit code 77 (skipped) when
python3-jsonschema is not there, unless CI is "true"."""
import json
import os
import re
import struct
import sys

try:
    import jsonschema
except ImportError:
    # Debian's package serves Debian's interpreter, which need not be the first in the path.
    other = "/usr/bin/python3"
    if os.path.exists(other) and os.path.realpath(other) != os.path.realpath(sys.executable):
        os.execv(other, [other, *sys.argv])
    print("python3-jsonschema is not installed")
    sys.exit(1 if os.environ.get("CI") == "true" else 77)

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from attnd_process import Attnd  # noqa: E402

Validator = jsonschema.Draft202012Validator
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
faults, checks = [], 0


def check(right, place, text):
    global checks
    checks += 1
    if not right:
        faults.append("%s: %s" % (place, text))
    return right


def no_constant(name):
    raise ValueError("%s is not JSON" % name)


def read_json(text):
    return json.loads(text, parse_constant=no_constant)


# ---- the document by itself

def resolve(document, reference):
    node = document
    for part in reference[2:].split("/"):
        node = node[part.replace("~1", "/").replace("~0", "~")]
    return node


def whole(document, node):
    """The node that a reference object stands for."""
    while "$ref" in node:
        node = resolve(document, node["$ref"])
    return node


def validator(document, schema):
    return Validator({"allOf": [schema], "components": document["components"]})


def first_error(document, schema, value):
    """None, or the first thing that is wrong with the value, shortly."""
    error = jsonschema.exceptions.best_match(validator(document, schema).iter_errors(value))
    return error and "%s at /%s" % (error.message[:300], "/".join(map(str, error.absolute_path)))


def check_references(document, node, place):
    if isinstance(node, dict):
        reference = node.get("$ref")
        if isinstance(reference, str):
            try:
                resolve(document, reference)
                check(reference.startswith("#/"), place, "%s is not within the document" % reference)
            except (KeyError, TypeError):
                check(False, place, "%s leads nowhere" % reference)
        for name, child in node.items():
            if name not in ("example", "examples", "value"):
                check_references(document, child, "%s/%s" % (place, name))
    elif isinstance(node, list):
        for index, child in enumerate(node):
            check_references(document, child, "%s/%d" % (place, index))


def check_schema(schema, place):
    try:
        Validator.check_schema(schema)
        check(True, place, "")
    except jsonschema.exceptions.SchemaError as error:
        check(False, place, "not a JSON Schema: %s" % error.message)


def check_operation(document, path, method, operation, names):
    place = "%s %s" % (method.upper(), path)
    name = operation.get("operationId")
    check(isinstance(name, str) and name not in names, place, "operationId %r is missing or not unique" % name)
    names.add(name)
    declared = set()
    for parameter in (whole(document, p) for p in operation.get("parameters", [])):
        check({"name", "in", "schema"} <= set(parameter), place, "a parameter without name, in or schema")
        check(parameter["in"] != "path" or parameter.get("required") is True, place, "a path parameter that is not required")
        check_schema(parameter["schema"], place)
        declared |= {parameter["name"]} if parameter["in"] == "path" else set()
    check(declared == set(re.findall(r"\{([^}]+)\}", path)), place, "path parameters %s do not fit the path" % sorted(declared))
    check(operation.get("responses"), place, "no responses")
    for status, response in operation["responses"].items():
        response = whole(document, response)
        check(re.fullmatch(r"[1-5][0-9]{2}", status), place, "status %r" % status)
        check(isinstance(response.get("description"), str) and response["description"], place, "%s has no description" % status)
        for media in response.get("content", {}).values():
            check_schema(media["schema"], place)
            if "example" in media:
                error = first_error(document, media["schema"], media["example"])
                check(error is None, place, "the example of %s: %s" % (status, error))
    for media in operation.get("requestBody", {}).get("content", {}).values():
        check_schema(media["schema"], place)
        for title, example in media.get("examples", {}).items():
            error = first_error(document, media["schema"], example["value"])
            check(error is None, place, "the example %s does not fit its own schema: %s" % (title, error))


def check_document(document, version):
    check(re.fullmatch(r"3\.1\.\d+", document.get("openapi", "")), "openapi", "expected 3.1.x, got %r" % document.get("openapi"))
    check({"title", "version"} <= set(document.get("info", {})), "info", "title or version is missing")
    check(version is None or document["info"]["version"] == version, "info",
          "version %s, but the project's is %s" % (document["info"]["version"], version))
    check_references(document, document, "#")
    for name, schema in document["components"]["schemas"].items():
        check_schema(schema, "schema " + name)
    names = set()
    for path, item in document["paths"].items():
        check(path.startswith("/"), path, "a path begins with /")
        for method, operation in item.items():
            if check(method in METHODS, path, "%r is no method" % method):
                check_operation(document, path, method, operation, names)


# ---- the answers

def check_reply(document, path, method, reply, status, place):
    """path: as the description has it. status: what is expected; None: any that is described."""
    if not check(status in (None, reply.status), place,
                 "expected status %s, got %d: %s" % (status, reply.status, reply.body[:300])):
        return None
    responses = document["paths"][path][method]["responses"]
    if not check(str(reply.status) in responses, place, "status %d is not described" % reply.status):
        return None
    response = whole(document, responses[str(reply.status)])
    for name, header in response.get("headers", {}).items():
        header = whole(document, header)
        value = reply.headers.get(name.lower())
        check(value is not None or not header.get("required"), place, "no header %s" % name)
        error = value is not None and first_error(document, header["schema"], value)
        check(not error, place, "header %s: %s" % (name, error))
    media = response.get("content", {}).get(reply.media_type)
    if not check(media is not None, place, "media type %r is not described for %d" % (reply.media_type, reply.status)):
        return None
    if not reply.media_type.endswith("json"):
        return None
    try:
        body = read_json(reply.body.decode("utf-8"))
    except ValueError as error:
        check(False, place, "the body is not JSON: %s" % error)
        return None
    error = first_error(document, media["schema"], body)
    check(error is None, place, "the answer does not fit its schema: %s" % error)
    if reply.media_type == "application/problem+json":
        check(body.get("status") == reply.status, place, "member status is %r" % body.get("status"))
        check(body.get("error") == body.get("detail"), place, "error and detail differ")
        check(body.get("instance") == reply.headers.get("x-request-id"), place, "instance is not the x-request-id")
    return body


def shape_of(tensor):
    shape = []
    while isinstance(tensor, list):
        shape.append(len(tensor))
        tensor = tensor[0]
    return shape


def real_path(document, path, operation):
    """The path with the examples of its parameters in it."""
    for parameter in (whole(document, p) for p in operation.get("parameters", [])):
        if parameter["in"] == "path":
            path = path.replace("{%s}" % parameter["name"], parameter["example"])
    return path


def check_examples(server, document):
    posted = 0
    for path, item in document["paths"].items():
        for media_type, media in item.get("post", {}).get("requestBody", {}).get("content", {}).items():
            for title, example in media.get("examples", {}).items():
                place, request = "example %s of %s" % (title, path), example["value"]
                real = real_path(document, path, item["post"])
                reply = server.request("POST", real, json.dumps(request), {"Content-Type": media_type})
                body = check_reply(document, path, "post", reply, 200, place)
                posted += 1
                if body is None or path != "/v1/forward":
                    continue
                check(body.get("id") == request.get("id"), place, "id %r for %r" % (body.get("id"), request.get("id")))
                wanted = request.get("return", ["output", "attention"])
                if request.get("dropout") and "output" in wanted:
                    wanted = wanted + ["output_std"]
                if request.get("keep_heads"):
                    wanted = wanted + ["heads_used"]
                check(set(body["shapes"]) == set(wanted), place, "shapes of %s for %s" % (sorted(body["shapes"]), wanted))
                for name in wanted:
                    tensor = body.get(name)
                    shape = tensor.get("shape") if isinstance(tensor, dict) else shape_of(tensor)
                    if name == "attention" and "top_k" in request:
                        check(isinstance(tensor, dict) and tensor.get("top_k") == request["top_k"], place,
                              "attention is not in top_k form")
                    check(shape == body["shapes"].get(name), place,
                          "%s has shape %s, shapes says %s" % (name, shape, body["shapes"].get(name)))
    check(posted > 0, "examples", "there is none")


def check_members(server, document):
    """What a request's schema has are the members that the route knows, as its answer to an unknown one lists them."""
    compared = 0
    for path, item in document["paths"].items():
        media = item.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json")
        if not media or not path.startswith("/v1/") or path == "/v1/heads/merge":
            continue
        described = set(whole(document, media["schema"]).get("properties", {}))
        reply = server.post(path, {"no such member, nor one like it": 0})
        listed = set(re.findall(r'"([a-z_0-9]+)"', read_json(reply.body)["detail"].partition("the members here are")[2]))
        listed -= {"attention"} if path == "/v1/heads/importance" else set()  # known, to say why it is not taken
        check(listed == described, path, "only the schema has %s, only the server %s" % (sorted(described - listed), sorted(listed - described)))
        compared += 1
    check(compared >= 6, "members", "only %d routes were asked" % compared)


# What a forward is computed from: one of these, or query and key.
ALTERNATIVES = {"input": [[0.5]], "input_ids": [1, 2], "inputs_embeds": [[0.5]], "pixel_values": [[[0.5]]]}


def check_alternatives(document):
    """The schemas of requests take each input by itself, no two of them, and no input beside maps."""
    for name in ("ForwardRequest", "StatsRequest", "SimilarityRequest", "LinksRequest", "RolloutRequest", "ImportanceRequest"):
        schema = {"$ref": "#/components/schemas/" + name}
        takes = lambda request: first_error(document, schema, request) is None
        for one, value in ALTERNATIVES.items():
            check(takes({one: value}), name, "%s is not taken" % one)
            for other in ALTERNATIVES.keys() - {one}:
                check(not takes({one: value, other: ALTERNATIVES[other]}), name, "%s and %s are taken" % (one, other))
            check(not takes({one: value, "query": [[1]], "key": [[1]]}), name, "%s and query are taken" % one)
            check(not takes({one: value, "attention": [[[1]]]}), name, "%s and attention are taken" % one)
        if name not in ("ForwardRequest", "ImportanceRequest"):
            check(takes({"attention": [[[[[1]]]]], "attention_mask": [[1]]}), name, "maps of many layers are not taken")
            for beside, value in {"token_type_ids": [0], "position_ids": [0], "pattern": None, "head_mask": [1]}.items():
                check(not takes({"attention": [[[1]]], beside: value}), name, "attention and %s are taken" % beside)


def check_files(server, document):
    """A safetensors file is taken and given where the description says so, and is a problem where it is none."""
    kind = "application/x-safetensors"
    header = b'{"input":{"dtype":"F32","shape":[1,64],"data_offsets":[0,256]}}'
    body = struct.pack("<Q", len(header)) + header + struct.pack("<64f", *[0.5] * 64)
    for path, item in document["paths"].items():
        operation = item.get("post", {})
        if kind not in operation.get("requestBody", {}).get("content", {}):
            continue
        place = "a file to " + path
        reply = server.request("POST", path, body, {"Content-Type": kind, "Accept": kind})
        check_reply(document, path, "post", reply, 200, place)
        described = kind in whole(document, operation["responses"]["200"])["content"]
        check(reply.media_type == (kind if described else "application/json"), place, "answered with %s" % reply.media_type)
        check_reply(document, path, "post", server.request("POST", path, body[:-1], {"Content-Type": kind, "Accept": kind}), 400, place + ", cut")


def check_gets(server, document):
    for path, item in document["paths"].items():
        if "get" not in item:
            continue
        place = "GET " + path
        real = real_path(document, path, item["get"])
        reply = server.request("GET", real)
        check_reply(document, path, "get", reply, 200, place)
        head = server.request("HEAD", real)
        check(head.status == 200, "HEAD " + path, "expected 200, got %d" % head.status)
        for name in ("content-type", "content-length")[:1 if path == "/metrics" else 2]:  # its length is never the same
            check(head.headers.get(name) == reply.headers.get(name), "HEAD " + path,
                  "%s is %r, for GET %r" % (name, head.headers.get(name), reply.headers.get(name)))
        refused = server.request("DELETE", real)
        check_reply(document, path, "get", refused, 405, "DELETE " + path)
        check({"GET", "HEAD"} <= set(re.split(r"\s*,\s*", refused.headers.get("allow", ""))), "DELETE " + path,
              "Allow is %r" % refused.headers.get("allow"))
    named = "/v1/weights/{name}"
    body = check_reply(document, named, "get", server.request("GET", "/v1/weights/dmeo"), 404, "GET an unknown weight set")
    check(body and "demo" in body["detail"], "GET an unknown weight set", "the detail does not list the known names")


def check_inference(server, document):
    """Bytes in and out where the description says so, and each kind of error that a request can bring about."""
    row = [0.5] * 64
    tensor = {"name": "input", "shape": [1, 64], "datatype": "FP32"}
    head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": 256}}], "parameters": {"binary_data_output": True}}).encode()
    length = {"Inference-Header-Content-Length": str(len(head))}
    of = lambda **members: json.dumps({"inputs": [{**tensor, "data": row}], **members})
    for path, item in document["paths"].items():
        if "application/octet-stream" not in item.get("post", {}).get("requestBody", {}).get("content", {}):
            continue
        real = real_path(document, path, item["post"])
        place = "bytes to " + path
        reply = server.request("POST", real, head + struct.pack("<64f", *row), length)
        check_reply(document, path, "post", reply, 200, place)
        size = int(reply.headers.get("inference-header-content-length", 0))
        if check(reply.media_type == "application/octet-stream" and size > 0, place, "answered with %s" % reply.media_type):
            schema = document["components"]["schemas"]["InferAnswer"]
            answer = read_json(reply.body[:size].decode("utf-8"))
            error = first_error(document, schema, answer)
            check(error is None, place, "the JSON does not fit its schema: %s" % error)
            check(sum(o["parameters"]["binary_data_size"] for o in answer["outputs"]) == len(reply.body) - size, place, "another length")
        for name, url, body, headers, status in (
                ("half a document", real, "{", {}, 400), ("no inputs", real, '{"inputs": []}', {}, 400), ("an unknown output", real, of(outputs=[{"name": "outptu"}]), {}, 400),
                ("an unknown model", real.replace("demo", "dmeo"), of(), {}, 404), ("text/csv", real, of(), {"Content-Type": "text/csv"}, 415),
                ("an unknown expectation", real, of(), {"Expect": "wonders"}, 417), ("a header that is no number", real, of(), {"Inference-Header-Content-Length": "-1"}, 400)):
            check_reply(document, path, "post", server.request("POST", url, body, headers), status, "%s to %s" % (name, path))
        refused = server.request("GET", real)
        check_reply(document, path, "post", refused, 405, "GET " + path)
    path = "/v2/repository/index"
    check_reply(document, path, "post", server.request("POST", path, "", {}), 200, "an empty body to " + path)
    check_reply(document, path, "post", server.request("POST", path, '{"ready": 1}', {}), 400, "a number to " + path)
    check_reply(document, path, "post", server.request("DELETE", path), 405, "DELETE " + path)
    for path, item in document["paths"].items():
        if "get" in item and "{model}" in path:
            unknown = server.request("GET", real_path(document, path, item["get"]).replace("demo", "dmeo"))
            check_reply(document, path, "get", unknown, 404, "an unknown model at " + path)


def bad_requests():
    """name, body, headers, the status expected, the pointer expected (None: not compared)."""
    json_type, row = {"Content-Type": "application/json"}, [0.5] * 64
    of = lambda **members: json.dumps(members)
    yield "an empty body", "", json_type, 400, None
    yield "half a document", '{"input": [[', json_type, 400, None
    yield "a member twice", '{"weights": "demo", "weights": "demo", "input": [[0]]}', json_type, 400, None
    yield "NaN", '{"input": [[NaN]]}', json_type, 400, None
    yield "bad base64", of(input={"shape": [1, 64], "dtype": "f32", "base64": "@@@@"}), json_type, 400, None
    yield "an unknown weight set", of(weights="dmeo", input=[row]), json_type, 404, None
    yield "text/csv", of(input=[row]), {"Content-Type": "text/csv"}, 415, None
    yield "an unknown expectation", of(input=[row]), {**json_type, "Expect": "wonders"}, 417, None
    yield "a body that is no object", "[]", json_type, 422, None
    yield "no input", "{}", json_type, 422, None
    yield "an unknown member", of(input=[row], attention_masks=[1]), json_type, 422, "/attention_masks"
    yield "an unknown member with / and ~", of(**{"input": [row], "a/b~c": 1}), json_type, 422, "/a~1b~0c"
    yield "a wrong width", of(input=[row[:63]]), json_type, 422, "/input"
    yield "a ragged array", of(input=[row, row[:63]]), json_type, 422, "/input/1"
    yield "a string among numbers", of(input=[row[:63] + ["1"]]), json_type, 422, "/input/0/63"
    yield "a number beyond float32", of(input=[row[:63] + [1e39]]), json_type, 422, "/input/0/63"
    yield "head 99", of(input=[row], include_heads=[99]), json_type, 422, "/include_heads/0"
    yield "a pattern of no kind", of(input=[row], pattern={"kind": "windw"}), json_type, 422, "/pattern/kind"
    yield "half a window", of(input=[row], pattern={"kind": "window", "left": 1}), json_type, 422, "/pattern"
    yield "half a position", of(input=[row], position_ids=[0.5]), json_type, 422, "/position_ids/0"
    yield "more heads than there are", of(input=[row], keep_heads={"count": 9}), json_type, 422, "/keep_heads/count"
    yield "too many decimals", of(input=[row], decimals=10), json_type, 422, "/decimals"
    yield "input beside query", of(input=[row], query=[row]), json_type, 422, None


def check_bad_requests(server, document):
    path = "/v1/forward"
    for name, text, headers, status, pointer in bad_requests():
        body = check_reply(document, path, "post", server.request("POST", path, text, headers), status, name)
        if body is not None and pointer is not None:
            check(body.get("pointer") == pointer, name, "expected the pointer %s, got %r" % (pointer, body.get("pointer")))
    refused = server.request("GET", path)
    check_reply(document, path, "post", refused, 405, "GET " + path)
    check("POST" in refused.headers.get("allow", ""), "GET " + path, "Allow is %r" % refused.headers.get("allow"))
    unknown = server.request("GET", "/v1/nope")
    check(unknown.status == 404 and unknown.media_type == "application/problem+json", "GET /v1/nope",
          "expected a 404 problem, got %d %s" % (unknown.status, unknown.media_type))


def check_limits(binary, document):
    with Attnd(binary, environment={"ATTND_LIMITS_MAX_BODY_BYTES": "1000"}) as server:
        reply = server.post("/v1/forward", {"input": [[0.123456789] * 64] * 4})
        body = check_reply(document, "/v1/forward", "post", reply, 413, "a body over its limit")
        check(body and "max_body_bytes" in body["detail"] and "1000" in body["detail"], "a body over its limit",
              "the detail does not name the limit and its value")


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    binary, path, version = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) == 4 else None
    with open(path, encoding="utf-8") as file:
        document = read_json(file.read())
    check_document(document, version)
    check_alternatives(document)
    if not faults:
        with Attnd(binary) as server:
            served = read_json(server.request("GET", "/openapi.json").body.decode("utf-8"))
            check(served == document, "GET /openapi.json", "the served document is not the file %s" % os.path.basename(path))
            check_examples(server, document)
            check_members(server, document)
            check_files(server, document)
            check_gets(server, document)
            check_bad_requests(server, document)
            check_inference(server, document)
            check(server.process.poll() is None, "the server", "it ended with exit code %s" % server.process.poll())
        check_limits(binary, document)
    print("\n".join(faults) or "%d checks of the description and the answers, no fault" % checks)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
