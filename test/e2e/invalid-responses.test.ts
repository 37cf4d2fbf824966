import { describe, expect, it } from "vitest";

import type { ExchangeRecord } from "../../src/recorder/contract.ts";
import { headgate, temporaryFolder } from "../support/capture-file.ts";
import { startConfigured } from "../support/configured-gateway.ts";
import { messageOf, openSession } from "../support/legacy-session.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";

/** Responses that are broken elsewhere than in their id; ID stands for it. */
const broken: Readonly<Record<string, string>> = {
  "a result that is a text": '{"jsonrpc":"2.0","id":ID,"result":"done"}',
  "a result that is a list": '{"jsonrpc":"2.0","id":ID,"result":[]}',
  "a result with the same name twice": '{"jsonrpc":"2.0","id":ID,"result":{"content":[],"content":[]}}',
  "a result and an error": '{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"m"}}',
  "neither result nor error": '{"jsonrpc":"2.0","id":ID}',
  "no jsonrpc": '{"id":ID,"result":{"content":[]}}',
  "another jsonrpc": '{"jsonrpc":"1.0","id":ID,"result":{"content":[]}}',
  "an error whose code is a text": '{"jsonrpc":"2.0","id":ID,"error":{"code":"x","message":"m"}}',
  "an error without a message": '{"jsonrpc":"2.0","id":ID,"error":{"code":-32000}}',
};
const longLine = 200_000;

/** Responses that cannot be read up to their end; their id stands before or after what is broken. PAD is a long text. */
const unreadable: Readonly<Record<string, string>> = {
  "a number that is not one": '{"jsonrpc":"2.0","id":ID,"result":{"x":NaN}}',
  "the same before the id": '{"result":{"x":NaN},"jsonrpc":"2.0","id":ID}',
  "more levels than are read": `{"id":ID,"result":{"x":${"[".repeat(500)}${"]".repeat(500)}},"jsonrpc":"2.0"}`,
  "a cut end": '{"jsonrpc":"2.0","id":ID,"result":{"content":[',
  "a long line": '{"jsonrpc":"2.0","id":ID,"result":{"x":"PAD"}}',
  "a long line with the id at its end": '{"result":{"x":"PAD"},"jsonrpc":"2.0","id":ID}',
  "a long error": '{"jsonrpc":"2.0","error":{"code":-32000,"message":"PAD"},"id":ID}',
};
/** Before the valid answer: broken requests have the same id, but it is the server's own. */
const notResponses: readonly string[] = [
  '{"jsonrpc":"2.0","id":ID,"method":"roots/list","params":5}',
  '{"jsonrpc":"2.0","id":ID,"Method":"roots/list","result":"x"}',
  '{"id":ID,"method":7}',
  '{"jsonrpc":"2.0","id":ID,"method":"roots/list","params":{"x":"PAD"}}',
  '{"method":"roots/list","params":{"x":NaN},"jsonrpc":"2.0","id":ID}',
];

/** A server on standard streams that answers calls with the lines that they bring. */
const server = `
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined) return;
  const say = (result) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\\n");
  const info = { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } };
  if (method === "initialize") return say(info);
  if (method !== "tools/call") return process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32601, message: "no" } }) + "\\n");
  for (const text of params.arguments.lines)
    process.stdout.write(text.replace("ID", JSON.stringify(id)).replace("PAD", "x".repeat(${longLine})) + "\\n");
  if (params.arguments.isAnswered) say({ content: [] });
});`;
const onStreams = { command: process.execPath, args: ["-e", server], era: "legacy" };

/** Sends calls whose arguments are the lines of the answer, and gives what comes back. */
type Calling = (origin: string, calls: readonly CallLines[]) => Promise<readonly unknown[]>;

interface CallLines {
  readonly lines: readonly string[];
  readonly isAnswered?: boolean;
}

const paramsOf = (lines: CallLines) => ({ name: "t", arguments: lines });
const clients: Readonly<Record<string, Calling>> = {
  legacy: async (url, calls) => {
    const session = await openSession(url);
    const answers = calls.map(async (call, id) => {
      const { json, events } = await session.post({ jsonrpc: "2.0", id, method: "tools/call", params: paramsOf(call) });
      return json ?? messageOf(events.at(-1));
    });
    return Promise.all(answers);
  },
  modern: async (url, calls) => {
    const answers = calls.map(async (call, id) => {
      const { json, events } = await postModern(url, modernRequest(id, "tools/call", paramsOf(call)));
      return json ?? messageOf(events.at(-1));
    });
    return Promise.all(answers);
  },
};

const names = Object.keys(broken);
const refused = (_name: string, id: number) => ({
  id,
  error: {
    code: -32_603,
    message: expect.stringMatching(/^the upstream's response is not valid: /u),
    data: { origin: "gateway", code: "upstream_invalid" },
  },
});

describe("a response that is no valid message", () => {
  it.each(Object.keys(clients).flatMap((era) => ["session", "shared"].map((sharing) => [era, sharing] as const)))(
    "[SC-030, SC-039] ends its request at once on standard streams: %s clients, sharing %s",
    async (era, sharing) => {
      using folder = temporaryFolder();
      const lines = [...Object.values(broken), ...Object.values(unreadable)];
      const store = folder.at("traffic.sqlite");
      {
        await using gateway = await startConfigured({
          record: { file: store },
          limits: { stdioLineBytes: longLine },
          routes: { only: { upstream: { ...onStreams, sharing } } },
        });
        const calls = [...lines.map((line) => ({ lines: [line] })), { lines: notResponses, isAnswered: true }];
        const answers = await clients[era]?.(gateway.url, calls);
        expect(answers).toMatchObject([...lines.map(refused), { id: lines.length, result: { content: [] } }]);
      }
      const { output } = await headgate(
        "traffic",
        "method:tools/call",
        "diagnostic:event.not-json",
        "--json",
        "-s",
        store,
      );
      const rows = output.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as ExchangeRecord]));
      expect(rows.filter(({ gatewayCode }) => gatewayCode === "upstream_invalid")).toHaveLength(lines.length);
    },
  );

  it.each(["a stream", "a body"])("[SC-030] is named to the caller over HTTP, in %s", async (form) => {
    await using upstream = await legacyUpstream(async (call, { id, method, params }) => {
      if (id === undefined) return call.replyRaw(202);
      if (method !== "tools/call") return call.reply({ jsonrpc: "2.0", id, error: { code: -32_601, message: "no" } });
      const { lines } = (params?.["arguments"] ?? { lines: [] }) as CallLines;
      const text = (lines[0] ?? "").replace("ID", JSON.stringify(id));
      const isStream = form === "a stream";
      return call.replyRaw(
        200,
        { "content-type": isStream ? "text/event-stream" : "application/json" },
        isStream ? `data: ${text}\n\n` : text,
      );
    });
    await using gateway = await startConfigured({
      record: false,
      routes: { only: { upstream: { url: upstream.url, transport: "streamable-http", era: "legacy" } } },
    });
    for (const era of Object.keys(clients)) {
      const answers = await clients[era]?.(
        gateway.url,
        Object.values(broken).map((line) => ({ lines: [line] })),
      );
      expect([era, answers]).toMatchObject([era, names.map(refused)]);
    }
  });
});
