#!/usr/bin/env python3
"""Runs the commands of README.md against the built server on its default configuration and holds their answers to the printed ones.

A ```sh block that is followed by a ```json block is a command and its answer. What differs from run to run (request ids, times, dates) is not
compared. A ```python or ```js block is a whole file of examples/ that is linked before it; tests/clients runs those.
usage: check_readme.py BINARY README [--write]; --write puts the real answers, and the files, into it."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from attnd_process import Attnd

BLOCKS = re.compile(r"```sh\n(.*?)```\n```json\n(.*?)```", re.DOTALL)
EXAMPLES = re.compile(r"\((examples/[^)]+)\)((?:(?!```|\(examples/).)*)```(python|js)\n(.*?)```", re.DOTALL)
# What differs from run to run, and what stands for it in the file.
CHANGING = [(r'"timing_us":\{[^}]*\}', '"timing_us":{"parse":9.4,"queue":20.1,"compute":12.7,"encode":2.2}'),
            (r'"instance":"[^"]*"', '"instance":"5f0d0bd8e87eaf3c2a8ad9a35f1fee80"'),
            (r'"loaded_at":"[^"]*"', '"loaded_at":"2026-01-31T12:00:00Z"')]


def settled(text):
    for pattern, stands_for in CHANGING:
        text = re.sub(pattern, stands_for, text)
    return text.strip()


def main():
    binary, readme = sys.argv[1:3]
    with open(readme, encoding="utf-8") as f:
        text = f.read()
    failed, count = 0, 0

    def hold_to_file(match):
        nonlocal failed
        path, between, language, printed = match.groups()
        with open(os.path.join(os.path.dirname(readme), path), encoding="utf-8") as file:
            example = file.read()
        if printed != example and "--write" not in sys.argv:
            failed += 1
            print("README.md: the %s block behind the link to %s is not that file" % (language, path))
        return "(%s)%s```%s\n%s```" % (path, between, language, example)

    text, examples = EXAMPLES.subn(hold_to_file, text)
    if examples != len(re.findall(r"^```(?:python|js)$", text, re.MULTILINE)):
        failed += 1
        print("README.md: a python or js block has no link to its file in examples/ before it")
    with Attnd(binary) as server:

        def check(match):
            nonlocal failed, count
            count += 1
            command, printed = match.groups()
            done = subprocess.run(["bash", "-c", command.replace("http://127.0.0.1:8080", "http://" + server.address)],
                                  stdout=subprocess.PIPE, text=True, check=True, timeout=60)
            answer = settled(done.stdout)
            json.loads(answer)
            if "--write" in sys.argv:
                return "```sh\n%s```\n```json\n%s\n```" % (command, answer)
            if settled(printed) != answer:
                failed += 1
                print("README.md: the answer of\n%sis\n%s\nand not\n%s" % (command, answer, printed))
            return match.group(0)

        written = BLOCKS.sub(check, text)
    if "--write" in sys.argv:
        with open(readme, "w", encoding="utf-8") as f:
            f.write(written)
    if not count:
        print("README.md has no command with its answer")
    print("%d commands and %d programs, %d of them wrong" % (count, examples, failed))
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
