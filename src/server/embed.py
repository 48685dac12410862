#!/usr/bin/env python3
"""Writes a file as two C arrays, to be compiled into the program: NAME as it is, and NAME_GZIP. usage: embed.py INPUT OUTPUT NAME"""
import gzip
import sys


def array(name, data):
    rows = [", ".join(str(b) for b in data[i:i + 24]) for i in range(0, len(data), 24)]
    return "static const unsigned char %s[] = {\n    %s\n};\n" % (name, ",\n    ".join(rows))


source, target, name = sys.argv[1:]
with open(source, "rb") as f:
    data = f.read()
with open(target, "w", encoding="ascii") as f:
    f.write(array(name, data) + array(name + "_GZIP", gzip.compress(data, 9, mtime=0)))
