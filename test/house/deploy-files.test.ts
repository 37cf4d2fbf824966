import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";
import { parse, parseAllDocuments } from "yaml";

import { loadConfig } from "../../src/config/load.ts";

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

interface Manifest {
  readonly kind: string;
  readonly spec: Readonly<Record<string, unknown>>;
}

interface Container {
  readonly env: readonly { readonly name: string }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly securityContext: unknown;
  readonly readinessProbe: { readonly httpGet: { readonly path: string; readonly port: string } };
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
    const ports = [listen.port, admin === false ? 0 : admin.port, cluster?.listen.port];
    expect(container?.ports.map(({ containerPort }) => containerPort)).toEqual(ports);
  });

  it("build an image that is not run as root and says whether it is healthy", () => {
    const lines = read("Containerfile").split("\n");
    expect(lines.findLast((line) => line.startsWith("USER "))).toBe("USER node");
    expect(lines.some((line) => line.startsWith("HEALTHCHECK ") && line.includes("/healthz"))).toBe(true);
  });

  it.skipIf(!existsSync("/usr/bin/systemd-analyze"))("have a unit that systemd accepts", () => {
    const place = mkdtempSync(join(tmpdir(), "headgate-unit-"));
    onTestFinished(() => rmSync(place, { recursive: true }));
    const unit = join(place, "headgate.service");
    writeFileSync(unit, read("headgate.service").replace("/usr/local/bin/headgate", "/bin/true"));
    expect(() => execFileSync("/usr/bin/systemd-analyze", ["verify", unit], { stdio: "pipe" })).not.toThrow();
  });

  it.skipIf(!existsSync("/usr/sbin/nginx"))("have a proxy that nginx accepts", () => {
    const place = mkdtempSync(join(tmpdir(), "headgate-nginx-"));
    onTestFinished(() => rmSync(place, { recursive: true }));
    const file = join(place, "nginx.conf");
    // The names of the replicas exist in compose only.
    const text = read("nginx.conf").replaceAll(/(one|two):8484/gu, "127.0.0.1:8484");
    writeFileSync(file, `pid ${place}/pid; error_log stderr;\n${text}`);
    expect(() => execFileSync("/usr/sbin/nginx", ["-t", "-c", file, "-p", place], { stdio: "pipe" })).not.toThrow();
  });
});
