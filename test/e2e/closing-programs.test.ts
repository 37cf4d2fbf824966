import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";

import { describe, expect, it, onTestFinished } from "vitest";

const source = (path: string): string => JSON.stringify(resolve(import.meta.dirname, "../../src", path));

/** A server that ends a while after its input did, as servers do that save something first. */
const slowServer = `
  process.on("SIGTERM", () => {});
  process.stdin.on("end", () => setTimeout(() => process.exit(), 300));
  require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const { id } = JSON.parse(line);
    const result = { protocolVersion: "2025-11-25", capabilities: {}, serverInfo: { name: "slow", version: "1" } };
    if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
  });`;

const programs: readonly (readonly [string, string])[] = [
  [
    "a gateway",
    `
    import { createGateway, parseConfig } from ${source("index.ts")};
    const { config } = parseConfig({
      listen: { port: 0 },
      admin: false,
      log: { level: "warn" },
      upstream: { command: process.execPath, args: ["-e", ${JSON.stringify(slowServer)}] },
    });
    const gateway = createGateway(config);
    const { url } = await gateway.listen();
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "one", version: "1" } };
    const response = await fetch(url + "/mcp", {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params }),
    });
    if (response.status !== 200) throw new Error(await response.text());
    await response.text();
    await gateway.close();`,
  ],
  [
    "a server of the kit",
    `
    import { createServerKit, listen } from ${source("server-kit/index.ts")};
    const server = await listen(await createServerKit({ name: "kit", entities: [] }), { port: 0 });
    await (await fetch(server.url)).text();
    await server.close();`,
  ],
];

describe("a program whose last step closes", () => {
  it.each(programs)("%s ends in order", async (_what, script) => {
    const program = spawn(process.execPath, ["--input-type=module", "-e", `${script}\nconsole.log("closed");`]);
    onTestFinished(() => void program.kill("SIGKILL"));
    const [said, problems, [code]] = await Promise.all([
      text(program.stdout),
      text(program.stderr),
      once(program, "exit") as Promise<[number | null]>,
    ]);
    expect({ code, said: said.trim().split("\n").at(-1), problems }).toEqual({ code: 0, said: "closed", problems: "" });
  });
});
