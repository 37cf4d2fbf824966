import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";

import { httpRefusals } from "../../src/server-kit/http/refusal.ts";
import { createCertificate } from "../support/certificate.ts";
import { checkNginx } from "../support/nginx.ts";
import { startProcess } from "../support/process.ts";
import { exchange } from "../support/raw-http.ts";

const root = resolve(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const source = JSON.stringify(join(root, "src/server-kit/index.ts"));
const [auth, deploy, security] = ["auth", "deploy", "security"].map((name) =>
  read(`docs/guides/server-kit-${name}.md`),
);

/** Runs code that imports the package as its users do; inside the repository, so that its packages are found. */
async function runCode(code: string, env: Readonly<Record<string, string>> = {}) {
  mkdirSync(join(root, ".reports"), { recursive: true });
  const folder = mkdtempSync(join(root, ".reports/guide-"));
  const file = join(folder, "example.mts");
  writeFileSync(file, code.replaceAll('"headgate/server-kit"', source));
  const running = await startProcess([process.execPath, file], { env: { NODE_ENV: "development", ...env } });
  return {
    ...running,
    [Symbol.asyncDispose]: async () => {
      await running.stop();
      rmSync(folder, { recursive: true });
    },
  };
}

const blocks = [auth, deploy].flatMap((page = "") =>
  [...page.matchAll(/^```ts\n(?<code>[\s\S]*?)^```$/gmu)].map(({ groups }) => groups?.["code"] ?? ""),
);

describe("the guides of the server kit", () => {
  it("have code to run", () => {
    expect(blocks.length).toBeGreaterThanOrEqual(4);
  });

  it.each(blocks.map((code, index) => [index + 1, code] as const))("block %i runs to its end", async (_index, code) => {
    await using running = await runCode(code);
    const { code: exit } = await running.exited;
    expect([exit, running.output()]).toEqual([0, expect.not.stringContaining("Error")]);
  });

  it.each(Object.entries(httpRefusals))("[KO-141] list the refusal %s with its status", (code, { status }) => {
    expect(security).toMatch(new RegExp(`\\| ${status} +\\| \`${code}\``, "u"));
  });

  it.each([
    ["header or cookie first", /Authorization` header, or use cookies/u],
    ["query tokens short-lived, over HTTPS, with rate limits", /lifetime of minutes, use HTTPS and rate limits/u],
    ["the session id in header and query", /session id in header and query/u],
    ["never a session id as credential", /never a credential/u],
    ["anonymous access only in development", /Anonymous access is for development/u],
  ])("[KO-148] say: %s", (_title, words) => {
    expect(security).toMatch(words);
  });

  it("[KO-134] record what is left for later", () => {
    for (const later of ["WebSocket", "enableStreaming", "survive a restart"]) expect(deploy).toContain(later);
  });
});

describe("the deployment files", () => {
  it("[KO-133] for Docker run as an ordinary user, in production, with the kit's health and direct signals", () => {
    const file = read("examples/deploy/docker/Dockerfile");
    expect(file).toMatch(/^FROM node:24/mu);
    expect(file).toMatch(/^ENV NODE_ENV=production$/mu);
    expect(file).toMatch(/^USER node$/mu);
    expect(file).toMatch(/^EXPOSE 5110$/mu);
    expect(file).toContain("/mcp/health");
    expect(file).toMatch(/^CMD \["node", "server.js"\]$/mu);
  });

  it("[KO-133] for Docker have a server that starts, wants HTTPS and a login, and ends when asked to", async () => {
    const code = read("examples/deploy/docker/server.js").replace('{ host: "0.0.0.0" }', "{ port: 0 }");
    const database = mkdtempSync(join(tmpdir(), "headgate-deploy-"));
    await using server = await runCode(code, {
      NODE_ENV: "production",
      KIT_ISSUER: "https://login.example.com",
      KIT_PROXIES: "127.0.0.1",
      KIT_DATABASE: join(database, "kit.db"),
    });
    const [, url = ""] = await server.waitForLine(/Address: (http\S+)/u);
    expect((await exchange(`${url}/mcp/health`)).json).toEqual({ status: "healthy" });
    expect((await exchange(`${url}/mcp/capabilities`)).json).toMatchObject({ error: "https_required" });
    const headers = { "x-forwarded-proto": "https" };
    expect((await exchange(`${url}/mcp/capabilities`, { headers })).status).toBe(401);
    expect((await server.stop()).code).toBe(0);
    rmSync(database, { recursive: true });
  });

  it("[KO-133] for Kubernetes are valid objects that fit each other and the kit's defaults", () => {
    const objects = ["deployment", "service", "ingress"].flatMap((name) =>
      parseAllDocuments(read(`examples/deploy/kubernetes/${name}.yaml`)).map((document) => {
        expect(document.errors).toEqual([]);
        return document.toJS() as KubernetesObject;
      }),
    );
    expect(objects.map(({ apiVersion, kind }) => `${apiVersion} ${kind}`)).toEqual([
      "apps/v1 Deployment",
      "v1 Service",
      "v1 PersistentVolumeClaim",
      "networking.k8s.io/v1 Ingress",
    ]);
    const [deployment, service, claim, ingress] = objects;
    const pod = deployment?.spec.template?.spec;
    expect(pod?.containers[0]).toMatchObject({
      ports: [{ name: "http", containerPort: 5110 }],
      readinessProbe: { httpGet: { path: "/mcp/health", port: "http" } },
      securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true },
    });
    // The kit's own grace is 10 seconds, and 5 more for readers that have stopped.
    expect(pod?.terminationGracePeriodSeconds).toBeGreaterThan(15);
    expect(service?.spec).toMatchObject({ selector: { app: "kit" }, sessionAffinity: "ClientIP" });
    expect(pod?.volumes).toEqual([{ name: "data", persistentVolumeClaim: { claimName: claim?.metadata.name } }]);
    const annotations = ingress?.metadata.annotations ?? {};
    expect(annotations["nginx.ingress.kubernetes.io/proxy-buffering"]).toBe("off");
    expect(Number(annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"])).toBeGreaterThan(15);
    expect(ingress?.spec).toMatchObject({ tls: [{ secretName: "kit-tls" }] });
  });

  it("[KO-133] for nginx are a configuration that nginx takes", () => {
    using certificate = createCertificate("kit.example.com");
    const text = read("examples/deploy/nginx/server-kit.conf")
      .replace("/etc/ssl/kit/tls.crt", certificate.certFile)
      .replace("/etc/ssl/kit/tls.key", certificate.keyFile)
      .replace("/var/log/nginx/kit.log", "/dev/null");
    expect(checkNginx(text)).toMatch(/syntax is ok/u);
    expect(text).toContain("proxy_buffering off;");
    expect(text).not.toMatch(/\$request\b|\$args\b|\$query_string/u);
  });
});

interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly spec: {
    readonly template?: {
      readonly spec: {
        readonly containers: readonly unknown[];
        readonly terminationGracePeriodSeconds: number;
        readonly volumes: unknown;
      };
    };
  };
}
