import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";

import { AjvJsonSchemaValidator } from "@modelcontextprotocol/sdk/validation/ajv";
import type { JsonSchemaType } from "@modelcontextprotocol/sdk/validation";
import { describe, expect, it, onTestFinished } from "vitest";
import { parse, parseAllDocuments } from "yaml";

import { loadConfig, parseConfig } from "../../src/config/load.ts";
import { metricDefinitions } from "../../src/telemetry/metric-names.ts";

const folder = resolve(import.meta.dirname, "../../examples/deploy/gateway");
const read = (name: string): string => readFileSync(join(folder, name), "utf8");
const env = {
  UPSTREAM_URL: "http://server:3000/mcp",
  REDIS_URL: "redis://redis:6379",
  RECORDINGS_URL: "postgres://headgate:headgate@postgres/headgate",
  ADVERTISE: "http://one:8486",
};

async function load() {
  const loaded = await loadConfig({
    file: join(folder, "headgate.yaml"),
    env,
    readFile: async (file) =>
      file.endsWith(".yaml") ? readFileSync(file, "utf8") : "a secret of a gateway, long enough",
  });
  if (!loaded.ok) throw new Error(loaded.problems.map(({ path, message }) => `${path}: ${message}`).join("\n"));
  return loaded.config;
}

function parseOrThrow(input: Parameters<typeof parseConfig>[0]) {
  const checked = parseConfig(input);
  if (!checked.ok) throw new Error(JSON.stringify(checked.problems));
  return checked.config;
}

interface Manifest {
  readonly kind: string;
  readonly spec: Readonly<Record<string, unknown>>;
}

interface ScaledMetric {
  readonly metric: { readonly name: string };
}

interface Container {
  readonly env: readonly { readonly name: string }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly securityContext: unknown;
  readonly readinessProbe: { readonly httpGet: { readonly path: string; readonly port: string } };
}

const kubernetesFiles = ["deployment.yaml", "ingress.yaml", "service.yaml"].map((name) => `kubernetes/${name}`);

/** What the official schema says against a document; a manifest of Kubernetes is checked as its kind. */
function problemsOf(name: "kubernetes" | "compose", document: unknown): readonly string[] {
  const file = resolve(import.meta.dirname, `../fixtures/schemas/${name}.json`);
  const { definitions, ...schema } = JSON.parse(readFileSync(file, "utf8")) as Record<string, object>;
  const root = name === "compose" ? schema : { $ref: `#/definitions/${kindOf(document)}` };
  const validate = new AjvJsonSchemaValidator().getValidator({ ...root, definitions } as JsonSchemaType);
  const { valid, errorMessage } = validate(document);
  return valid ? [] : [errorMessage];
}

/** The definition for a manifest's version and kind. */
function kindOf(document: unknown): string {
  const { apiVersion = "", kind = "" } = document as Readonly<Record<string, string | undefined>>;
  const version = apiVersion.replace(".k8s.io", "").replace("/", ".");
  return `io.k8s.api.${version.includes(".") ? version : `core.${version}`}.${kind}`;
}

describe("the files to deploy the gateway", () => {
  it("configure replicas that share their sessions", async () => {
    expect(await load()).toMatchObject({
      state: { redis: { url: env.REDIS_URL } },
      cluster: { listen: { port: 8486 }, advertise: env.ADVERTISE },
    });
  });

  it("give two services of the same image all that the configuration reads, each its own address", () => {
    const { services } = parse(read("compose.yaml"), { merge: true }) as {
      services: Readonly<
        Record<string, { readonly read_only?: boolean; readonly environment: Record<string, string> }>
      >;
    };
    const [one, two] = [services["one"], services["two"]];
    expect(Object.keys(one?.environment ?? {}).toSorted()).toEqual(Object.keys(env).toSorted());
    expect(two?.environment).toEqual({ ...one?.environment, ADVERTISE: "http://two:8486" });
    expect([one?.read_only, two?.read_only]).toEqual([true, true]);
  });

  it("run in Kubernetes with probes at paths that exist, more time than a drain takes, and no privileges", async () => {
    const documents = parseAllDocuments(read("kubernetes.yaml"));
    expect(documents.flatMap(({ errors }) => errors)).toEqual([]);
    const manifests = documents.map((document) => document.toJS() as Manifest);
    expect(manifests.map(({ kind }) => kind)).toEqual([
      "Deployment",
      "Service",
      "PodDisruptionBudget",
      "HorizontalPodAutoscaler",
      "NetworkPolicy",
    ]);
    const [deployment] = manifests;
    const { spec } = Object(deployment?.spec["template"]) as {
      spec: { readonly terminationGracePeriodSeconds: number; readonly containers: readonly Container[] };
    };
    const [container] = spec.containers;
    const { shutdown, listen, admin, cluster } = await load();
    expect(spec.terminationGracePeriodSeconds * 1000).toBeGreaterThan(shutdown.grace + shutdown.readinessDelay);
    expect(container?.env.map(({ name }) => name)).toEqual(expect.arrayContaining(Object.keys(env)));
    expect(container?.securityContext).toMatchObject({ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true });
    expect(container?.readinessProbe.httpGet).toEqual({ path: "/readyz", port: "admin" });
    // What it scales by is a metric of ours.
    const { metrics } = Object(manifests[3]?.spec) as { metrics: readonly { readonly pods?: ScaledMetric }[] };
    const scaledBy = metrics.flatMap(({ pods }) => pods?.metric.name ?? []);
    expect(Object.values(metricDefinitions).map(({ name }) => name)).toEqual(expect.arrayContaining(scaledBy));
    const ports = [listen.port, admin === false ? 0 : admin.port, cluster?.listen.port];
    expect(container?.ports.map(({ containerPort }) => containerPort)).toEqual(ports);
  });

  it.each([
    ["kubernetes", ["gateway/kubernetes.yaml", ...kubernetesFiles]],
    ["compose", ["gateway/compose.yaml", "../kong/compose.yaml", "../observability/compose.yaml"]],
  ] as const)("are what the official schema of %s takes", (schema, files) => {
    const problems = files.flatMap((file) =>
      parseAllDocuments(readFileSync(join(folder, "..", file), "utf8"), { merge: true }).flatMap((document) =>
        problemsOf(schema, document.toJS()).map((problem) => `${file}: ${problem}`),
      ),
    );
    expect(problems).toEqual([]);
  });

  it("would not pass the official schemas with a mistake", () => {
    const [deployment] = parseAllDocuments(read("kubernetes.yaml")).map((document) => document.toJS() as Manifest);
    const { spec, ...rest } = deployment ?? { spec: {} };
    for (const broken of [
      { ...rest, spec: { ...spec, replica: 2 } },
      { ...rest, spec: { ...spec, replicas: "two" } },
      { ...rest, spec: { ...spec, selector: undefined } },
    ])
      expect(problemsOf("kubernetes", JSON.parse(JSON.stringify(broken)))).not.toEqual([]);
    const composed = parse(read("compose.yaml"), { merge: true }) as Readonly<Record<string, unknown>>;
    expect(problemsOf("compose", { ...composed, service: {} })).not.toEqual([]);
  });

  it("build an image that is not run as root and says whether it is healthy", () => {
    const lines = read("Containerfile").split("\n");
    expect(lines.findLast((line) => line.startsWith("USER "))).toBe("USER node");
    expect(lines.some((line) => line.startsWith("HEALTHCHECK ") && line.includes("HEALTH_URL"))).toBe(true);
    const { listen } = parseOrThrow({ upstream: { demo: true } });
    expect(lines).toContain(`ENV HEALTH_URL=http://127.0.0.1:${listen.port}/healthz`);
    // As process 1, the gateway would have to collect processes that it did not start, and Node cannot.
    expect(lines).toContain('ENTRYPOINT ["tini", "--", "headgate"]');
  });

  it("mount every secret that the configuration reads, on its own, and say how to make each", () => {
    const files = [...read("headgate.yaml").matchAll(/\$\{file:([^}]+)\}/gu)].map(([, file = ""]) => file);
    expect(files).toHaveLength(2);
    const kubernetes = read("kubernetes.yaml");
    const composed = parse(read("compose.yaml"), { merge: true }) as {
      readonly secrets: object;
      readonly services: Readonly<Record<string, { readonly secrets?: readonly string[] }>>;
    };
    for (const file of files) {
      const name = basename(file);
      // Not the folder: others mount there too.
      expect(kubernetes).toContain(`mountPath: ${file}, subPath: ${name}, readOnly: true`);
      expect(kubernetes).toContain(`--from-literal=${name}=`);
      expect(Object.keys(composed.secrets)).toContain(name);
      expect([composed.services["one"]?.secrets, composed.services["two"]?.secrets]).toEqual([
        expect.arrayContaining([name]),
        expect.arrayContaining([name]),
      ]);
      expect(read("README.md")).toContain(`> ${name}\n`);
    }
    for (const [, name = ""] of kubernetes.matchAll(/secretKeyRef: \{ name: ([\w-]+)/gu))
      expect(kubernetes).toContain(`kubectl create secret generic ${name} `);
  });

  it.each(["gateway", "../kong"])("of %s let nothing into a build but the package", (place) => {
    const rules = readFileSync(join(folder, "..", place, ".dockerignore"), "utf8")
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"));
    expect(rules[0]).toBe("*");
    expect(rules.slice(1).every((rule) => /^!.*\.tgz$/u.test(rule))).toBe(true);
  });

  it("keep secrets out of a server's image at any depth", () => {
    const rules = readFileSync(join(folder, "../docker/.dockerignore"), "utf8")
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"));
    expect(rules).toEqual(expect.arrayContaining(["**/.env*", "**/*.pem", "**/*.key", "**/*.db"]));
    expect(rules.filter((rule) => !rule.startsWith("**/"))).toEqual([]);
  });

  it.skipIf(!existsSync("/usr/bin/systemd-analyze"))("have units that systemd accepts", () => {
    const place = mkdtempSync(join(tmpdir(), "headgate-unit-"));
    onTestFinished(() => rmSync(place, { recursive: true }));
    const units = ["headgate.service", "headgate.socket", "../../kong/headgate-kong.service"].map((name) => {
      const unit = join(place, basename(name));
      // They need not be installed here; systemd looks for the program.
      const text = read(name).replace(/^ExecStart=\S+/mu, "ExecStart=/bin/true");
      if (name.endsWith(".service")) expect(text).toContain("ExecStart=/bin/true ");
      writeFileSync(unit, text);
      return unit;
    });
    expect(() => execFileSync("/usr/bin/systemd-analyze", ["verify", ...units], { stdio: "pipe" })).not.toThrow();
  });

  it("have a socket unit for the port that is the default", () => {
    const { host, port } = parseOrThrow({ upstream: { demo: true } }).listen;
    expect(read("headgate.socket")).toContain(`ListenStream=${host}:${port}\n`);
  });

  it.skipIf(!existsSync("/usr/sbin/nginx"))("have a proxy that nginx accepts", () => {
    const place = mkdtempSync(join(tmpdir(), "headgate-nginx-"));
    onTestFinished(() => rmSync(place, { recursive: true }));
    const file = join(place, "nginx.conf");
    // The names of the replicas exist in compose only.
    const text = read("nginx.conf").replaceAll(/(one|two):8484/gu, "127.0.0.1:8484");
    writeFileSync(file, `pid ${place}/pid; error_log stderr;\n${text}`);
    // Without its port, clients would look for the authorization server at another address.
    expect(text).toContain("proxy_set_header Host $http_host;");
    expect(() => execFileSync("/usr/sbin/nginx", ["-t", "-c", file, "-p", place], { stdio: "pipe" })).not.toThrow();
  });

  it("have a proxy that hears of a restart while the gateway still listens", async () => {
    const { shutdown, admin } = await load();
    const asked = (name: string): string => new RegExp(`${name} (\\S+)`, "u").exec(read("Caddyfile"))?.[1] ?? "";
    expect(asked("health_uri")).toBe("/readyz");
    expect(Number(asked("health_port"))).toBe(admin === false ? 0 : admin.port);
    const noticed = Number.parseInt(asked("health_interval"), 10) + Number.parseInt(asked("health_timeout"), 10);
    expect(2 * noticed * 1000).toBeLessThan(shutdown.readinessDelay);
  });
});
