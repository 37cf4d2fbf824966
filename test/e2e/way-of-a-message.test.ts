import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { type CallPathStep, entriesOf, watchCallPaths } from "../support/call-path.ts";
import { fakeUpstream, type UpstreamCall } from "../support/fake-upstream.ts";
import { openSession, toolCall } from "../support/legacy-session.ts";
import { openGateway } from "../support/local-gateway.ts";

const page = readFileSync(resolve(import.meta.dirname, "../../docs/architecture.md"), "utf8");

/** The hand-offs that the page lists under a title. */
function listed(title: string): readonly CallPathStep[] {
  const block = page.split("```text\n").find((part) => part.startsWith(`${title}\n`)) ?? "";
  const [list = ""] = block.split("```", 1);
  return [...list.matchAll(/^\d+ (?<file>src\/\S+) (?<name>\S+)/gmu)].map(({ groups }) => ({
    file: groups?.["file"] ?? "",
    name: groups?.["name"] ?? "",
  }));
}

/** The modules that the page names as helpers. */
const helpers = new Set(
  [
    ...(/^These helpers call back into the path: (?<list>[^]*?)\n\n/mu.exec(page)?.groups?.["list"] ?? "").matchAll(
      /`(.*?)`/gu,
    ),
  ].map(([, file = ""]) => file),
);

/** The hand-offs on a call path: modules in order, without helpers. */
function handOffs(...paths: readonly (readonly CallPathStep[])[]): readonly CallPathStep[] {
  return entriesOf(paths.flat().filter(({ file }) => !helpers.has(file)));
}

/** Answers a call with a progress notification, a question to the user, and the result. */
async function serve(call: UpstreamCall): Promise<void> {
  const { method, id } = (call.json ?? {}) as { readonly method?: string; readonly id?: number };
  if (method === "initialize") {
    const result = {
      protocolVersion: "2025-11-25",
      capabilities: { tools: {} },
      serverInfo: { name: "s", version: "1" },
    };
    call.reply({ jsonrpc: "2.0", id, result }, 200, { "mcp-session-id": "upstream" });
  } else if (method === "tools/call") {
    const stream = call.stream();
    await stream.send({ jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: 1, progress: 1 } });
    const params = { message: "which one?", requestedSchema: { type: "object", properties: {} } };
    await stream.send({ jsonrpc: "2.0", id: 7, method: "elicitation/create", params });
    await stream.send({ jsonrpc: "2.0", id, result: { content: [] } });
    stream.end();
  } else {
    call.replyRaw(202);
  }
}

describe("docs/architecture.md, the way of a message", () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-way-"));
  let call: readonly CallPathStep[] = [];
  let event: readonly CallPathStep[] = [];
  let question: readonly CallPathStep[] = [];

  beforeAll(async () => {
    await using upstream = await fakeUpstream(serve);
    await using gateway = await openGateway({
      record: { file: join(folder, "traffic.db") },
      routes: { way: { upstream: { url: upstream.url }, policy: { rules: [{ allow: "true" }] } } },
    });
    const session = await openSession(gateway.url);
    using paths = watchCallPaths();
    await session.post(toolCall(2, "t", { _meta: { progressToken: 1 } }));
    const writing = (text: string) => paths.writes.find((write) => write.text.includes(text))?.path ?? [];
    const entering = paths.headers.find((path) => path.at(-1)?.file.endsWith("streamable-http.ts") === true) ?? [];
    call = handOffs(entering, paths.requests[0] ?? []);
    event = handOffs(writing("notifications/progress"));
    question = handOffs(writing("elicitation/create"));
  });
  afterAll(() => {
    rmSync(folder, { recursive: true });
  });

  it("lists the hand-offs of a real call, at most nine", () => {
    expect(call).toEqual(listed("tools/call"));
    expect(call.length).toBeLessThanOrEqual(9);
  });

  it("lists the hand-offs of a real streamed event", () => {
    expect(event).toEqual(listed("notifications/progress, elicitation/create"));
  });

  it("lists the hand-offs of a real request of the server", () => {
    const files = (steps: readonly CallPathStep[]) => steps.map(({ file }) => file);
    // The decoder hands on later events on its own, so only the function that it is entered by may differ.
    expect(files(question)).toEqual(files(event));
  });
});
