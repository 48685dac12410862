"""What the scripts that generate a table's source file have in common: SCRIPT FILE writes it, SCRIPT --check FILE compares."""
import sys


def main(script, table):
    """`table`: the whole text of the file. The exit code."""
    if sys.argv[1] != "--check":
        with open(sys.argv[1], "w", encoding="ascii") as f:
            f.write(table)
        return 0
    with open(sys.argv[2], encoding="ascii") as f:
        same = f.read() == table
    print("the tables are %s" % ("as generated" if same else "not what %s writes: run it" % script))
    return 0 if same else 1
