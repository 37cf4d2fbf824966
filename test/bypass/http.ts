import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";

import { plainAttempt } from "./messages.ts";
import { closed, open } from "./vault.ts";

/** One attempt as it goes over the wire: a head and a body, each byte as the attempt wants it. */
export interface HttpAttempt {
  readonly name: string;
  readonly bytes: (facts: HttpFacts) => Uint8Array;
}

/** What an attempt may use of a client that is connected properly. */
export interface HttpFacts {
  readonly era: "legacy" | "modern";
  readonly host: string;
  /** The headers that a proper request of this client would have, besides those of every POST. */
  readonly headers: Readonly<Record<string, string>>;
}

interface Request {
  readonly verb?: string;
  readonly target?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body?: string | Uint8Array;
  /** Instead of the length of the body. */
  readonly framing?: readonly string[];
}

const body = ({ era }: HttpFacts): string => String(plainAttempt.text(era));

function attempt(name: string, change: (facts: HttpFacts) => Request): HttpAttempt {
  return { name, bytes: (facts) => write(facts, change(facts)) };
}

function write(facts: HttpFacts, request: Request): Buffer {
  const content = Buffer.from(request.body ?? body(facts));
  const all = {
    host: facts.host,
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    ...facts.headers,
    ...request.headers,
  };
  const lines = Object.entries(all).flatMap(([name, value]) =>
    value === undefined ? [] : [value].flat().map((one) => `${name}: ${one}`),
  );
  const head = [
    `${request.verb ?? "POST"} ${request.target ?? "/mcp"} HTTP/1.1`,
    ...lines,
    ...(request.framing ?? [`content-length: ${content.length}`]),
    "connection: close",
  ];
  return Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`, "latin1"), content]);
}

function chunked(text: string, ...sizes: readonly number[]): string {
  const parts: string[] = [];
  let at = 0;
  for (const size of [...sizes, text.length]) {
    const part = text.slice(at, at + size);
    at += size;
    if (part !== "") parts.push(`${part.length.toString(16)}\r\n${part}\r\n`);
  }
  return `${parts.join("")}0\r\n\r\n`;
}

const te = ["transfer-encoding: chunked"];
const sentinel = (text: string): string => `=?base64?${Buffer.from(text).toString("base64")}?=`;

const headerTricks: readonly HttpAttempt[] = [
  attempt("headers that name an open tool", () => ({ headers: { "mcp-name": open.tool } })),
  attempt("headers that name another method", () => ({ headers: { "mcp-method": "tools/list" } })),
  attempt("headers that name another method and no name", () => ({
    headers: { "mcp-method": "tools/list", "mcp-name": undefined },
  })),
  attempt("no repeating headers at all", () => ({
    headers: { "mcp-method": undefined, "mcp-name": undefined },
  })),
  attempt("the name header twice, the open one first", () => ({
    headers: { "mcp-name": [open.tool, closed.tool] },
  })),
  attempt("the name header twice, the closed one first", () => ({
    headers: { "mcp-name": [closed.tool, open.tool] },
  })),
  attempt("the name header in Base64", () => ({ headers: { "mcp-name": sentinel(open.tool) } })),
  attempt("the closed name in Base64", () => ({ headers: { "mcp-name": sentinel(closed.tool) } })),
  attempt("a closed name in the header of an open call", ({ era }) => ({
    headers: { "mcp-name": closed.tool },
    body: String(plainAttempt.text(era)).replace(closed.tool, open.tool),
  })),
  attempt("a call in the header of a list", ({ era }) => ({
    headers: { "mcp-method": "tools/call", "mcp-name": closed.tool },
    body: String(plainAttempt.text(era)).replace("tools/call", "tools/list").replace(closed.tool, "any"),
  })),
  attempt("a parameter header nobody asked for", () => ({ headers: { "mcp-param-name": open.tool } })),
  attempt("another version in the header", () => ({ headers: { "mcp-protocol-version": "2024-11-05" } })),
  attempt("an unknown version in the header", () => ({ headers: { "mcp-protocol-version": "2099-01-01" } })),
  attempt("two versions in the header", () => ({
    headers: { "mcp-protocol-version": ["2025-11-25", "2026-07-28"] },
  })),
  attempt("no version in the header", () => ({ headers: { "mcp-protocol-version": undefined } })),
  attempt("an address of a proxy", () => ({
    headers: { "x-forwarded-for": "127.0.0.1", forwarded: "for=127.0.0.1" },
  })),
  attempt("a rewritten path in a header", () => ({
    headers: { "x-original-url": "/mcp", "x-rewrite-url": "/mcp", "x-forwarded-prefix": "/open" },
  })),
  attempt("another method in a header", () => ({
    verb: "GET",
    headers: { "x-http-method-override": "POST", "x-http-method": "POST", "x-method-override": "POST" },
  })),
  attempt("a principal in a header", () => ({ headers: { "x-user": "admin", "x-remote-user": "admin" } })),
];

const contents: readonly HttpAttempt[] = [
  attempt("gzip", (facts) => ({ headers: { "content-encoding": "gzip" }, body: gzipSync(body(facts)) })),
  attempt("deflate", (facts) => ({
    headers: { "content-encoding": "deflate" },
    body: deflateSync(body(facts)),
  })),
  attempt("brotli", (facts) => ({
    headers: { "content-encoding": "br" },
    body: brotliCompressSync(body(facts)),
  })),
  attempt("gzip without saying so", (facts) => ({ body: gzipSync(body(facts)) })),
  attempt("said to be gzip", () => ({ headers: { "content-encoding": "gzip" } })),
  attempt("said to be identity", () => ({ headers: { "content-encoding": "identity" } })),
  attempt("gzip within gzip", (facts) => ({
    headers: { "content-encoding": "gzip, gzip" },
    body: gzipSync(gzipSync(body(facts))),
  })),
  attempt("text/plain", () => ({ headers: { "content-type": "text/plain" } })),
  attempt("no content type", () => ({ headers: { "content-type": undefined } })),
  attempt("two content types", () => ({ headers: { "content-type": ["text/plain", "application/json"] } })),
  attempt("two content types, JSON first", () => ({ headers: { "content-type": ["application/json", "text/plain"] } })),
  attempt("a JSON type with a suffix", () => ({ headers: { "content-type": "application/x+json" } })),
  attempt("UTF-16 and said so", (facts) => ({
    headers: { "content-type": "application/json; charset=utf-16" },
    body: Buffer.from(body(facts), "utf16le"),
  })),
  attempt("UTF-7 and said so", (facts) => ({
    headers: { "content-type": "application/json; charset=utf-7" },
    body: body(facts).replaceAll('"', "+ACI-"),
  })),
  attempt("a form", (facts) => ({
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: `message=${encodeURIComponent(body(facts))}`,
  })),
  attempt("several parts", (facts) => ({
    headers: { "content-type": "multipart/mixed; boundary=x" },
    body: `--x\r\ncontent-type: application/json\r\n\r\n${body(facts)}\r\n--x--`,
  })),
];

const framings: readonly HttpAttempt[] = [
  attempt("in chunks", (facts) => ({ framing: te, body: chunked(body(facts)) })),
  attempt("in chunks of one byte", (facts) => ({
    framing: te,
    body: chunked(body(facts), ...Array.from({ length: body(facts).length }, () => 1)),
  })),
  attempt("in chunks that part the name", (facts) => ({
    framing: te,
    body: chunked(body(facts), body(facts).indexOf("open_vault") + 5),
  })),
  attempt("in chunks with extensions", (facts) => ({
    framing: te,
    body: chunked(body(facts)).replace("\r\n", ';name="status"\r\n'),
  })),
  attempt("in chunks with trailers", (facts) => ({
    framing: [...te, "trailer: mcp-name"],
    body: chunked(body(facts)).replace(/\r\n$/u, `mcp-name: ${closed.tool}\r\n\r\n`),
  })),
  attempt("in chunks and with a length", (facts) => ({
    framing: [...te, `content-length: ${chunked(body(facts)).length}`],
    body: chunked(body(facts)),
  })),
  attempt("in chunks that are said to be compressed", (facts) => ({
    framing: ["transfer-encoding: gzip, chunked"],
    body: chunked(body(facts)),
  })),
  attempt("in chunks, twice said", (facts) => ({
    framing: [...te, ...te],
    body: chunked(body(facts)),
  })),
  attempt("with two lengths", (facts) => ({
    framing: ["content-length: 5", `content-length: ${body(facts).length}`],
  })),
  attempt("with a transfer coding in disguise", (facts) => ({
    framing: ["transfer-encoding: xchunked", `content-length: ${body(facts).length}`],
  })),
  attempt("with a transfer coding and a blank before the colon", (facts) => ({
    framing: ["transfer-encoding : chunked", `content-length: ${body(facts).length}`],
  })),
  attempt("with a length that has a plus", (facts) => ({
    framing: [`content-length: +${body(facts).length}`],
  })),
  attempt("with a length that is too short", (facts) => ({
    framing: [`content-length: ${body(facts).length - 1}`],
  })),
  attempt("behind another request on the same connection", (facts) => {
    const inner = write(facts, {}).toString("latin1");
    return { verb: "GET", target: "/healthz", framing: ["content-length: 0"], body: inner };
  }),
  attempt("as the body of a request that has none", (facts) => ({
    verb: "GET",
    framing: [],
    body: write(facts, {}),
  })),
  attempt("behind a chunk that ends the body", (facts) => ({
    framing: [...te],
    body: `0\r\n\r\n${write(facts, {}).toString("latin1")}`,
  })),
];

const verbs: readonly HttpAttempt[] = [
  ...["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "post", "POSTS", "SEARCH", "QUERY"].map((verb) =>
    attempt(`by ${verb}`, () => ({ verb })),
  ),
  attempt("in the query", (facts) => ({
    verb: "GET",
    target: `/mcp?message=${encodeURIComponent(body(facts))}`,
    body: "",
  })),
];

const paths: readonly HttpAttempt[] = [
  "/mcp/",
  "//mcp",
  "/MCP",
  "/%6dcp",
  "/mcp%00",
  "/mcp%2f",
  "/mcp/../mcp",
  "/./mcp",
  "/x/../mcp",
  "/mcp;x=1",
  "/mcp?x=1",
  "/mcp#x",
  "/mcp/status",
  "/mcp/mcp",
  "/default/mcp",
  "/guarded/mcp",
  "/guarded/../open/mcp",
  "/open/../mcp",
  "/open/..%2fmcp",
  "/sse",
  "/messages",
  "/message",
  "/",
  "/healthz",
  "/readyz",
  "/.well-known/mcp",
  "http://127.0.0.1/mcp",
  "http://other.example/mcp",
  "*",
  "mcp",
].map((target) => attempt(`at ${target}`, () => ({ target })));

/** Every attempt that plays with HTTP itself. */
export const httpAttempts: readonly HttpAttempt[] = [
  attempt("the plain call", () => ({})),
  ...headerTricks,
  ...contents,
  ...framings,
  ...verbs,
  ...paths,
];
