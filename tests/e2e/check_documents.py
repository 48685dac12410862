#!/usr/bin/env python3
"""Runs the commands of the documents against the built server and holds its answers to the printed ones.
usage: check_documents.py BINARY ROOT [--write] DOCUMENT...   (paths from ROOT, the repository's folder)

A command is a ```sh block, or an indented one, in which curl asks http://127.0.0.1:8080; bash runs it in ROOT. Its answer is the ```json block right
behind, or the indented block behind "is answered with": one JSON document or more. The two must have the same members in the same order, the same strings,
and numbers within 1e-5; what differs from run to run (times, request ids, dates) is not compared. A command without an answer must print something
that is no error.
A ```sh block of scripts/serve --config FILE stands for the server that the commands behind it ask; before it, it has the default configuration.
Where scripts/get-minilm stands before that, the server has the model that it has put into ROOT/build/minilm, or $ATTND_MINILM; without it these
commands are passed over, which is a fault where CI=true.
A ```python or ```js block is a whole file of examples/ that is linked before it; tests/clients runs those.
--write puts the real answers into the ```json blocks, and the files into the others."""
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from attnd_process import Attnd  # noqa: E402

TOLERANCE = 1e-5
ADDRESS = "http://127.0.0.1:8080"
EXAMPLES = re.compile(r"\((examples/[^)]+)\)((?:(?!```|\(examples/).)*)```(python|js)\n(.*?)```", re.DOTALL)
# A fenced block with its language, or lines that are indented by four, with blank lines between them.
BLOCKS = re.compile(r"^```(\w*)\n(.*?)^```$|(?<=\n\n)((?: {4}[^\n]*\n|\n(?= {4}))+)", re.DOTALL | re.MULTILINE)
SERVE = re.compile(r"(?:(scripts/get-minilm)\b[^\n]*\n)?scripts/serve --config (\S+)\s*")
# What differs from run to run, and what stands for it in the file.
CHANGING = {"timing_us": {"parse": 9.4, "queue": 20.1, "compute": 12.7, "encode": 2.2}, "instance": "5f0d0bd8e87eaf3c2a8ad9a35f1fee80",
            "loaded_at": "2026-01-31T12:00:00Z"}


def documents_of(text):
    """The JSON documents of a text, one behind the other."""
    decoder, found, at = json.JSONDecoder(), [], 0
    text = text.strip()
    while at < len(text):
        document, at = decoder.raw_decode(text, at)
        found.append(document)
        at += len(text) - at - len(text[at:].lstrip())
    return found


def difference(printed, real, place="$"):
    """Where two documents differ, and how; None where they do not."""
    if isinstance(printed, dict) and isinstance(real, dict):
        if list(printed) != list(real):
            return "%s has the members %s, not %s" % (place, list(real), list(printed))
        below = ((printed[name], real[name], "%s.%s" % (place, name)) for name in real if name not in CHANGING)
    elif isinstance(printed, list) and isinstance(real, list):
        if len(printed) != len(real):
            return "%s has %d elements, not %d" % (place, len(real), len(printed))
        below = ((printed[i], real[i], "%s[%d]" % (place, i)) for i in range(len(real)))
    elif {type(printed), type(real)} <= {int, float}:
        return None if abs(printed - real) <= TOLERANCE else "%s is %r, not %r" % (place, real, printed)
    else:
        return None if printed == real and isinstance(printed, type(real)) else "%s is %r, not %r" % (place, real, printed)
    return next((found for found in (difference(*pair) for pair in below) if found), None)


def settled(text):
    """The text for the file: what differs from run to run is replaced."""
    for name, stands_for in CHANGING.items():
        kind = r"\{[^}]*\}" if isinstance(stands_for, dict) else '"[^"]*"'
        text = re.sub('"%s":%s' % (name, kind), '"%s":%s' % (name, json.dumps(stands_for, separators=(",", ":"))), text)
    return text.strip()


class Checker:
    def __init__(self, binary, root, write):
        self.binary, self.root, self.write = binary, root, write
        self.faults, self.commands, self.answers, self.programs, self.passed_over = [], 0, 0, 0, 0
        self.server = None

    def serve(self, arguments=()):
        self.stop()
        self.server = Attnd(self.binary, arguments)
        self.server.__enter__()

    def serve_what_it_says(self, fetched, configuration):
        """As a block of scripts/serve does; `fetched`: of the model that was fetched before, which need not be here."""
        if fetched:
            folder = os.environ.get("ATTND_MINILM") or os.path.join(self.root, "build", "minilm")
            configuration = os.path.join(folder, os.path.basename(configuration))
            if not os.path.exists(configuration):
                self.stop()
                if os.environ.get("CI") == "true":
                    self.faults.append("there is no %s; scripts/get-minilm writes it" % configuration)
                return
        self.serve(["--config", os.path.join(self.root, configuration)])

    def stop(self):
        if self.server:
            self.server.__exit__(None, None, None)
        self.server = None

    def hold_to_file(self, match):
        path, between, language, printed = match.groups()
        self.programs += 1
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            example = file.read()
        if printed != example and not self.write:
            self.faults.append("the %s block behind the link to %s is not that file" % (language, path))
        return "(%s)%s```%s\n%s```" % (path, between, language, example)

    def check(self, command, printed):
        """Runs it; its answer in the form of the file."""
        if not self.server:
            self.passed_over += 1
            return printed
        self.commands += 1
        done = subprocess.run(["bash", "-eo", "pipefail", "-c", command.replace(ADDRESS, self.server.base)], cwd=self.root,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
        try:
            real = documents_of(done.stdout)
        except ValueError:
            real = None
        if done.returncode != 0 or not done.stdout.strip() or (printed is not None and real is None):
            fault = "exit code %d, and not the answer that was expected" % done.returncode
        elif printed is None:
            errors = [document["error"] for document in real or [] if isinstance(document, dict) and "error" in document]
            fault = errors[0] if errors else None
        else:
            self.answers += 1
            try:
                fault = None if self.write else difference(documents_of(printed), real)
            except ValueError as error:
                fault = "the printed answer is no JSON: %s" % error
        if fault:
            self.faults.append("%s, from\n%s\nwhich printed\n%s%s" % (fault, command, settled(done.stdout), done.stderr))
        return settled(done.stdout) + "\n" if printed is not None and real is not None else printed

    def check_document(self, name):
        path = os.path.join(self.root, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.faults = []
        programs = self.programs
        text = EXAMPLES.sub(self.hold_to_file, text)
        if self.programs - programs != len(re.findall(r"^```(?:python|js)$", text, re.MULTILINE)):
            self.faults.append("a python or js block has no link to its file in examples/ before it")
        self.serve()
        written, at = [], 0
        blocks = list(BLOCKS.finditer(text))
        for block, behind in zip(blocks, blocks[1:] + [None]):
            language, fenced, indented = block.groups()
            command = fenced if language == "sh" else indented
            if not command:
                continue
            served = SERVE.fullmatch(command) if language == "sh" else None
            if served:
                self.serve_what_it_says(*served.groups())
            elif "curl " in command and ADDRESS in command:
                between = text[block.end():behind.start()].strip() if behind else None
                if language == "sh" and behind and behind.group(1) == "json" and not between:
                    answer = self.check(command, behind.group(2))
                    written += [text[at:behind.start(2)], answer]
                    at = behind.end(2)
                else:
                    answered = language != "sh" and behind and behind.group(3) and between == "is answered with"
                    self.check(command, behind.group(3) if answered else None)
        self.stop()
        if self.write:
            with open(path, "w", encoding="utf-8") as file:
                file.write("".join(written) + text[at:])
        for fault in self.faults:
            print("%s: %s" % (name, fault))
        return not self.faults


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    if len(arguments) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    checker = Checker(arguments[0], arguments[1], "--write" in sys.argv)
    right = [checker.check_document(name) for name in arguments[2:]]
    print("%d commands, %d of them with their answers, and %d programs" % (checker.commands, checker.answers, checker.programs))
    if checker.passed_over:
        print("%d commands passed over, which ask a model that scripts/get-minilm fetches" % checker.passed_over)
    if not checker.answers:
        print("there is no command with its answer")
    return 0 if all(right) and checker.answers else 1


if __name__ == "__main__":
    sys.exit(main())
