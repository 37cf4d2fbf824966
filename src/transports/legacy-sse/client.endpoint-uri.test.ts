import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { anyText } from "../../../test/support/arbitraries.ts";
import { formatEndpoint, parseEndpointEvent, sessionIdOf } from "./client.ts";

const stream = new URL("https://tools.example/prefix/sse?key=1");

describe("the endpoint that an upstream names", () => {
  it.each([
    ["/messages?sessionId=1", "/messages?sessionId=1"],
    ["messages?sessionId=1", "/prefix/messages?sessionId=1"],
    ["?sessionId=1", "/prefix/sse?sessionId=1"],
    ["https://tools.example/elsewhere", "/elsewhere"],
    ["https://tools.example:443/elsewhere#part", "/elsewhere"],
    ["//tools.example/elsewhere", "/elsewhere"],
    [" /messages \n", "/messages"],
  ])("%j is posted to at %s", (data, path) => {
    expect(parseEndpointEvent(data, stream)).toBe(path);
  });

  it.each([
    "https://other.example/messages",
    "http://tools.example/messages",
    "https://tools.example:8443/messages",
    "//other.example/messages",
    String.raw`\\other.example/messages`,
    "javascript:alert(1)",
    "data:,x",
  ])("%s has another origin and is refused without repeating it to the client", (data) => {
    expect(() => parseEndpointEvent(data, stream)).toThrow(
      expect.objectContaining({
        code: "upstream_invalid",
        message: "the upstream's message endpoint has another origin",
      }),
    );
  });

  it.each(["", "https://", "http://[", `/${"x".repeat(4096)}`])("%.20s is no usable URI", (data) => {
    expect(() => parseEndpointEvent(data, stream)).toThrow(
      expect.objectContaining({
        code: "upstream_invalid",
        message: "the upstream's message endpoint is not a valid URI",
      }),
    );
  });
});

describe("the endpoint that a client is told", () => {
  it.each([
    ["/sse", "", "/messages?sessionId=a"],
    ["/files/sse", "", "/files/messages?sessionId=a"],
    ["/files/sse?token=1", "", "/files/messages?sessionId=a"],
    ["/sse/sse", "", "/sse/messages?sessionId=a"],
    ["/files/sse", "/tools", "/tools/files/messages?sessionId=a"],
    ["/files/sse", "/tools/", "/tools/files/messages?sessionId=a"],
    ["/files/sse", "/", "/files/messages?sessionId=a"],
  ])("for a stream at %s, shown under %j, is %s", (url, publicPath, endpoint) => {
    expect(formatEndpoint(url, publicPath, "a")).toBe(endpoint);
  });

  it.each(["", "/", "/mcp", "/ssefiles", "//other.example/sse", "http://other.example/sse", "/files/sse/"])(
    "is none for a request to %j",
    (url) => {
      expect(formatEndpoint(url, "", "a")).toBeUndefined();
    },
  );

  it("leads back to the session, whatever its id", () => {
    fc.assert(
      fc.property(
        anyText.filter((id) => id !== ""),
        (id) => {
          const endpoint = formatEndpoint("/files/sse", "", id) ?? "";
          expect(sessionIdOf(parseEndpointEvent(endpoint, stream))).toBe(id);
        },
      ),
    );
  });

  it.each(["/messages", "/messages?", "/messages?sessionId=", "/messages?sessionid=a", "//"])(
    "%s names no session",
    (url) => {
      expect(sessionIdOf(url)).toBeUndefined();
    },
  );
});
