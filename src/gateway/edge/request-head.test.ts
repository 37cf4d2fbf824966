import { describe, expect, it } from "vitest";

import { requestHeadProblem, useOriginForm } from "./request-head.ts";

type Lines = readonly (readonly [name: string, value: string])[];

interface Row {
  readonly lines: Lines;
  readonly httpVersion?: string;
  readonly says?: string;
}

function headOf(lines: Lines, httpVersion = "1.1") {
  const headers: Record<string, string> = {};
  // As Node does: the first counts.
  for (const [name, value] of lines) headers[name.toLowerCase()] ??= value;
  return { headers, httpVersion, rawHeaders: lines.flat() };
}

const host = ["Host", "here"] as const;

describe("the head of a request", () => {
  it.each<Row>([
    { lines: [host] },
    { lines: [host, ["Authorization", "Bearer a"], ["Content-Type", "text/plain"]] },
    { lines: [host, ["Accept", "a"], ["Accept", "b"]] },
    { lines: [host, ["Transfer-Encoding", "Chunked"]] },
    { lines: [], httpVersion: "1.0" },
  ])("is clear ($lines, $httpVersion)", ({ lines, httpVersion }) => {
    expect(requestHeadProblem(headOf(lines, httpVersion))).toBeUndefined();
  });

  it.each<Row>([
    { lines: [], says: "no Host" },
    { lines: [host, ["hOsT", "there"]], says: "several headers hOsT" },
    { lines: [host, ["Authorization", "a"], ["authorization", "a"]], says: "several headers authorization" },
    { lines: [host, ["Content-Type", "a"], ["CONTENT-TYPE", "b"]], says: "several headers CONTENT-TYPE" },
    ...["gzip, chunked", "chunked, chunked", "identity", "xchunked", "", "chunked;q=1"].map((coding) => ({
      lines: [host, ["Transfer-Encoding", coding] satisfies Lines[number]],
      says: "Transfer-Encoding",
    })),
    { lines: [host, ["Transfer-Encoding", "chunked"]], httpVersion: "1.0", says: "HTTP/1.0" },
    ...["0.9", "2.0", "1.2"].map((httpVersion) => ({ lines: [host], httpVersion, says: `HTTP/${httpVersion}` })),
  ])("is refused ($lines, $httpVersion): $says", ({ lines, httpVersion, says }) => {
    expect(requestHeadProblem(headOf(lines, httpVersion))).toContain(says);
  });
});

describe("the target of a request", () => {
  it.each([
    { url: "/mcp?x=1", is: "/mcp?x=1", asked: "here" },
    { url: "http://there/mcp", is: "/mcp", asked: "there" },
    { url: "HTTPS://there:1/mcp?x=1", is: "/mcp?x=1", asked: "there:1" },
    { url: "http://there", is: "/", asked: "there" },
    { url: "http://there?x=1", is: "/?x=1", asked: "there" },
    // Nothing is resolved: the paths of endpoints are compared as they are.
    { url: "http://there/a/../mcp", is: "/a/../mcp", asked: "there" },
    { url: "http://a@there/mcp", is: "http://a@there/mcp", asked: "here" },
    { url: "http:///mcp", is: "http:///mcp", asked: "here" },
    { url: "ftp://there/mcp", is: "ftp://there/mcp", asked: "here" },
    { url: "*", is: "*", asked: "here" },
  ])("$url is $is at $asked", ({ url, is, asked }) => {
    const request = { url, headers: { host: "here" } };
    useOriginForm(request);
    expect(request).toEqual({ url: is, headers: { host: asked } });
  });
});
