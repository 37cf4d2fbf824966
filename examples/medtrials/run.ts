// Starts the sample on a free port, does what an agent would do over every transport, and ends; exit code 1 if anything
// is not as it should be.
//   node examples/medtrials/run.ts
import { deepEqual, equal, ok } from "node:assert/strict";

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

import { listen } from "../../src/server-kit/index.ts";
import { createMedTrials } from "./kit.ts";

const { app } = await createMedTrials({ configuration: "development" });
await using listening = await listen(app, { port: 0 });
const url = new URL(`${listening.url}/mcp`);

const seen: unknown[] = [];
for (const transport of [new StreamableHTTPClientTransport(url), new SSEClientTransport(new URL(`${url.href}/sse`))]) {
  const client = new Client({ name: "medtrials-run", version: "1.0.0" });
  await client.connect(transport);
  const { tools } = await client.listTools();
  equal(tools.length, 13, "five tools for sites and visits each, three for adverse events");
  const { structuredContent } = await client.callTool({
    name: "TrialSite_List",
    arguments: { filter: { location: { contains: "Norway" } } },
  });
  seen.push(structuredContent);
  await client.close();
}
const rest = await fetch(
  `${listening.url}/api/TrialSite?filter=${encodeURIComponent('{"location":{"contains":"Norway"}}')}`,
);
const body: unknown = await rest.json();
ok(JSON.stringify(body).includes("Fjord Clinic"), "the site in Norway is found");
for (const other of seen) deepEqual(other, body, "every transport says the same as REST");
console.log("ok: sites listed over Streamable HTTP, HTTP+SSE and REST, all alike");
