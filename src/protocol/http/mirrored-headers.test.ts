import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anyText } from "../../../test/support/arbitraries.ts";
import { envelopeOf, headersOf, notificationOf, requestOf } from "../../../test/support/messages.ts";
import type { HeaderParameter } from "./header-parameters.ts";
import {
  checkNameHeader,
  checkParameterHeaders,
  mirroredHeadersOf,
  replaceMirroredHeaders,
  decodeHeaderValue,
  encodeHeaderValue,
  trimHeaderValue,
} from "./mirrored-headers.ts";

const revision = "2026-07-28";
const yard: HeaderParameter = { header: "Mcp-Param-Yard", path: ["yard"], type: "string" };
const kilos: HeaderParameter = { header: "Mcp-Param-Kilos", path: ["load", "kilos"], type: "integer" };
const fragile: HeaderParameter = { header: "Mcp-Param-Fragile", path: ["fragile"], type: "boolean" };
const call = (args: unknown, name: unknown = "weigh") =>
  requestOf("tools/call", { name, arguments: args, _meta: envelopeOf() });

describe("computing mirrored headers", () => {
  it("[SC-006] repeats version, method, name and marked arguments", () => {
    const message = call({ yard: "north", load: { kilos: 412 }, fragile: false, crate: "C7" });
    expect(mirroredHeadersOf(message, revision, [yard, kilos, fragile])).toEqual({
      ok: true,
      headers: [
        ["MCP-Protocol-Version", "2026-07-28"],
        ["Mcp-Method", "tools/call"],
        ["Mcp-Name", "weigh"],
        ["Mcp-Param-Yard", "north"],
        ["Mcp-Param-Kilos", "412"],
        ["Mcp-Param-Fragile", "false"],
      ],
    });
  });

  it("takes the name from where each method has it, and none where the method has none", () => {
    const nameOf = (method: string, params: Record<string, unknown>) => {
      const mirrored = mirroredHeadersOf(requestOf(method, params), revision);
      return mirrored.ok ? mirrored.headers.find(([name]) => name === "Mcp-Name")?.[1] : undefined;
    };
    expect(nameOf("prompts/get", { name: "brief" })).toBe("brief");
    expect(nameOf("resources/read", { uri: "dock://berths/4", name: "x" })).toBe("dock://berths/4");
    expect(nameOf("tasks/get", { taskId: "tk-9c1e" })).toBe("tk-9c1e");
    expect(nameOf("tools/list", { name: "x" })).toBeUndefined();
    expect(nameOf("tools/call", { name: 5 })).toBeUndefined();
  });

  it("leaves out arguments that are null, absent or without a header form", () => {
    const parameters = [yard, kilos, fragile];
    for (const args of [{}, { yard: null }, { yard: {}, load: { kilos: 2 ** 60 }, fragile: [] }, undefined]) {
      const mirrored = mirroredHeadersOf(call(args), revision, parameters);
      expect(mirrored.ok && mirrored.headers.length).toBe(3);
    }
  });

  it("names the version of a notification that carries none", () => {
    expect(mirroredHeadersOf(notificationOf("notifications/cancelled"), revision)).toEqual({
      ok: true,
      headers: [
        ["MCP-Protocol-Version", revision],
        ["Mcp-Method", "notifications/cancelled"],
      ],
    });
  });

  it("rejects what a header cannot carry", () => {
    expect(mirroredHeadersOf(requestOf("tools/call\r\nX-Evil: 1"), revision)).toMatchObject({
      ok: false,
      header: "Mcp-Method",
    });
    expect(mirroredHeadersOf(requestOf("größe"), revision)).toMatchObject({
      ok: false,
      header: "Mcp-Method",
    });
    expect(mirroredHeadersOf(call({}, "\ud800"), revision)).toMatchObject({ ok: false, header: "Mcp-Name" });
    expect(mirroredHeadersOf(call({ yard: "\udfff" }), revision, [yard])).toMatchObject({
      ok: false,
      header: "Mcp-Param-Yard",
    });
  });

  it("[SC-006] computes headers that its own checks accept, for any name and argument", () => {
    const value = fc.oneof(
      anyText,
      fc.maxSafeInteger(),
      fc.boolean(),
      fc.constant(null),
      fc.dictionary(fc.string(), fc.string()),
    );
    fc.assert(
      fc.property(anyText, value, value, (name, north, weight) => {
        const message = call({ yard: north, load: { kilos: weight } }, name);
        const mirrored = mirroredHeadersOf(message, revision, [yard, kilos]);
        if (!mirrored.ok) return false;
        const header = headersOf(...mirrored.headers);
        const found = checkNameHeader(message, header) ?? checkParameterHeaders(message, [yard, kilos], header);
        return found === undefined;
      }),
    );
  });
});

describe("replacing mirrored headers after a change", () => {
  it("puts the new ones in the place of the old, drops stale ones and keeps what it does not know", () => {
    const received = [
      ["Authorization", "Bearer x"],
      ["mcp-name", "weigh"],
      ["MCP-PARAM-YARD", "north"],
      ["Mcp-Param-Other", "kept"],
      ["Mcp-Method", "tools/call"],
      ["mcp-protocol-version", revision],
    ] as const;
    const changed = mirroredHeadersOf(call({ yard: null }, "lift"), revision, [yard]);
    expect(changed.ok && replaceMirroredHeaders(received, changed.headers, [yard])).toEqual([
      ["Authorization", "Bearer x"],
      ["Mcp-Param-Other", "kept"],
      ["MCP-Protocol-Version", revision],
      ["Mcp-Method", "tools/call"],
      ["Mcp-Name", "lift"],
    ]);
  });
});

describe("comparing Mcp-Name", () => {
  const check = (...lines: readonly (readonly [string, string])[]) => checkNameHeader(call({}), headersOf(...lines));

  it("[SC-006] accepts the same name, with blanks around it and encoded too", () => {
    expect(check(["Mcp-Name", "weigh"])).toBeUndefined();
    expect(check(["mcp-name", " \tweigh "])).toBeUndefined();
    expect(check(["Mcp-Name", "=?base64?d2VpZ2g=?="])).toBeUndefined();
  });

  it("[SC-006] refuses a missing, a different and a malformed one", () => {
    expect(check()).toMatchObject({ problem: "missing" });
    expect(check(["Mcp-Name", "lift"])).toMatchObject({ problem: "different" });
    expect(check(["Mcp-Name", "WEIGH"])).toMatchObject({ problem: "different" });
    expect(check(["Mcp-Name", "=?base64?d2VpZ2g?="])).toMatchObject({ problem: "malformed" });
  });

  it("refuses a name that comes on two lines, even twice the same", () => {
    expect(check(["Mcp-Name", "weigh"], ["Mcp-Name", "weigh"])).toMatchObject({ problem: "different" });
  });

  it("leaves a body without a name to the check of parameters, unless a header names one", () => {
    const nameless = requestOf("tools/call", { arguments: {} });
    expect(checkNameHeader(nameless, headersOf())).toBeUndefined();
    expect(checkNameHeader(nameless, headersOf(["Mcp-Name", "weigh"]))).toMatchObject({
      problem: "different",
    });
    expect(checkNameHeader(requestOf("tools/list"), headersOf(["Mcp-Name", "x"]))).toBeUndefined();
  });
});

describe("comparing Mcp-Param-*", () => {
  const parameters = [yard, kilos];
  const check = (args: unknown, ...lines: readonly (readonly [string, string])[]) =>
    checkParameterHeaders(call(args), parameters, headersOf(...lines));

  it("[SC-006] accepts equal values and expects no header for null and absent ones", () => {
    expect(check({ yard: "north" }, ["Mcp-Param-Yard", "north"])).toBeUndefined();
    expect(check({ yard: null })).toBeUndefined();
    expect(check({})).toBeUndefined();
    expect(check({ yard: null }, ["Mcp-Param-Yard", "ignored"])).toBeUndefined();
  });

  it("[SC-006] refuses missing, different and malformed ones", () => {
    expect(check({ yard: "north" })).toMatchObject({ header: "Mcp-Param-Yard", problem: "missing" });
    expect(check({ yard: "north" }, ["Mcp-Param-Yard", "North"])).toMatchObject({ problem: "different" });
    expect(check({ yard: "north" }, ["Mcp-Param-Yard", "=?base64?%%%?="])).toMatchObject({
      problem: "malformed",
    });
  });

  it("compares integers as numbers and everything else as text", () => {
    const load = (value: unknown, text: string) => check({ load: { kilos: value } }, ["Mcp-Param-Kilos", text]);
    expect(load(42, "42")).toBeUndefined();
    expect(load(42, "42.0")).toBeUndefined();
    expect(load(42, "042")).toBeUndefined();
    expect(load(42, "4.2e1")).toMatchObject({ problem: "different" });
    expect(load(42, "43")).toMatchObject({ problem: "different" });
    expect(load("42", "42.0")).toMatchObject({ problem: "different" });
    expect(load(9007199254740991, "9007199254740992")).toMatchObject({ problem: "different" });
    expect(check({ yard: "1.0" }, ["Mcp-Param-Yard", "1"])).toMatchObject({ problem: "different" });
  });

  it("accepts both spellings of the empty text, but not its absence", () => {
    expect(check({ yard: "" }, ["Mcp-Param-Yard", ""])).toBeUndefined();
    expect(check({ yard: "" }, ["Mcp-Param-Yard", "=?base64??="])).toBeUndefined();
    expect(check({ yard: "" })).toMatchObject({ problem: "missing" });
  });
});

describe("writing a header value", () => {
  it.each(["weigh", "a b", "a\tb", "~!x", "=?base64?x", "x?=", "=?BASE64?eA==?="])(
    "leaves %j as it is, because HTTP can carry it",
    (text) => {
      expect(encodeHeaderValue(text)).toBe(text);
    },
  );

  it.each([
    ["grüße", "=?base64?Z3LDvMOfZQ==?="],
    [" a", "=?base64?IGE=?="],
    ["a ", "=?base64?YSA=?="],
    ["a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="],
    ["", "=?base64??="],
    ["=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="],
    ["\u007f", "=?base64?fw==?="],
  ])("encodes %j between the sentinels", (text, value) => {
    expect(encodeHeaderValue(text)).toBe(value);
  });

  it("has no encoding for a lone surrogate", () => {
    expect(encodeHeaderValue("a\ud800")).toBeUndefined();
  });
});

describe("reading a header value", () => {
  it("reads back whatever was written", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const value = encodeHeaderValue(text);
        return value !== undefined && decodeHeaderValue(value) === text;
      }),
    );
  });

  it("writes only what HTTP carries unchanged", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const value = encodeHeaderValue(text) ?? "";
        return /^[\t\x20-\x7e]+$/.test(value) && trimHeaderValue(value) === value;
      }),
    );
  });

  it.each(["=?base64?x", "eA==?=", "=?BASE64?eA==?=", "=?base64?=", "=?Base64?eA==?=", ""])(
    "takes %j literally, because a sentinel is missing or spelt otherwise",
    (value) => {
      expect(decodeHeaderValue(value)).toBe(value);
    },
  );

  it.each([
    ["no padding", "=?base64?eA?="],
    ["too much padding", "=?base64?eA===?="],
    ["the URL alphabet", "=?base64?_-8=?="],
    ["a blank inside", "=?base64?eA ==?="],
    ["stray bits", "=?base64?eB==?="],
    ["bytes that are no UTF-8", "=?base64?/w==?="],
  ])("refuses %s", (_what, value) => {
    expect(decodeHeaderValue(value)).toBeUndefined();
  });

  it("keeps a byte order mark, which is part of the text", () => {
    const text = "\ufeffx";
    expect(decodeHeaderValue(encodeHeaderValue(text) ?? "")).toBe(text);
  });

  it("trims blanks and tabs around a value and nothing else", () => {
    expect(trimHeaderValue(" \t foo bar\t ")).toBe("foo bar");
    expect(trimHeaderValue("\u00a0x")).toBe("\u00a0x");
    expect(trimHeaderValue("  ")).toBe("");
  });
});
