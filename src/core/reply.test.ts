import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { exchangeWith, messageFrom, textOf, valueOf } from "../../test/support/exchange.ts";
import { notificationOf, requestOf } from "../../test/support/messages.ts";
import { type ErrorCode, errorTable, GatewayError } from "../errors.ts";
import { noReply } from "./pipeline.ts";
import { errorResponse, idFrom } from "../protocol/message.ts";
import { errorMessage, errorReply, refusalReply, resultMessage } from "./reply.ts";

const codes = Object.keys(errorTable) as ErrorCode[];

describe("errorMessage", () => {
  it.each(["0", "-1", '""', '"0"', "9007199254740993", "1.0", '"\\u0041"', "1.5"])(
    "[SC-064] echoes the id %s exactly as it was written",
    (json) => {
      const { id } = messageFrom(`{"jsonrpc":"2.0","id":${json},"method":"ping"}`);
      const message = errorMessage(id, { code: 4030, message: "no" });
      expect(textOf(message)).toBe(`{"jsonrpc":"2.0","id":${json},"error":{"code":4030,"message":"no"}}`);
      expect(message.id).toEqual(id);
    },
  );

  it("leaves the id out where there is none to echo", () => {
    const message = errorMessage(undefined, { code: -32700, message: "not JSON", data: { at: 3 } });
    expect(textOf(message)).toBe('{"jsonrpc":"2.0","error":{"code":-32700,"message":"not JSON","data":{"at":3}}}');
    expect(message).toMatchObject({ kind: "error", id: undefined });
  });

  it("makes a valid message of any text and data", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.jsonValue(), fc.integer(), (text, data, code) => {
        const message = errorMessage(idFrom(1), { code, message: text, data });
        expect(message.kind).toBe("error");
        expect(valueOf(message)).toEqual(
          JSON.parse(JSON.stringify({ jsonrpc: "2.0", id: 1, error: { code, message: text, data } })),
        );
      }),
    );
  });

  it("throws for what is no error, instead of sending it", () => {
    expect(() => errorMessage(idFrom(1), { code: 1.5, message: "" })).toThrow(GatewayError);
  });
});

describe("resultMessage", () => {
  it("keeps the text of id and result", () => {
    const { id } = requestOf("ping", undefined, "a");
    const message = resultMessage(id, '{ "n": 9007199254740993 }');
    expect(textOf(message)).toBe('{"jsonrpc":"2.0","id":"a","result":{ "n": 9007199254740993 }}');
    expect(message.kind).toBe("result");
  });

  it.each(["[]", "null", "{", '{},"error":{}', "\ud800"])("throws for the result %j", (json) => {
    expect(() => resultMessage(idFrom(1), json)).toThrow(GatewayError);
  });
});

describe("errorReply", () => {
  it.each(codes.filter((code) => errorTable[code].jsonrpc !== undefined))(
    "[SC-064] answers a request with its id, and marks %s as the gateway's",
    (code) => {
      const { http, jsonrpc } = errorTable[code];
      const reply = errorReply(exchangeWith(requestOf("ping", undefined, 7)), new GatewayError(code, "because"));
      expect(valueOf(reply.message)).toEqual({
        jsonrpc: "2.0",
        id: 7,
        error: {
          code: jsonrpc,
          message: "because",
          data: { origin: "gateway", code, exchange: "exchange-1" },
        },
      });
      expect(reply.status).toBe(http);
    },
  );

  it("answers an unknown method by status where the revision is a modern one, and in band before", () => {
    const error = new GatewayError("method_not_found", "no such method");
    const statusIn = (era: "legacy" | "modern"): number | undefined =>
      errorReply(exchangeWith(requestOf("x"), { era }), error).status;
    expect(statusIn("modern")).toBe(404);
    expect(statusIn("legacy")).toBe(200);
  });

  it("shows details, but none that could pass for another error's mark, and never the cause", () => {
    const error = new GatewayError("too_large", "too much", {
      details: { limit: 10, origin: "elsewhere", code: "none" },
      cause: new Error("secret"),
    });
    const { message } = errorReply(exchangeWith(requestOf("x")), error);
    expect(valueOf(message)).toMatchObject({
      error: { data: { limit: 10, origin: "gateway", code: "too_large" } },
    });
    expect(textOf(message)).not.toContain("secret");
  });

  it.each(["unauthenticated", "insufficient_scope"] as const)(
    "gives %s a challenge for HTTP, and a refusal for where there is no status to carry one",
    (code) => {
      const error = new GatewayError(code, "no", { details: { scopes: ["a", "b", 3] } });
      const reply = errorReply(exchangeWith(requestOf("x")), error);
      expect(reply.status).toBe(errorTable[code].http);
      expect(reply.challenge).toEqual({
        error: code === "unauthenticated" ? "invalid_token" : code,
        scopes: ["a", "b"],
        description: "no",
      });
      expect(valueOf(reply.message)).toMatchObject({
        error: { code: errorTable[code].jsonrpc, data: { origin: "gateway", code } },
      });
    },
  );

  it.each(codes.filter((code) => errorTable[code].http === undefined))(
    "gives %s, which has no JSON-RPC form, its status alone",
    (code) => {
      const reply = errorReply(exchangeWith(requestOf("x")), new GatewayError(code, "no"));
      expect(reply.message).toBeUndefined();
      expect(reply.status).toBe(errorTable[code].http);
    },
  );

  it("has no message for a notification, which nobody may answer, but a status and an error without id", () => {
    const exchange = exchangeWith(notificationOf("notifications/progress"));
    const { message, status, refusal } = errorReply(exchange, new GatewayError("rate_limited", "slow down"));
    expect([message, status, refusal?.id]).toEqual([undefined, 429, undefined]);
    expect(refusal && valueOf(refusal)).toMatchObject({ error: { message: "slow down", data: { origin: "gateway" } } });
    expect(errorReply(exchange, new GatewayError("policy_denied", "no"))).toBe(noReply);
    expect(errorReply(exchange, new GatewayError("cancelled", "gone"))).toBe(noReply);
  });
});

describe("refusalReply", () => {
  it("[SC-064] answers as the refusal says and marks it as the gateway's", () => {
    const { id } = requestOf("tools/call", {}, "r");
    const reply = refusalReply(errorResponse("header_mismatch", "differs", { id, data: { header: "Mcp-Name" } }));
    expect(reply.status).toBe(400);
    expect(valueOf(reply.message)).toEqual({
      jsonrpc: "2.0",
      id: "r",
      error: {
        code: -32020,
        message: "differs",
        data: { header: "Mcp-Name", origin: "gateway", code: "header_mismatch" },
      },
    });
  });
});
