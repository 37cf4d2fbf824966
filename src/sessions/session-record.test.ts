import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { messageFrom } from "../../test/support/exchange.ts";
import { createProcessSeals } from "../lib/keys/sealing.ts";
import { revisionNames } from "../protocol/revisions.ts";
import {
  announcedLists,
  clientHandshakeOf,
  openSessionId,
  sealSessionId,
  type SessionRecord,
} from "./session-record.ts";

const { session: seal } = createProcessSeals();

const records: fc.Arbitrary<SessionRecord> = fc.record({
  id: fc.base64String().map((text) => text.replaceAll(/\W/gu, "-")),
  openedBy: fc.string(),
  openedAt: fc.nat(),
  expiresAt: fc.nat(),
  revision: fc.option(fc.constantFrom(...revisionNames), { nil: undefined }),
  handshake: fc.record({ protocolVersion: fc.string(), capabilities: fc.json(), clientInfo: fc.json() }),
  lists: fc.subarray([...announcedLists]),
  upstream: fc.option(
    fc.record({
      id: fc.oneof(
        fc.string({ minLength: 1 }),
        fc.string({ unit: "binary", minLength: 1 }),
        fc.uint8Array({ minLength: 1 }).map((bytes) => Buffer.from(bytes).toString("latin1")),
      ),
      at: fc.string(),
    }),
    { nil: undefined },
  ),
});

const initialize = (params: unknown) =>
  messageFrom(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params }));

describe("a session record", () => {
  it("comes out of a session id as it went in", () => {
    fc.assert(
      fc.property(records, fc.string(), fc.string(), (record, route, principal) => {
        expect(openSessionId(seal, sealSessionId(seal, record, route, principal), route, principal)).toEqual(record);
      }),
    );
  });

  it("opens for its own route and principal only", () => {
    const names = fc.tuple(fc.string(), fc.string());
    fc.assert(
      fc.property(records, names, names, (record, own, other) => {
        fc.pre(own[0] !== other[0] || own[1] !== other[1]);
        expect(openSessionId(seal, sealSessionId(seal, record, ...own), ...other)).toBeUndefined();
      }),
    );
  });

  it("fits into a header, whatever a client and its server say about themselves", () => {
    const long = "x".repeat(100_000);
    const params = {
      protocolVersion: long,
      capabilities: {
        roots: { listChanged: true },
        elicitation: { form: {}, url: {} },
        sampling: { tools: long },
        tasks: { [long]: {} },
        experimental: { [long]: {} },
      },
      clientInfo: { name: long, version: long, title: long, icons: [long] },
    };
    const handshake = clientHandshakeOf(initialize(params));
    expect(JSON.parse(handshake.capabilities)).toEqual({
      roots: { listChanged: true },
      elicitation: { form: {}, url: {} },
      sampling: {},
      tasks: {},
    });
    const upstream = { id: "u".repeat(2048), at: "there" };
    const record: SessionRecord = {
      id: "id",
      openedBy: "node",
      openedAt: 1,
      expiresAt: 2,
      revision: undefined,
      handshake,
      lists: [],
      upstream,
    };
    const text = sealSessionId(seal, record, "route", "principal");
    expect(text.length).toBeLessThan(4096 + 512);
    expect(openSessionId(seal, text, "route", "principal")).toEqual(record);
  });

  it("leaves an upstream's id out that is too long to carry, so that the upstream begins anew", () => {
    const handshake = clientHandshakeOf(initialize({ protocolVersion: "2025-11-25" }));
    const upstream = { id: "u".repeat(2049), at: "there" };
    const record: SessionRecord = {
      id: "id",
      openedBy: "node",
      openedAt: 1,
      expiresAt: 2,
      revision: undefined,
      handshake,
      lists: [],
      upstream,
    };
    const opened = openSessionId(seal, sealSessionId(seal, record, "r", "p"), "r", "p");
    expect(opened).toEqual({ ...record, upstream: undefined });
    expect(handshake).toEqual({ protocolVersion: "2025-11-25", capabilities: "{}", clientInfo: "{}" });
  });

  it("keeps what a client says about itself as it was written, within the bound", () => {
    const capabilities = '{ "experimental": {"x": 1.0} }';
    const text = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":${capabilities}}}`;
    expect(clientHandshakeOf(messageFrom(text)).capabilities).toBe(capabilities);
  });
});
