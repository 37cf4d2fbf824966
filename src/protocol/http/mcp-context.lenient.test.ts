import { brotliCompressSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { mcpContextOf, type McpContextOptions } from "./mcp-context.ts";

const call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_user","arguments":{"id":7}}}';
const read = (body: string | Buffer, headers: Partial<McpContextOptions> = {}) =>
  mcpContextOf(body, { enableMcp: true, nonMcpJson: "refuse", ...headers }).kind;

const utf16be = (text: string) => Buffer.from(text, "utf16le").swap16();
const utf32 = (text: string, isBig: boolean) =>
  Buffer.concat(
    Array.from(text, (character) => {
      const unit = Buffer.alloc(4);
      const code = character.codePointAt(0) ?? 0;
      if (isBig) unit.writeUInt32BE(code);
      else unit.writeUInt32LE(code);
      return unit;
    }),
  );
const withByte = (byte: number) =>
  Buffer.from(call.replace('{"id":7}', '"\xff"'), "latin1").map((each) => (each === 0xff ? byte : each));

/** What Python, Go, .NET, Java or a JSON5 parser reads as the call above, and RFC 8259 does not allow. */
const lenient: readonly (readonly [string, string | Buffer])[] = [
  ["a byte order mark", `\uFEFF${call}`],
  ["two byte order marks", `\uFEFF\uFEFF${call}`],
  ["UTF-16, little-endian", Buffer.from(call, "utf16le")],
  ["UTF-16, big-endian", utf16be(call)],
  ["UTF-16 with a byte order mark", Buffer.from(`\uFEFF${call}`, "utf16le")],
  ["UTF-16, big-endian, with a byte order mark", utf16be(`\uFEFF${call}`)],
  ["UTF-32, little-endian", utf32(call, false)],
  ["UTF-32, big-endian", utf32(call, true)],
  ["UTF-32 with a byte order mark", utf32(`\uFEFF${call}`, true)],
  ["UTF-7", '+AHs-"jsonrpc":"2.0"+AH0-'],
  ["an invalid byte", Buffer.from(withByte(0xff))],
  ["half a character", Buffer.from(withByte(0xe2))],
  ["an overlong slash", Buffer.from(call.replace("tools/call", "tools\xC0\xAFcall"), "latin1")],
  ["an encoded surrogate", Buffer.from(call.replace('{"id":7}', '"\xED\xA0\x80"'), "latin1")],
  ["NaN", call.replace("7", "NaN")],
  ["Infinity", call.replace("7", "Infinity")],
  ["-Infinity", call.replace("7", "-Infinity")],
  ["a line comment", `// hello\n${call}`],
  ["a block comment", `/* hello */ ${call}`],
  ["a comment inside", call.replace('"id"', '/**/"id"')],
  ["a hash comment", `# hello\n${call}`],
  ["a trailing comma", call.replace("7}", "7,}")],
  ["single quotes", call.replaceAll('"', "'")],
  ["names without quotes", call.replaceAll(/"(\w+)":/gu, "$1:")],
  ["a hexadecimal number", call.replace("7", "0x7")],
  ["a leading zero", call.replace("7", "07")],
  ["a plus sign", call.replace("7", "+7")],
  ["a leading point", call.replace("7", ".7")],
  ["a tab inside a string", call.replace("delete_user", "delete_user\t")],
  ["an escaped apostrophe", call.replace('{"id":7}', String.raw`"\'"`)],
  ["a following value", `${call}{}`],
  ["a following line", `${call}\n${call}`],
  ["following text", `${call} rest`],
  ["a value before it", `null\n${call}`],
  ["several values before it", `1 "a{" 'b', -2.5e3;true ${call}`],
  ["values before it in UTF-16", Buffer.from(`0\n${call}`, "utf16le")],
  ["a comment between values", `0 /**/ ${call}`],
  ["a following zero byte", `${call}\0`],
  ["a missing brace", call.slice(0, -1)],
  ["a form feed before it", `\f${call}`],
  ["a no-break space before it", `\u00A0${call}`],
  ["a prefix against script inclusion", `)]}'\n${call}`],
  ["parentheses", `(${call})`],
  ["a lenient batch", `[${call},]`],
];

/** Valid JSON that a reader which ignores case, hyphens or the version takes for the call. */
const otherNames: readonly (readonly [string, string])[] = [
  ["Method", call.replace('"method"', '"Method"')],
  ["METHOD", call.replace('"method"', '"METHOD"')],
  ["JSONRPC", call.replace('"jsonrpc"', '"JSONRPC"')],
  ["JsonRpc beside jsonrpc", call.replace("{", '{"JsonRpc":"2.0",')],
  ["PARAMS", call.replace('"params"', '"PARAMS"')],
  ["a long s", call.replace('"params"', '"param\u017F"')],
  ["an escaped long s", call.replace('"params"', String.raw`"param\u017f"`)],
  ["NAME", call.replace('"name"', '"NAME"')],
  ["Name beside name", call.replace('"name"', '"name":"harmless","Name"')],
  ["Arguments", call.replace('"arguments"', '"Arguments"')],
  ["a second method in another case", call.replace('"id"', '"Method":"tools/list","id"')],
  ["a method of another case that is the real one", call.replace("tools/call", 'x","Method":"tools/call')],
  ["URI", '{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"Uri":"file:///etc/passwd"}}'],
  ["a prompt's NAME", '{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"Name":"x"}}'],
  ["a dotless i", '{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"ur\u0131":"file:///etc/passwd"}}'],
  ["a soft hyphen", call.replace('"name"', '"na\u00ADme"')],
  ["an escaped zero width space", call.replace('"name"', String.raw`"na\u200Bme"`)],
  ["an underscore", call.replace('"name"', '"na_me"')],
  ["no version", call.replace('"jsonrpc":"2.0",', "")],
  ["another version", call.replace("2.0", "1.0")],
  ["a version that is a number", call.replace('"2.0"', "2.0")],
  ["half a surrogate pair in the name", call.replace("delete_user", String.raw`delete_user\ud800`)],
  ["a batch without versions", `[${call.replace('"jsonrpc":"2.0",', "")}]`],
  ["a batch in another case", `[${call.replace('"jsonrpc"', '"Jsonrpc"')}]`],
];

/** Types of JSON, and headers that some server takes for one. */
const jsonTypes = [
  "application/json",
  "Application/JSON; charset=utf-8",
  'application/json;charset="UTF-8"',
  "text/json",
  "application/json5",
  "application/x-json",
  "application/mcp+json",
  "application/vnd.api+json; version=1",
  "text/plain; application/json",
  "text/plain, application/json",
  "application/javascript",
  "*/*",
  "json",
];

describe("a body that only a lenient server reads as MCP", () => {
  it.each(lenient)("[PX-10] [PA-157] is refused for %s, whatever its content type", (_what, body) => {
    for (const type of [...jsonTypes, undefined, "", "text/plain", "application/octet-stream"]) {
      expect([type, read(body, { contentType: type === undefined ? undefined : [type] })]).toEqual([type, "ambiguous"]);
    }
    expect(read(body, { nonMcpJson: "allow" })).toBe("none");
    expect(read(body, { enableMcp: false })).toBe("none");
  });

  it.each(otherNames)("[PX-10] [PA-147] is refused for %s", (_what, body) => {
    expect(read(body)).toBe("ambiguous");
    expect(read(body, { contentType: ["text/plain"] })).toBe("ambiguous");
  });

  it("[PX-10] is refused however case and hyphens are mixed", () => {
    const spelled = (name: string) =>
      fc
        .array(fc.constantFrom("lower", "upper"), { minLength: name.length, maxLength: name.length })
        .map((cases) => Array.from(name, (each, at) => (cases[at] === "upper" ? each.toUpperCase() : each)).join(""))
        .filter((text) => text !== name);
    const names = fc.constantFrom("jsonrpc", "method", "params", "name", "arguments");
    fc.assert(
      fc.property(
        names.chain((name) => fc.tuple(fc.constant(name), spelled(name))),
        ([name, text]) => read(call.replace(`"${name}"`, `"${text}"`)) === "ambiguous",
      ),
    );
  });

  it("[PX-10] is refused for every content coding", () => {
    for (const coding of ["gzip", "deflate", "br", "zstd", "x-gzip", "identity", "gzip, identity", "Unknown"]) {
      for (const body of [call, gzipSync(call), brotliCompressSync(call), "anything"]) {
        expect(read(body, { contentEncoding: [coding], contentType: ["application/json"] })).toBe("ambiguous");
      }
    }
    expect(read(call, { contentEncoding: [""] })).toBe("mcp");
  });

  it("[PX-10] is refused for several content types", () => {
    expect(read(call, { contentType: ["application/json", "application/json"] })).toBe("ambiguous");
    expect(read("x", { contentType: ["text/plain", "application/json"] })).toBe("ambiguous");
  });

  it.each(["utf-16", "UTF-16LE", "utf-32", "utf-7", "ibm037", "iso-8859-1", "utf-8; charset=utf-16", '"utf-16"', ""])(
    "[PX-10] is refused for the charset %j of a JSON type",
    (charset) => {
      for (const body of [call, "anything"]) {
        expect(read(body, { contentType: [`application/json; charset=${charset}`] })).toBe("ambiguous");
      }
      expect(read(call, { contentType: [`text/plain; charset=${charset}`] })).toBe("ambiguous");
    },
  );

  it("is MCP under every spelling of UTF-8 and every type", () => {
    for (const type of [...jsonTypes, "text/plain;charset=utf8", "multipart/form-data", undefined]) {
      expect([type, read(call, { contentType: type === undefined ? undefined : [type] })]).toEqual([type, "mcp"]);
    }
  });

  it.each([
    ["text", "hello", "text/plain; charset=iso-8859-1"],
    ["text without a type", "hello", undefined],
    ["a form", "a=%7B%7D", "application/x-www-form-urlencoded"],
    [
      "a form with files",
      '--x\r\ncontent-disposition: form-data\r\n\r\n{"a":1}\r\n--x--',
      "multipart/form-data; boundary=x",
    ],
    ["a picture", Buffer.from("89504e470d0a1a0a", "hex"), "image/png"],
    ["HTML", "<p>", "text/html"],
    ["an ordinary JSON document", '{"Method":"GET","name":"x"}', "application/json"],
    ["a list", '[{"Name":"x"}]', "application/json"],
    ["white space", " \n", "text/plain"],
    ["a table", '"name","note {x}"\n1,2.5\n'.repeat(5000), "text/csv"],
    ["text that begins with a number", "3 items in {braces}", "text/plain"],
  ])("[PA-157] is ordinary traffic when it is %s", (_what, body, type) => {
    expect(read(body, { contentType: type === undefined ? undefined : [type] })).toBe("none");
  });

  it("[PX-10] is refused when padding hides where it begins", () => {
    expect(read(`${" ".repeat(70_000)}\uFEFF${call}`)).toBe("ambiguous");
  });
});
