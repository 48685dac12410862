// Holds resources to the schemas of custom kinds, which come as npm packages. usage: schemas.mjs NODE_MODULES < JSON
//
// Standard input is an array of resources; a line is printed for each fault, and the exit code is 1 where there is one.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const packages = {
  "monitoring.coreos.com": "prometheus-operator",
  "networking.istio.io": "istio",
  "security.istio.io": "istio",
  "gateway.networking.k8s.io": "gateway-api",
};

async function classOf({ apiVersion, kind }) {
  const name = packages[apiVersion.split("/")[0]];
  if (!name) throw new Error("no package has schemas of " + apiVersion);
  const file = join(process.argv[2], "@kubernetes-models", name, apiVersion, kind + ".js");
  return (await import(pathToFileURL(file)))[kind];
}

let faults = 0;
for (const resource of JSON.parse(readFileSync(0, "utf8"))) {
  const place = `${resource.kind} ${resource.metadata.name}`;
  try {
    new (await classOf(resource))(resource).validate();
    console.log(`${place}: valid`);
  } catch (error) {
    faults++;
    console.log(`${place}: ${error.message}`);
  }
}
process.exit(faults ? 1 : 0);
