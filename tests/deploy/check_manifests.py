#!/usr/bin/env python3
"""Every manifest below deploy/ is valid against the schemas of its kind, and its numbers fit the server's.
usage: check_manifests.py BINARY SOURCE_ROOT"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

import parts

OF_KUBERNETES = {"v1", "apps/v1", "policy/v1", "autoscaling/v2", "networking.k8s.io/v1"}


class Faults(list):
    def unless(self, condition, text, *values):
        if not condition:
            self.append(text % values)


def run(command, **arguments):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **arguments)


# ---- what kustomize makes

def builds(root, environment, folder):
    """(name, resources) of the base, of each overlay, and of the base with each component."""
    import yaml
    copy = os.path.join(folder, "kubernetes")
    shutil.copytree(os.path.join(root, "deploy", "kubernetes"), copy)
    names = ["base"] + [os.path.relpath(path, copy) for path in sorted(glob.glob(os.path.join(copy, "overlays", "*")))]
    for component in sorted(os.listdir(os.path.join(copy, "components"))):
        name = "with-" + component
        os.mkdir(os.path.join(copy, name))
        with open(os.path.join(copy, name, "kustomization.yaml"), "w", encoding="utf-8") as file:
            yaml.safe_dump({"resources": ["../base"], "components": ["../components/" + component]}, file)
        names.append(name)
    for name in names:
        done = subprocess.run([parts.program("kustomize", environment), "build", os.path.join(copy, name)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0 or "Warning" in done.stderr:
            raise SystemExit("kustomize build %s: %s" % (name, done.stderr))
        yield name, list(yaml.safe_load_all(done.stdout))


# ---- schemas

def check_kubernetes(name, resource, faults):
    import kubernetes_validate
    try:
        kubernetes_validate.validate(resource, desired_version=kubernetes_validate.latest_version(), strict=True)
    except kubernetes_validate.ValidationError as error:
        faults.append("%s, %s %s: %s" % (name, resource["kind"], resource["metadata"]["name"], error.message))


def typed(folder, environment, resources):
    """Kinds of others: by the types of their packages, which know what is no member, and by their schemas, which know patterns."""
    lines = []
    groups = {"monitoring.coreos.com": "prometheus-operator", "gateway.networking.k8s.io": "gateway-api",
              "networking.istio.io": "istio", "security.istio.io": "istio"}
    for number, resource in enumerate(resources):
        version, kind = resource["apiVersion"], resource["kind"]
        lines.append('import type { I%s as I%d } from "@kubernetes-models/%s/%s";' % (kind, number, groups[version.split("/")[0]], version))
        lines.append("export const r%d: I%d = %s;" % (number, number, json.dumps(resource)))
    os.symlink(os.path.join(environment, "node_modules"), os.path.join(folder, "node_modules"))
    with open(os.path.join(folder, "resources.ts"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    compiler = os.path.join(environment, "node_modules", "typescript", "bin", "tsc")
    options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--moduleResolution", "nodenext"]
    return run(["node", compiler, *options, "resources.ts"], cwd=folder)


def check_others(folder, environment, resources, faults):
    done = typed(folder, environment, resources)
    faults.unless(done.returncode == 0, "%s", done.stdout[:2000])
    done = run(["node", os.path.join(parts.HERE, "schemas.mjs"), os.path.join(environment, "node_modules")], input=json.dumps(resources))
    print(done.stdout, end="")
    faults.unless(done.returncode == 0, "a resource does not fit its schema (above)")
    with tempfile.TemporaryDirectory(prefix="attnd-types-") as other:
        wrong = [{**resources[0], "spec": {**resources[0]["spec"], "nonsense": 1}}]
        faults.unless(typed(other, environment, wrong).returncode != 0, "the types find no fault where there is one")


# ---- numbers that belong together

def the(resources, kind, name="attnd"):
    return next((one for one in resources if one["kind"] == kind and one["metadata"]["name"] == name), None)


def configuration_of(resources):
    config_map = next(one for one in resources if one["kind"] == "ConfigMap")
    return json.loads(config_map["data"]["attnd.json"])


def check_deployment(name, resources, defaults, faults):
    deployment = the(resources, "Deployment")
    pod = deployment["spec"]["template"]
    container = pod["spec"]["containers"][0]
    server = {**defaults, **configuration_of(resources).get("server", {})}
    longest = server["drain_delay_s"] + max(server["upload_timeout_s"], server["request_timeout_s"]) + server["send_timeout_s"]
    faults.unless(pod["spec"]["terminationGracePeriodSeconds"] > longest, "%s: the grace period is not over %g s", name, longest)
    faults.unless("lifecycle" not in container, "%s: a preStop hook", name)
    probe = container["readinessProbe"]
    faults.unless(probe["periodSeconds"] < server["drain_delay_s"], "%s: readiness is asked for more slowly than it drains", name)
    labels = pod["metadata"]["labels"].items()
    budget = the(resources, "PodDisruptionBudget")
    for kind, selector in (("Deployment", deployment["spec"]["selector"]["matchLabels"]),
                           ("PodDisruptionBudget", budget and budget["spec"]["selector"]["matchLabels"]),
                           ("Service", the(resources, "Service")["spec"]["selector"]),
                           ("NetworkPolicy", the(resources, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"])):
        faults.unless(selector is None or (selector and selector.items() <= labels), "%s: %s selects other pods", name, kind)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for service in (one for one in resources if one["kind"] == "Service"):
        for port in service["spec"]["ports"]:
            faults.unless(port["targetPort"] in ports, "%s: %s has no port %s", name, service["metadata"]["name"], port["targetPort"])


def check_idle_timeouts(root, resources, defaults, faults):
    """Whoever keeps connections to attnd gives them up first; whose timeout there is, attnd's own is sooner."""
    import yaml
    with open(os.path.join(root, "deploy", "envoy", "envoy.yaml"), encoding="utf-8") as file:
        envoy = yaml.safe_load(file)
    listener, cluster = envoy["static_resources"]["listeners"][0], envoy["static_resources"]["clusters"][0]
    options = next(iter(cluster["typed_extension_protocol_options"].values()))["common_http_protocol_options"]
    route = listener["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]["virtual_hosts"][0]["routes"][-1]["route"]
    http = the(resources, "DestinationRule")["spec"]["trafficPolicy"]["connectionPool"]["http"]
    http_route = the(resources, "HTTPRoute")["spec"]["rules"][0]
    for who, text in (("Envoy", options["idle_timeout"]), ("Istio", http["idleTimeout"])):
        faults.unless(0 < float(text.rstrip("s")) < defaults["idle_timeout_s"], "%s keeps idle connections for %s", who, text)
    for who, text in (("Envoy", route["timeout"]), ("Istio", the(resources, "VirtualService")["spec"]["http"][0]["timeout"]),
                      ("Linkerd", http_route["timeouts"]["request"])):
        faults.unless(float(text.rstrip("s")) > defaults["request_timeout_s"], "%s waits for %s only", who, text)
    check = cluster["health_checks"][0]
    faults.unless(float(check["interval"].rstrip("s")) * 2 < defaults["drain_delay_s"], "Envoy looks too seldom whether attnd is ready")


def check_configuration(name, resources, binary, root, folder, faults):
    """attnd takes the file and the variables; weights on a volume stand in a golden file here."""
    import yaml
    configuration = configuration_of(resources)
    golden = os.path.join(root, "tests", "golden", "real", "minilm-layer0.safetensors")
    for weights in configuration.get("weights", []):
        weights["path"] = golden
    path, token = os.path.join(folder, name.replace("/", "-") + ".json"), os.path.join(folder, "token")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(configuration, file)
    with open(token, "w", encoding="utf-8") as file:
        file.write("secret\n")
    stated = {"ATTND_ADMIN_TOKEN_FILE": token, "ATTND_SERVER_WORKERS": "2"}
    variables = {one["name"]: one.get("value") for one in the(resources, "Deployment")["spec"]["template"]["spec"]["containers"][0]["env"]}
    values = {variable: stated.get(variable, value) for variable, value in variables.items()}
    done = run([binary, "--config", path, "--check-config"], env=parts.own_environment(**values))
    faults.unless(done.returncode == 0 and "warning" not in done.stdout, "%s: attnd says %s", name, done.stdout)


def check_compose(root, faults):
    import compose_spec
    with open(os.path.join(root, "deploy", "compose", "compose.yaml"), encoding="utf-8") as file:
        text = file.read()
    try:
        compose_spec.PyCompose.from_yaml(text).validate()
    except ValueError as error:
        faults.append("compose.yaml: %s" % error)
    folder = os.path.join(root, "deploy", "compose")
    import yaml
    for service, told in yaml.safe_load(text)["services"].items():
        for volume in told.get("volumes", []):
            path = os.path.join(folder, volume.split(":")[0])
            faults.unless(os.path.exists(path), "compose.yaml, %s: %s is not there", service, path)


def check_kserve(root, faults):
    manifests = sorted(glob.glob(os.path.join(root, "deploy", "kserve", "*.yaml")))
    folder = os.environ.get("ATTND_CLIENTS") or os.path.join(root, "build", "clients")
    python = os.path.join(folder, "bin", "python")
    if not os.access(python, os.X_OK):
        print("note: %s is not here, KServe's manifests are not held to its models" % python)
        faults.unless(os.environ.get("CI") != "true", "KServe's package is not here: scripts/test installs it")
        return
    done = run([python, os.path.join(parts.HERE, "check_kserve.py"), *manifests])
    print(done.stdout, end="")
    faults.unless(done.returncode == 0, "a manifest of KServe is wrong (above)")


def check_envoy(root, environment, faults):
    path = os.path.join(root, "deploy", "envoy", "envoy.yaml")
    done = run([parts.program("envoy", environment), "--mode", "validate", "--config-path", path])
    faults.unless(done.returncode == 0 and "Deprecated" not in done.stdout, "envoy.yaml: %s", done.stdout)


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    binary, root = map(os.path.abspath, sys.argv[1:3])
    environment = parts.enter(root)
    faults, others = Faults(), {}
    with open(os.path.join(root, "config", "attnd.json"), encoding="utf-8") as file:
        defaults = json.load(file)["server"]
    with tempfile.TemporaryDirectory(prefix="attnd-manifests-") as folder:
        for name, resources in builds(root, environment, folder):
            for resource in resources:
                if resource["apiVersion"] in OF_KUBERNETES:
                    check_kubernetes(name, resource, faults)
                else:
                    others[resource["kind"] + json.dumps(resource)] = resource
            check_deployment(name, resources, defaults, faults)
            check_configuration(name, resources, binary, root, folder, faults)
            print("%s: %d resources" % (name, len(resources)))
        check_others(folder, environment, list(others.values()), faults)
        check_idle_timeouts(root, list(others.values()), defaults, faults)
    check_kserve(root, faults)
    check_compose(root, faults)
    check_envoy(root, environment, faults)
    print("\n".join(faults) or "no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
