import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { mcpContextOf, type McpContextOptions } from "./mcp-context.ts";
import { methodNames } from "../methods.ts";

const read = (body: unknown, options: Partial<McpContextOptions> = {}) => {
  const text = typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body);
  return mcpContextOf(text, { enableMcp: true, nonMcpJson: "refuse", ...options });
};
const contextOf = (body: unknown) => {
  const reading = read(body);
  return reading.kind === "mcp" ? reading.context : reading;
};
const request = (method: string, params?: unknown, id: unknown = 7) => ({
  jsonrpc: "2.0",
  id,
  method,
  ...(params === undefined ? {} : { params }),
});
const none = { kind: "none" };

describe("the MCP context of a body", () => {
  it("[PA-146] is not read when MCP is off, even from a batch", () => {
    const off = (body: string) => read(body, { enableMcp: false });
    expect(off(JSON.stringify(request("tools/call", { name: "weigh" })))).toEqual(none);
    expect(off('[{"jsonrpc":"2.0"}]')).toEqual(none);
    expect(off('{"jsonrpc":"2.0","method":"tools/call","method":"tools/list"}')).toEqual(none);
  });

  it("[PA-147] exists only for JSON-RPC 2.0 with a recognized method", () => {
    expect(read(request("tools/list")).kind).toBe("mcp");
    for (const jsonrpc of ["1.0", 2, "2", null, ["2.0"]]) {
      expect(read({ ...request("tools/list"), jsonrpc }).kind).toBe("ambiguous");
      expect(read({ ...request("tools/list"), jsonrpc }, { nonMcpJson: "allow" })).toEqual(none);
      expect(read({ ...request("foo/bar"), jsonrpc })).toEqual(none);
    }
    expect(read({ ...request("tools/list"), method: ["foo/bar"] })).toEqual(none);
  });

  it("[PA-148] recognizes exactly seven methods", () => {
    const recognised = methodNames.filter((method) => read(request(method)).kind === "mcp");
    expect(recognised).toEqual([
      "initialize",
      "tools/list",
      "tools/call",
      "prompts/list",
      "prompts/get",
      "resources/list",
      "resources/read",
    ]);
    for (const method of ["Tools/Call", "tools/call ", "tools", "", "toString", "foo/bar"]) {
      expect(read(request(method))).toEqual(none);
    }
  });

  it("[PA-149] has name and arguments of a tool call", () => {
    expect(contextOf(request("tools/call", { name: "get_weather", arguments: { city: "London" } }))).toEqual({
      method: "tools/call",
      id: { json: "7", type: "number" },
      toolName: "get_weather",
      toolArguments: '{"city":"London"}',
    });
  });

  it("[PA-150] has no arguments if the call has none", () => {
    expect(contextOf(request("tools/call", { name: "weigh" }))).not.toHaveProperty("toolArguments");
  });

  it("[PA-151] keeps the arguments as they were written", () => {
    const text = '{ "b" : 9007199254740993, "a":1.0, "A\\u0041": 1e2, "\\u0063": [ ] }';
    const body = (given: string) =>
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","arguments": ${given} }}`;
    expect(contextOf(body(text))).toMatchObject({ toolArguments: text });
    const twice = '{"a":1.0, "a": 1e2}';
    expect(read(body(twice), { nonMcpJson: "allow" })).toMatchObject({ context: { toolArguments: twice } });
  });

  it("[PA-152] has the URI of a resource that is read", () => {
    expect(contextOf(request("resources/read", { uri: "dock://berths/4", name: "x" }))).toEqual({
      method: "resources/read",
      id: { json: "7", type: "number" },
      resourceUri: "dock://berths/4",
    });
  });

  it("[PA-153] has the name of a prompt", () => {
    expect(contextOf(request("prompts/get", { name: "brief", arguments: { a: "b" } }))).toEqual({
      method: "prompts/get",
      id: { json: "7", type: "number" },
      promptName: "brief",
    });
  });

  it.each(["tools/list", "resources/list", "prompts/list", "initialize"])(
    "[PA-154] has method and id only for %s",
    (method) => {
      const params = { name: "n", uri: "u", arguments: {}, cursor: "c" };
      expect(contextOf(request(method, params))).toEqual({ method, id: { json: "7", type: "number" } });
    },
  );

  it.each([
    ["7", "number"],
    ['"7"', "string"],
    ["null", "null"],
    ["9007199254740993", "number"],
    ['"a\\u0062"', "string"],
    ["-0", "number"],
    ['""', "string"],
  ])("[PA-155] keeps the id %s with its type and text", (json, type) => {
    expect(contextOf(`{"jsonrpc":"2.0","id":${json},"method":"tools/list"}`)).toEqual({
      method: "tools/list",
      id: { json, type },
    });
  });

  it("[PA-155] exists for a request without an id, but not for notifications", () => {
    expect(contextOf({ jsonrpc: "2.0", method: "tools/list" })).toEqual({ method: "tools/list" });
    expect(read({ jsonrpc: "2.0", method: "notifications/initialized" })).toEqual(none);
  });

  it("[PA-155] has no id if its value cannot be one", () => {
    for (const id of [true, {}, [1]])
      expect(contextOf(request("tools/list", {}, id))).toEqual({ method: "tools/list" });
  });

  it.each([[[]], ["name"], [null], [5], [{ name: 5, uri: null }], [{ name: ["a", "b"] }]])(
    "[PA-156] reports the method and leaves the fields empty for the params %j",
    (params) => {
      for (const method of ["tools/call", "resources/read", "prompts/get"]) {
        expect(contextOf(request(method, params))).toEqual({ method, id: { json: "7", type: "number" } });
      }
    },
  );

  it.each([
    ["an empty body", ""],
    ["blanks", " \n"],
    ["text", "hello"],
    ["HTML", "<p>"],
    ["no jsonrpc member", '{"id":1,"method":"list"}'],
    ["data with names of MCP", '{"Method":"GET","Params":{"Name":"x"},"name":1}'],
    ["a form", "name=%7B&method=tools%2Fcall"],
    ["an unknown method", '{"jsonrpc":"2.0","id":1,"method":"foo/bar"}'],
    ["a response", '{"jsonrpc":"2.0","id":1,"result":{"method":"tools/list"}}'],
    ["a string", '"tools/list"'],
    ["an array of data", '[1,{"name":"x"},[{"jsonrpc":"2.0"}]]'],
  ])("[PA-157] is nothing for %s", (_what, body) => {
    expect(read(body)).toEqual(none);
  });

  it("reads escaped spellings as the server will", () => {
    expect(contextOf('{"json\\u0072pc":"2\\u002e0","id":1,"m\\u0065thod":"tools\\/list"}')).toMatchObject({
      method: "tools/list",
    });
  });

  it("is found however deep the arguments nest", () => {
    const deep = `${"[".repeat(5000)}${"]".repeat(5000)}`;
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","arguments":${deep}}}`;
    expect(contextOf(body)).toMatchObject({ toolName: "n" });
  });

  const member = fc.constantFrom("jsonrpc", "id", "method", "params", "name", "uri", "arguments", "x");
  const { node: anyBody } = fc.letrec<{ node: unknown }>((tie) => ({
    node: fc.oneof(
      fc.constantFrom("2.0", "tools/call", "resources/read", null, 1, true),
      fc.array(tie("node"), { maxLength: 2 }),
      fc.dictionary(member, tie("node"), { maxKeys: 5 }),
    ),
  }));

  it("agrees with JSON.parse on which bodies are MCP", () => {
    const isMcp = (body: unknown) =>
      typeof body === "object" &&
      body !== null &&
      Reflect.get(body, "jsonrpc") === "2.0" &&
      ["tools/call", "resources/read"].some((method) => Reflect.get(body, "method") === method);
    fc.assert(fc.property(anyBody, (body) => (read(body, { nonMcpJson: "allow" }).kind === "mcp") === isMcp(body)));
  });

  it("never throws on broken text", () => {
    fc.assert(
      fc.property(anyBody, fc.nat(40), fc.string({ maxLength: 3 }), (body, at, junk) => {
        const text = JSON.stringify(body);
        expect(["mcp", "none", "ambiguous"]).toContain(read(text.slice(0, at) + junk + text.slice(at)).kind);
      }),
    );
  });
});

describe("bodies that could show the policy one thing and the server another", () => {
  const refused = { kind: "ambiguous", response: { status: 400, code: -32600 } };

  it.each([
    ["one request", '[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n"}}]'],
    ["a request among data", '[1,"x",[],{"a":{}}, {"id":1,"jsonrpc":"2.0"}]'],
    ["an escaped member name", '[{"json\\u0072pc":"2.0"}]'],
  ])("[PX-10] refuses a batch of %s, without an id", (_what, body) => {
    const reading = read(body);
    expect(reading).toMatchObject(refused);
    expect(reading.kind === "ambiguous" && "id" in reading.response).toBe(false);
  });

  it.each([
    ["method", '{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}'],
    ["method, the second escaped", '{"jsonrpc":"2.0","id":1,"method":"tools/list","m\\u0065thod":"tools/call"}'],
    ["method, neither recognised", '{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}'],
    ["params", '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"params":{}}'],
    ["name", '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}'],
    ["uri", '{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a","uri":"b"}}'],
    ["arguments", '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"arguments":{}}}'],
    ["jsonrpc", '{"jsonrpc":"2.0","id":1,"method":"tools/call","jsonrpc":"1.0"}'],
    ["name, behind others that do not matter", '{"jsonrpc":"2.0","id":1,"x":1,"x":2,"params":{"name":"a","name":"a"}}'],
    ["member that is unknown", '{"jsonrpc":"2.0","id":1,"method":"tools/list","x":1,"X":2}'],
  ])("[PX-10] refuses a second %s and echoes the id", (_what, body) => {
    expect(read(body)).toMatchObject({ ...refused, response: { ...refused.response, id: { json: "1" } } });
  });

  it("[PX-10] echoes no duplicate id", () => {
    const reading = read('{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list","method":"tools/call"}');
    expect(reading.kind === "ambiguous" && "id" in reading.response).toBe(false);
  });

  const called = (given: string) =>
    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":${given}}}`;

  it.each([
    ["an argument", '{"path":"/ok","path":"/etc/passwd"}'],
    ["an argument in another letter case", '{"path":"/ok","Path":"/etc/passwd"}'],
    ["an escaped argument", String.raw`{"path":"/ok","p\u0061th":"/etc/passwd"}`],
    ["an argument with a long s", '{"users":[1],"user\u017F":[2]}'],
    ["a member inside an argument", '{"filter":{"owner":"me","owner":"you"}}'],
    ["a member of an element", '{"all":[{"id":1},{"id":2,"ID":3}]}'],
    ["one of many arguments", `{${Array.from({ length: 40 }, (_, at) => `"k${at}":1`).join(",")},"K7":2}`],
  ])("[PX-10] refuses a second %s, unless lenient readings are allowed", (_what, given) => {
    expect(read(called(given))).toMatchObject({ ...refused, response: { ...refused.response, id: { json: "1" } } });
    expect(read(called(given), { nonMcpJson: "allow" })).toMatchObject({ context: { toolArguments: given } });
  });

  it("[PX-10] takes the same name in different objects", () => {
    const given = '{"id":1,"inner":{"id":2,"Inner":[{"id":3},{"id":4}]}}';
    expect(contextOf(called(given))).toMatchObject({ toolArguments: given });
  });

  it.each([
    ["the envelope", '{"__proto__":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}}'],
    ["the method", '{"jsonrpc":"2.0","id":1,"__proto__":{"method":"tools/call","params":{"name":"a"}}}'],
    ["the params", '{"jsonrpc":"2.0","id":1,"method":"tools/call","__proto__":{"params":{"name":"a"}}}'],
    ["a name", '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"__proto__":{"name":"a"}}}'],
  ])("[PX-10] refuses %s in a prototype", (_what, body) => {
    expect(read(body)).toMatchObject(refused);
    expect(read(body, { nonMcpJson: "allow" }).kind).not.toBe("ambiguous");
  });

  it.each([
    ["the method", '{"jsonrpc":"2.0","id":1,"method":["tools/call"],"params":{"name":"a"}}'],
    ["the method twice", '{"jsonrpc":"2.0","id":1,"method":[ [ "tools\\/call" ] ],"params":{"name":"a"}}'],
    ["the name of a tool", '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["a"]}}'],
    ["the name of a tool twice", '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":[["a"]]}}'],
    ["the name of a prompt", '{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":["a"]}}'],
    ["a URI", '{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":["file:///a"]}}'],
  ])("[PX-10] refuses %s in a list, which JavaScript takes for its text", (_what, body) => {
    expect(read(body)).toMatchObject({ ...refused, response: { ...refused.response, id: { json: "1" } } });
    expect(read(body, { nonMcpJson: "allow" }).kind).not.toBe("ambiguous");
  });

  it("[PA-147] ignores duplicates of other members where lenient readings are allowed, and bodies that are not JSON-RPC", () => {
    const inside = called('{"x":1,"x":2,"name":3,"name":4}');
    expect(read(inside, { nonMcpJson: "allow" })).toMatchObject({
      context: { toolName: "a", toolArguments: '{"x":1,"x":2,"name":3,"name":4}' },
    });
    expect(read('{"method":"GET","method":"POST","params":{"name":1,"name":2}}')).toEqual(none);
    expect(read('{"jsonrpc":"1.0","method":"a","method":"b"}')).toEqual(none);
  });
});
