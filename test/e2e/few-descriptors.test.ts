import { join, resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { temporaryFolder } from "../support/configured-gateway.ts";
import { eventually } from "../support/eventually.ts";
import { stdioFixture } from "../support/fixture.ts";
import { handshake } from "../support/legacy-session.ts";
import { startProcess } from "../support/process.ts";
import { exchange, post } from "../support/raw-http.ts";

const bin = resolve(import.meta.dirname, "../../bin/headgate.mjs");

// Windows has no such limit.
describe.skipIf(process.platform === "win32")("a gateway that has no file descriptors left", () => {
  it("refuses the sessions whose server it cannot start, and serves the others", async () => {
    const [command, ...args] = stdioFixture({ era: "legacy" });
    using folder = temporaryFolder();
    const config = folder.write(
      "headgate.json",
      JSON.stringify({
        listen: { port: 0 },
        admin: false,
        record: false,
        routes: {
          demo: { upstream: { demo: true } },
          // No processes for later, so that those that are open are those of sessions.
          child: { upstream: { command, args, era: "legacy", sharing: "session" } },
        },
      }),
    );
    const limited = ["/bin/sh", "-c", 'ulimit -n 64; exec "$0" "$@"', process.execPath, bin] as const;
    await using gateway = await startProcess([...limited, "run", "--config", config]);
    const [, origin = ""] = await gateway.waitForLine(/listening on (https?:\/\/[^\s/"]+)/u);
    const open = async (route: string) => post(`${origin}/${route}/mcp`, handshake("2025-11-25"));

    const sessions: string[] = [];
    let refused = await open("child");
    while (refused.status === 200 && sessions.length < 20) {
      sessions.push(String(refused.headers["mcp-session-id"]));
      refused = await open("child");
    }
    // The gateway itself needs nearly fifty.
    expect(sessions.length).toBeGreaterThan(0);
    expect(refused).toMatchObject({
      status: 502,
      json: { id: "hello", error: { data: { code: "upstream_unreachable" } } },
    });
    await gateway.waitForLine(/check its limits on processes, files and memory/u);
    expect(await open("demo")).toMatchObject({ status: 200 });

    // There is room again when sessions end.
    for (const id of sessions)
      await exchange(`${origin}/child/mcp`, { method: "DELETE", headers: { "mcp-session-id": id } });
    await eventually(async () => expect(await open("child")).toMatchObject({ status: 200 }));
  });

  it("starts its workers again when there are some", async () => {
    const hog = `
      import { closeSync, openSync } from "node:fs";
      const held = [];
      const take = () => { try { for (;;) held.push(openSync("/dev/null")); } catch { console.error("taken"); } };
      if (process.env.HEADGATE_WORKER === undefined)
        process.on("SIGUSR2", () => { if (held.length === 0) take(); else while (held.length > 0) closeSync(held.pop()); });`;
    const files = {
      "hog.mjs": hog,
      "headgate.json": JSON.stringify({
        listen: { port: 0 },
        workers: 2,
        admin: false,
        record: false,
        log: { level: "info", format: "json" },
        upstream: { demo: true },
      }),
    };
    using folder = temporaryFolder(files);
    const limited = ["/bin/sh", "-c", 'ulimit -n 256; exec "$0" "$@"', process.execPath] as const;
    const preload = ["--import", join(folder.path, "hog.mjs"), bin];
    await using gateway = await startProcess([
      ...limited,
      ...preload,
      "run",
      "--config",
      join(folder.path, "headgate.json"),
    ]);
    const [, origin = ""] = await gateway.waitForLine(/listening on (https?:\/\/[^\s/"]+)/u);
    const [, pid] = await gateway.waitForLine(/"worker":1,"pid":(\d+),"msg":"worker ready"/u);
    process.kill(gateway.pid, "SIGUSR2");
    await gateway.waitForLine(/^taken$/u);
    process.kill(Number(pid), "SIGKILL");
    await gateway.waitForLine(/"ended":"[^"]*EMFILE[^"]*".*another takes its place/u);
    expect(await post(`${origin}/mcp`, handshake("2025-11-25"))).toMatchObject({ status: 200 });
    process.kill(gateway.pid, "SIGUSR2");
    await eventually(() => expect(gateway.output().match(/"worker":1,.*"msg":"worker ready"/gu)).toHaveLength(2));
  });
});
