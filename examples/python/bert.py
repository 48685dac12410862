#!/usr/bin/env python3
"""What the heads of a BERT look at in a sentence, in a program that needs nothing but Python.
usage: bert.py [BASE_URL [TEXT [VOCABULARY]]]

The server must have a model of BERT's kind as its default: scripts/get-minilm, then scripts/serve --config build/minilm/attnd.json. attnd
takes token ids, and the model's own vocabulary makes them of a text: lower case, no accents, words and punctuation, the longest pieces
that are known. The packages `tokenizers` and `transformers` do that for every kind of model."""
import os
import sys
import unicodedata

from client import Problem, post

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
VOCABULARY = os.path.join(ROOT, "build", "minilm", "model", "vocab.txt")
MASSES = {"previous_mass": "the token before", "next_mass": "the token behind", "first_mass": "[CLS]", "self_mass": "the token itself"}


def words_of(text):
    """Lower-case words without accents; each punctuation mark is one."""
    words = [""]
    for character in unicodedata.normalize("NFD", text.lower()):
        if character.isspace():
            words.append("")
        elif unicodedata.category(character).startswith("P") or character in "$+<=>^`|~":
            words += [character, ""]
        elif unicodedata.category(character) != "Mn":
            words[-1] += character
    return [word for word in words if word]


def pieces_of(word, ids):
    """The longest known beginning, and so on; a piece that goes on with a word has ## before it."""
    pieces, at = [], 0
    while at < len(word):
        prefix = "##" if at else ""
        end = next((end for end in range(len(word), at, -1) if prefix + word[at:end] in ids), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(prefix + word[at:end])
        at = end
    return pieces


def tokens_of(text, ids):
    return ["[CLS]", *(piece for word in words_of(text) for piece in pieces_of(word, ids)), "[SEP]"]


def main():
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    base, text, vocabulary = (*sys.argv[1:], *("http://127.0.0.1:8080", "The cat sat on the mat", VOCABULARY)[len(sys.argv) - 1:])
    with open(vocabulary, encoding="utf-8") as file:
        ids = {token: i for i, token in enumerate(file.read().splitlines())}
    tokens = tokens_of(text, ids)
    request = {"input_ids": [ids[token] for token in tokens]}
    print("tokens: %s" % " ".join(tokens))

    heads = post(base.rstrip("/"), "/v1/heads/stats", request)["heads"]
    for mass, place in MASSES.items():
        most = max(heads, key=lambda head: head[mass])
        print("%s: head %d of layer %d, %.3f of its weight (even attention: %.3f)" %
              (place, most["head"], most["layer"], most[mass], most["uniform_" + mass]))

    forward = {**request, "return": ["attention"], "include_layers": [0], "include_heads": [2]}
    rows = post(base.rstrip("/"), "/v1/forward", forward)["attention"][0][0]
    for token, row in zip(tokens, rows):
        print("head 2 of layer 0: %s looks at %s" % (token, tokens[row.index(max(row))]))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, Problem) as error:
        sys.exit("bert.py: %s" % error)
