import { describe, expect, it } from "vitest";
import { localConfig } from "../../test/support/local-gateway.ts";
import { createSecrets } from "../config/secrets.ts";
import { createDemoServer } from "../demo/server.ts";
import { compareConfigs } from "./services.ts";

const upstream = { url: "http://127.0.0.1:9/mcp" };

describe("a comparison of configurations", () => {
  it("finds nothing where they are the same", () => {
    const { paths, needsRestart } = compareConfigs(localConfig({ upstream }), localConfig({ upstream }));
    expect([paths, needsRestart]).toEqual([[], []]);
  });

  it("names the places and never the values", () => {
    const { paths } = compareConfigs(
      localConfig({
        routes: { a: { upstream: { ...upstream, headers: { "x-key": "hunter2" } } }, b: { upstream } },
      }),
      localConfig({
        routes: { a: { upstream: { ...upstream, headers: { "x-key": "hunter3" } } }, c: { upstream } },
      }),
    );
    expect(paths).toEqual(["routes.a.upstream.headers.x-key", "routes.b", "routes.c"]);
  });

  it("takes functions for the same only when they are one", () => {
    const one = () => createDemoServer();
    const before = localConfig({ upstream: { server: one } });
    expect(compareConfigs(before, localConfig({ upstream: { server: one } })).paths).toEqual([]);
    expect(compareConfigs(before, localConfig({ upstream: { server: () => createDemoServer() } })).paths).toEqual([
      "routes.default.upstream.server",
    ]);
  });

  it("keeps what listeners were opened with, and says that it needs a restart", () => {
    const before = localConfig({ upstream });
    const next = localConfig({
      upstream,
      listen: { host: "127.0.0.2", port: 1234, allowedHosts: ["gate.example"] },
      admin: { port: 4321 },
      limits: { headerBytes: 9000, bodyBytes: 9000 },
      log: { level: "debug", format: "text" },
    });
    const { applicable, needsRestart } = compareConfigs(before, next);
    expect(needsRestart.toSorted()).toEqual([
      "admin",
      "limits.headerBytes",
      "listen.host",
      "listen.port",
      "log.format",
    ]);
    expect(applicable.listen).toEqual({ ...before.listen, allowedHosts: ["gate.example"] });
    expect(applicable.admin).toBe(false);
    expect(applicable.limits).toEqual({ ...before.limits, bodyBytes: 9000 });
    expect(applicable.log).toEqual({ level: "debug", format: before.log.format });
  });

  it("keeps the servers of routes where asked to, and says that they need a restart", () => {
    const route = (url: string, more: object = {}) => ({ upstream: { url }, ...more });
    const before = localConfig({ routes: { one: route("http://localhost:1/mcp") } });
    const next = localConfig({
      routes: { one: route("http://localhost:2/mcp", { validation: "schema" }), two: route("http://localhost:3/mcp") },
    });
    const { applicable, needsRestart } = compareConfigs(before, next, true);
    expect(needsRestart).toEqual(["routes.one.upstream.url"]);
    expect(applicable.routes["one"]).toEqual({ ...next.routes["one"], upstream: before.routes["one"]?.upstream });
    expect(applicable.routes["two"]).toEqual(next.routes["two"]);
  });

  it.each([
    [true, "a (secret) (secret)"],
    [false, "a old-secret (secret)"],
  ])("masks the secrets of what stays in use until a restart: %s", (keepServers, expected) => {
    const withSecret = (url: string, secret: string) => ({
      ...localConfig({ upstream: { url } }),
      secrets: createSecrets([secret]),
    });
    const before = withSecret("http://localhost:1/mcp", "old-secret");
    const { applicable } = compareConfigs(before, withSecret("http://localhost:2/mcp", "new-secret"), keepServers);
    expect(applicable.secrets.redact("a old-secret new-secret")).toBe(expected);
  });

  it("does not take the beginning of a name for the name", () => {
    const { needsRestart } = compareConfigs(
      localConfig({ upstream }),
      localConfig({ upstream, listen: { publicUrl: "https://gate.example" } }),
    );
    expect(needsRestart).toEqual([]);
  });
});
