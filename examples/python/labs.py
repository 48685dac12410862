#!/usr/bin/env python3
"""The four labs of README.md in a program that needs nothing but Python. usage: labs.py [BASE_URL]

The server must have the weight sets of config/examples/labs.json: scripts/serve --config config/examples/labs.json. Change the inputs
here, or the maps in examples/maps.json, and see what becomes of the numbers."""
import json
import os
import sys

from client import Problem, post

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def load(name):
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
        return json.load(file)


def numbers(row, decimals=2):
    return " ".join("%.*f" % (decimals, x) for x in row)


def attention_without_projections(base):
    print("1. Attention without projections: the weights of each query, head by head")
    tokens = [[1, 0, 2, 0], [0, 1, 0, 2]]
    answer = post(base, "/v1/forward", {"weights": "plain", "query": tokens, "key": tokens, "value": [[1, 2, 3, 4], [5, 6, 7, 8]]})
    for head, rows in enumerate(answer["attention"]):
        for query, row in enumerate(rows):
            print("head %d, query %d: %s" % (head, query, numbers(row, 4)))


def head_dimension(base):
    print("2. The head dimension: the same tokens in 1 to 64 heads, means over the heads")
    for wanted in (1, 4, 16, 64):
        heads = post(base, "/v1/heads/stats", {**load("request.json"), "weights": "heads-%d" % wanted})["heads"]
        self_mass, keys = (sum(head[name] for head in heads) / len(heads) for name in ("self_mass", "effective_keys"))
        print("%2d heads, d_k %2d: %.3f on itself, %.3f keys" % (len(heads), 64 // len(heads), self_mass, keys))


def distance_of_attention(base, maps):
    print("3. The distance of attention, in tokens: the mean, and by position")
    for head in post(base, "/v1/heads/stats", {**maps, "per_position": True})["heads"]:
        print("head %d: %.3f | %s" % (head["head"], head["distance"], numbers(head["distance_per_position"][0])))


def similarity_of_heads(base, maps):
    print("4. The cosine similarity of the same heads")
    answer = post(base, "/v1/heads/similarity", {**maps, "threshold": 0.75})
    for head, row in zip(answer["heads"], answer["similarity"]):
        print("head %d: %s" % (head, numbers(row, 3)))
    print("clusters: %s" % answer["clusters"])


def main():
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    base = (sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080").rstrip("/")
    try:
        attention_without_projections(base)
        head_dimension(base)
        maps = load("maps.json")
        distance_of_attention(base, maps)
        similarity_of_heads(base, maps)
    except (Problem, OSError) as error:
        print("%s: %s" % (base, error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
