// A server with one of everything MCP has, served by the server kit; the official conformance suite runs against it.
//   node examples/everything/main.ts [--port N] [--newest-legacy REVISION]
// Prints {"url": …, "sseUrl": …} on one line.
import { parseArgs } from "node:util";

import { createEverythingKit } from "./kit.ts";
import { listen } from "../../src/server-kit/index.ts";

const { values } = parseArgs({
  options: { port: { type: "string", default: "5110" }, "newest-legacy": { type: "string" } },
});
const kit = await createEverythingKit(values["newest-legacy"]);
const { url } = await listen(kit, { port: Number(values.port) });
console.log(JSON.stringify({ url: `${url}/mcp`, sseUrl: `${url}/mcp/sse` }));
