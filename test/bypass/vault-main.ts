// The vault on its standard streams; what has no business there is appended to a file:
//   node test/bypass/vault-main.ts FILE legacy|modern
import { appendFileSync } from "node:fs";

import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";

import { createVault } from "./vault.ts";
import { trespassIn } from "./wire.ts";

const [file = "", era] = process.argv.slice(2);
const record = (what: string): void => appendFileSync(file, `${JSON.stringify(what)}\n`);

let rest = "";
process.stdin.on("data", (part: Buffer) => {
  const lines = (rest + part.toString("latin1")).split("\n");
  rest = lines.pop() ?? "";
  for (const line of lines) {
    const trespass = line.trim() === "" ? undefined : trespassIn(Buffer.from(line, "latin1").toString());
    if (trespass !== undefined) record(trespass);
  }
});
const wire = new StdioServerTransport();
if (era === "legacy") await createVault((what) => record(`used: ${what}`)).connect(wire);
else serveStdio(() => createVault((what) => record(`used: ${what}`)), { transport: wire, legacy: "reject" });
