"""deploy/envoy/envoy.yaml with other addresses, and the Envoy that runs it."""
import os

import yaml

import parts


def configuration(root, listen_port, admin_port, replica_ports):
    """The document, its numbers untouched: it listens on the loopback, and its replicas are there too."""
    with open(os.path.join(root, "deploy", "envoy", "envoy.yaml"), encoding="utf-8") as file:
        document = yaml.safe_load(file)
    document["admin"]["address"]["socket_address"]["port_value"] = admin_port
    resources = document["static_resources"]
    resources["listeners"][0]["address"]["socket_address"] = {"address": "127.0.0.1", "port_value": listen_port}
    cluster = resources["clusters"][0]
    cluster["type"] = "STATIC"
    del cluster["cluster_type"]
    cluster["load_assignment"]["endpoints"][0]["lb_endpoints"] = [
        {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}} for port in replica_ports]
    return document


class Envoy(parts.Program):
    def __init__(self, root, environment, folder, replica_ports):
        self.port, self.admin = parts.free_port(), parts.free_port()
        path = os.path.join(folder, "envoy.yaml")
        with open(path, "w", encoding="utf-8") as file:
            yaml.safe_dump(configuration(root, self.port, self.admin, replica_ports), file)
        self.replicas = len(replica_ports)
        super().__init__([parts.program("envoy", environment), "--config-path", path, "--concurrency", "1", "--use-dynamic-base-id",
                          "--log-level", "warning"], folder)

    def healthy(self):
        """How many replicas it sends requests to."""
        statuses = parts.get_json("http://127.0.0.1:%d/clusters?format=json" % self.admin)["cluster_statuses"]
        hosts = [host for cluster in statuses if cluster["name"] == "attnd" for host in cluster.get("host_statuses", [])]
        return sum(host["health_status"] == {"eds_health_status": "HEALTHY"} for host in hosts)

    def counters(self):
        found = parts.get_json("http://127.0.0.1:%d/stats?format=json&filter=cluster.attnd" % self.admin)["stats"]
        return {item["name"].removeprefix("cluster.attnd."): item["value"] for item in found if "value" in item}

    def __enter__(self):
        parts.wait_until("Envoy finds all replicas healthy", lambda: self.healthy() == self.replicas)
        return self
