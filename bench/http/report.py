"""What was measured: figures of each repetition, and ratios between figures of the same repetition."""
import re
import statistics

REQUIREMENT = re.compile(r"([a-z0-9_.]+)(>=|<=)([0-9]+(?:\.[0-9]+)?)")


class Report:
    def __init__(self):
        self.rows = {}

    def add(self, name, values, unit, target=None):
        values = list(values)
        self.rows[name] = {"median": statistics.median(values), "least": min(values), "most": max(values), "unit": unit,
                           "values": values, "target": target}

    def ratio(self, name, above, below, scale=1.0, target=None):
        """above / below of each repetition, times `scale`."""
        self.add(name, [scale * a / b for a, b in zip(above, below)], "x", target)

    def latencies(self, name, results):
        """The tail means something from a few thousand requests on; below a thousand p999 is the longest."""
        for label, percent in (("p50", 50), ("p99", 99), ("p999", 99.9)):
            self.add("%s.%s" % (name, label), [result.percentile(percent) for result in results], "us")
        self.add(name + ".longest", [result.longest for result in results], "us")

    def text(self):
        width = max(map(len, self.rows))
        lines = ["%-*s %12s %12s %12s" % (width, "", "median", "least", "most")]
        scenario = None
        for name, row in self.rows.items():
            if scenario not in (None, name.split(".")[0]):
                lines.append("")
            scenario = name.split(".")[0]
            numbers = "".join(" %12s" % short(row[key]) for key in ("median", "least", "most"))
            target = "  target " + row["target"] if row.get("target") else ""
            lines.append("%-*s%s %s%s" % (width, name, numbers, row["unit"], target))
        return "\n".join(lines)


def short(number):
    return "%.0f" % number if abs(number) >= 1000 else "%.4g" % number


class Requirement:
    """NAME>=NUMBER or NAME<=NUMBER, held against the median."""

    def __init__(self, text):
        found = REQUIREMENT.fullmatch(text.replace(" ", ""))
        if not found:
            raise ValueError("'%s' is not NAME>=NUMBER or NAME<=NUMBER" % text)
        self.text, self.name, self.relation, self.bound = text, found.group(1), found.group(2), float(found.group(3))

    def holds(self, report):
        median = report.rows[self.name]["median"]
        return median >= self.bound if self.relation == ">=" else median <= self.bound
