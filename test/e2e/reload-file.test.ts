import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { exchange } from "../support/raw-http.ts";

/** A configuration with a demo route of each name. */
function configText(names: readonly string[], more: Readonly<Record<string, unknown>> = {}): string {
  const routes = Object.fromEntries(names.map((name) => [name, { upstream: { demo: true } }]));
  return JSON.stringify({ listen: { port: 0 }, admin: false, routes, ...more });
}

/** A folder that is gone with its test. */
function temporaryFolder(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), "headgate-reload-"));
  return {
    path,
    [Symbol.dispose]: () => {
      rmSync(path, { recursive: true });
    },
  };
}

async function endpoints({ origin }: RunningGateway): Promise<string> {
  return (await exchange(`${origin}/`)).text;
}

async function reloaded({ process: child }: RunningGateway, path: string): Promise<void> {
  const changed = path.replaceAll(".", String.raw`\.`);
  await child.waitForLine(new RegExp(`"changed":"[^"]*${changed}.*configuration reloaded`, "u"));
}

describe("headgate run --config", () => {
  it("takes a file that was put in the place of the old one, as editors do", async () => {
    using folder = temporaryFolder();
    const file = join(folder.path, "headgate.json");
    writeFileSync(file, configText(["one", "two"]));
    await using gateway = await startGateway(["run", "--config", file]);
    writeFileSync(`${file}.new`, configText(["one", "three"]));
    renameSync(`${file}.new`, file);
    await reloaded(gateway, "routes.three");
    expect(await endpoints(gateway)).toContain("/one/mcp, /three/mcp");
  });

  it("takes a file that was written over, and then another put in its place", async () => {
    using folder = temporaryFolder();
    const file = join(folder.path, "headgate.json");
    writeFileSync(file, configText(["one", "two"]));
    await using gateway = await startGateway(["run", "--config", file]);
    writeFileSync(file, configText(["one", "three"]));
    await reloaded(gateway, "routes.three");
    writeFileSync(`${file}.new`, configText(["one", "four"]));
    renameSync(`${file}.new`, file);
    await reloaded(gateway, "routes.four");
    expect(await endpoints(gateway)).toContain("/one/mcp, /four/mcp");
  });

  it("takes a file whose folder was exchanged by a link, as Kubernetes does", async () => {
    using folder = temporaryFolder();
    const at = (...names: string[]): string => join(folder.path, ...names);
    const publish = (version: string, text: string): void => {
      mkdirSync(at(version));
      writeFileSync(at(version, "headgate.json"), text);
      symlinkSync(version, at("..data_tmp"));
      renameSync(at("..data_tmp"), at("..data"));
    };
    publish("..first", configText(["one", "two"]));
    symlinkSync(join("..data", "headgate.json"), at("headgate.json"));
    await using gateway = await startGateway(["run", "--config", at("headgate.json")]);
    publish("..second", configText(["one", "three"]));
    rmSync(at("..first"), { recursive: true });
    await reloaded(gateway, "routes.three");
    publish("..third", configText(["one", "four"]));
    await reloaded(gateway, "routes.four");
    expect(await endpoints(gateway)).toContain("/one/mcp, /four/mcp");
  });

  it("stays with the old one when the new one is not good, and says what is wrong where", async () => {
    using folder = temporaryFolder();
    const file = join(folder.path, "headgate.yaml");
    writeFileSync(file, configText(["one", "two"]));
    await using gateway = await startGateway(["run", "--config", file]);
    writeFileSync(file, "listen:\n  port: 0\nadmin: false\nroutes:\n  one:\n    upstrem: { demo: true }\n");
    const [line] = await gateway.process.waitForLine(/.*headgate\.yaml:6:5.*/u);
    expect(line).toContain("invalid configuration; keeping the old one");
    expect(await endpoints(gateway)).toContain("/one/mcp, /two/mcp");
    writeFileSync(file, configText(["one", "three"]));
    await reloaded(gateway, "routes.three");
  });

  it("reads anew on SIGHUP, and says so when there is nothing to change", async () => {
    using folder = temporaryFolder();
    const file = join(folder.path, "headgate.json");
    writeFileSync(file, configText(["one", "two"]));
    await using gateway = await startGateway(["run", "--config", file]);
    process.kill(gateway.process.pid, "SIGHUP");
    await gateway.process.waitForLine(/configuration reloaded: no changes/u);
    expect(await endpoints(gateway)).toContain("/one/mcp, /two/mcp");
  });

  it("takes a secret that was exchanged, and shows neither the old nor the new one", async () => {
    using folder = temporaryFolder();
    const file = join(folder.path, "headgate.json");
    const secretFile = join(folder.path, "token");
    const routes = {
      one: {
        upstream: { url: "http://127.0.0.1:9/mcp", headers: { authorization: "Bearer ${file:token}" } },
      },
    };
    writeFileSync(secretFile, "first-secret-value");
    writeFileSync(file, configText([], { routes, log: { level: "debug" } }));
    await using gateway = await startGateway(["run", "--config", file]);
    writeFileSync(secretFile, "second-secret-value");
    await reloaded(gateway, "routes.one.upstream.headers.authorization");
    expect(gateway.process.output()).not.toMatch(/(?:first|second)-secret-value/u);
  });

  it("says what needs a restart", async () => {
    using folder = temporaryFolder();
    const file = join(folder.path, "headgate.json");
    writeFileSync(file, configText(["one"]));
    await using gateway = await startGateway(["run", "--config", file]);
    writeFileSync(file, configText(["one"], { limits: { headerBytes: 9000, bodyBytes: 9000 } }));
    const [line] = await gateway.process.waitForLine(/.*changes need a restart.*/u);
    expect(line).toContain("limits.headerBytes");
    await reloaded(gateway, "limits.bodyBytes");
  });
});
