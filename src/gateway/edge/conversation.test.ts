import { describe, expect, it } from "vitest";

import { textOf } from "../../../test/support/exchange.ts";
import { createTestContext } from "../../../test/support/gateway-context.ts";
import { anonymous, type Exchange } from "../../core/exchange.ts";
import { noReply, type Reply } from "../../core/pipeline.ts";
import { resultMessage } from "../../core/reply.ts";
import { GatewayError } from "../../errors.ts";
import type { Session } from "../../sessions/session.ts";
import type { Route } from "../route/route.ts";
import { type ClientConnection, receive } from "./conversation.ts";

const protocolVersion = "2025-11-25";

function setUp(answer: (exchange: Exchange) => Reply) {
  const gateway = createTestContext();
  const exchanges: Exchange[] = [];
  const written: string[] = [];
  let session: Session | undefined;
  const serving = { eras: "both", supported: ["2026-07-28"] } as const;
  // Only these members are used.
  const route = {
    strayResponse: () => {},
    name: "test",
    serving,
    toolHeaders: undefined,
    registerSession: () => {},
    answer: async (exchange: Exchange) => {
      exchanges.push(exchange);
      return answer(exchange);
    },
  } as unknown as Route;
  const client: ClientConnection = {
    route,
    principal: anonymous,
    transport: { type: "in-process" },
    serving,
    isLate: false,
    header: undefined,
    get session() {
      return session;
    },
    sessionError: () => new GatewayError("session_missing", "initialize first"),
    mayInitialize: true,
    sessionOpened: (opened) => {
      session = opened;
    },
    sessionRefused: () => {
      session = undefined;
    },
    responseUnknown: (report) => {
      report();
      written.push("acknowledged");
    },
    replyTo: () => ({
      open: () => {},
      write: () => {},
      finish: ({ message }) => {
        written.push(textOf(message) ?? "none");
      },
    }),
    replyToBatch: () => ({
      open: () => {},
      write: () => {},
      add: (message) => {
        written.push(textOf(message) ?? "none");
      },
      finish: () => {
        written.push("end of batch");
      },
    }),
    watch: () => undefined,
    acknowledge: () => {
      written.push("acknowledged");
    },
    reject: ({ message }) => {
      written.push(textOf(message) ?? "none");
    },
  };
  const send = async (message: unknown): Promise<string[]> => {
    await receive(gateway, client, Buffer.from(JSON.stringify(message)));
    return written.splice(0);
  };
  return { exchanges, send, session: () => session };
}

const initialize = (version = protocolVersion) => ({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: version, capabilities: {}, clientInfo: { name: "c", version: "1" } },
});

function agree({ message }: Exchange, version = protocolVersion): Reply {
  if (message.kind !== "request") return noReply;
  return { message: resultMessage(message.id, JSON.stringify({ protocolVersion: version })) };
}

describe("a conversation", () => {
  it("opens a session with the client's handshake and keeps the agreed revision", async () => {
    const { send, session, exchanges } = setUp((exchange) => agree(exchange, "2025-06-18"));
    expect(await send(initialize())).toEqual([expect.stringContaining("2025-06-18")]);
    expect(session()).toMatchObject({ state: "active", revision: "2025-06-18" });
    await send({ jsonrpc: "2.0", id: 2, method: "tools/list" });
    expect(exchanges.map(({ revision }) => revision)).toEqual([protocolVersion, "2025-06-18"]);
  });

  it("gives up a session that the upstream refuses", async () => {
    const { send, session } = setUp(() => noReply);
    await send(initialize());
    expect(session()).toBeUndefined();
    expect((await send({ jsonrpc: "2.0", id: 2, method: "tools/list" }))[0]).toContain("session_missing");
  });

  it("answers the members of a batch on their own", async () => {
    const { send } = setUp((exchange) => agree(exchange, "2025-03-26"));
    await send(initialize("2025-03-26"));
    const answers = await send([
      { jsonrpc: "2.0", id: 2, method: "tools/list" },
      { jsonrpc: "2.0", method: "notifications/initialized" },
      { jsonrpc: "2.0", id: 3 },
    ]);
    expect(answers.at(-1)).toBe("end of batch");
    expect(answers).toHaveLength(3);
  });

  it("refuses what it cannot parse, and acknowledges responses", async () => {
    const { send } = setUp(agree);
    expect((await send("text"))[0]).toContain('"origin":"gateway"');
    await send(initialize());
    expect(await send({ jsonrpc: "2.0", id: 9, result: {} })).toEqual(["acknowledged"]);
  });

  it("takes a modern request without a session", async () => {
    const { send, exchanges } = setUp(agree);
    const meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientCapabilities": {},
      "io.modelcontextprotocol/clientInfo": { name: "c", version: "1" },
    };
    await send({ jsonrpc: "2.0", id: 1, method: "tools/list", params: { _meta: meta } });
    expect(exchanges[0]).toMatchObject({ era: "modern", session: undefined });
  });
});
