#!/usr/bin/env python3
"""A client of attnd that needs nothing but Python. usage: client.py [BASE_URL]

It asks for the attention of four tokens twice, with JSON numbers and with base64, prints what came back, and compares the two. Then
it sends a request that is wrong on purpose, to show what an error looks like. Exit code 0 when all went as it should."""
import base64
import json
import math
import struct
import sys
import time
import urllib.error
import urllib.request

ATTEMPTS = 5


class Problem(Exception):
    """An error of the service: the members of its RFC 9457 document."""

    def __init__(self, status, document):
        super().__init__(document.get("detail", "status %d" % status))
        self.status = status
        self.detail = document.get("detail")
        self.pointer = document.get("pointer")
        self.request_id = document.get("instance")


def post(base, path, document):
    """Posts JSON and returns the answer's JSON. A busy server (429, 503) is asked again after the time it names."""
    body = json.dumps(document).encode()
    for attempt in range(1, ATTEMPTS + 1):
        request = urllib.request.Request(base + path, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read()
            if error.code in (429, 503) and attempt < ATTEMPTS:
                seconds = error.headers.get("Retry-After", "1")
                time.sleep(int(seconds) if seconds.isdigit() else 1)
                continue
            is_problem = error.headers.get_content_type() == "application/problem+json"
            raise Problem(error.code, json.loads(text) if is_problem else {}) from None


def to_base64(values, shape):
    """Numbers in row-major order as the tensor form that costs the least to send."""
    raw = struct.pack("<%df" % len(values), *values)
    return {"shape": shape, "dtype": "f32", "base64": base64.b64encode(raw).decode()}


def from_base64(tensor):
    raw = base64.b64decode(tensor["base64"])
    return struct.unpack("<%df" % (len(raw) // 4), raw)


def flat(tensor):
    for item in tensor:
        if isinstance(item, list):
            yield from flat(item)
        else:
            yield item


def main():
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    base = (sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080").rstrip("/")
    n_tokens, d_model = 4, 64
    tokens = [[math.sin(0.1 * i * (j + 1)) for j in range(d_model)] for i in range(n_tokens)]

    answer = post(base, "/v1/forward", {"input": tokens, "id": "python"})
    print("weights %(weights)s, shapes %(shapes)s" % answer)
    for head, rows in enumerate(answer["attention"]):
        print("head %d: the last token attends to %s" % (head, " ".join("%.3f" % weight for weight in rows[-1])))

    packed = to_base64([value for token in tokens for value in token], [n_tokens, d_model])
    same = post(base, "/v1/forward", {"input": packed, "return": ["output"], "encoding": "base64"})
    print("base64: shapes %(shapes)s, timing in us %(timing_us)s" % same)
    difference = max(abs(a - b) for a, b in zip(flat(answer["output"]), from_base64(same["output"])))
    print("largest difference between the two outputs: %g" % difference)
    if difference > 1e-5:
        print("the two outputs differ", file=sys.stderr)
        return 1

    try:
        post(base, "/v1/forward", {"input": [[1.0, 2.0, 3.0]]})
    except Problem as problem:
        print("a wrong request is answered with %d at %s: %s" % (problem.status, problem.pointer, problem.detail))
        return 0
    print("a wrong request was not refused", file=sys.stderr)
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Problem, OSError) as error:
        print("failed: %s" % error, file=sys.stderr)
        sys.exit(1)
