#!/usr/bin/env python3
"""Writes a file as a C array, to be compiled into the program. usage: embed.py INPUT OUTPUT NAME"""
import sys

source, target, name = sys.argv[1:]
with open(source, "rb") as f:
    data = f.read()
rows = [", ".join(str(b) for b in data[i:i + 24]) for i in range(0, len(data), 24)]
with open(target, "w", encoding="ascii") as f:
    f.write("static const unsigned char %s[] = {\n    %s\n};\n" % (name, ",\n    ".join(rows)))
