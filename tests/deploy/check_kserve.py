"""Holds manifests to the models of KServe's own Python package: a member that they do not know is a fault, at any depth.
usage, in build/clients: python check_kserve.py FILE..."""
import re
import sys

import kserve.models
import kubernetes.client.models
import yaml

# Plain types of the models; a quantity or a port is a number or a text.
PLAIN = {"str": str, "int": int, "float": (int, float), "bool": bool, "object": object, "datetime": str}


def class_of(kind):
    for module in (kserve.models, kubernetes.client.models):
        if hasattr(module, kind):
            return getattr(module, kind)
    raise LookupError("no model %s" % kind)


def check(value, kind, place, faults):
    kind = kind.replace("K8sIoApimachineryPkgApisMeta", "")
    inner = re.fullmatch(r"list\[(.*)\]|dict\(str, (.*)\)|List\[(.*)\]|Dict\[str, (.*)\]", kind)
    if inner:
        inside = next(name for name in inner.groups() if name)
        expected = list if kind.lower().startswith("list") else dict
        if not isinstance(value, expected):
            faults.append("%s: expected %s" % (place, kind))
            return
        items = enumerate(value) if expected is list else value.items()
        for key, item in items:
            check(item, inside, "%s/%s" % (place, key), faults)
    elif kind in PLAIN:
        if not isinstance(value, PLAIN[kind]):
            faults.append("%s: expected %s, found %r" % (place, kind, value))
    else:
        model = class_of(kind)
        names = {json_name: name for name, json_name in model.attribute_map.items()}
        if not isinstance(value, dict):
            if model.__name__ not in ("V1Time", "IntOrString"):
                faults.append("%s: expected an object of %s" % (place, model.__name__))
            return
        for key, item in value.items():
            if key in names:
                check(item, model.openapi_types[names[key]], "%s/%s" % (place, key), faults)
            else:
                faults.append("%s: %s has no member %s" % (place, model.__name__, key))


def main():
    faults, checked = [], 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            for document in yaml.safe_load_all(file):
                version = document["apiVersion"].split("/")[1]
                check(document, version.capitalize() + document["kind"], document["kind"], faults)
                checked += 1
    unknown = []
    check({"spec": {"containers": [{"name": "x", "imagePullPolicies": 1}]}}, "V1alpha1ServingRuntime", "", unknown)
    if len(unknown) != 1:
        faults.append("the check finds no fault where there is one")
    print("\n".join(faults) or "KServe: %d manifests, no fault" % checked)
    return 1 if faults or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
