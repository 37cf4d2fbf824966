import { resolve } from "node:path";

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
    const limited = ["/bin/sh", "-c", 'ulimit -n 48; exec "$0" "$@"', process.execPath, bin] as const;
    await using gateway = await startProcess([...limited, "run", "--config", config]);
    const [, origin = ""] = await gateway.waitForLine(/listening on (https?:\/\/[^\s/"]+)/u);
    const open = async (route: string) => post(`${origin}/${route}/mcp`, handshake("2025-11-25"));

    const sessions: string[] = [];
    let refused = await open("child");
    while (refused.status === 200 && sessions.length < 20) {
      sessions.push(String(refused.headers["mcp-session-id"]));
      refused = await open("child");
    }
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
});
