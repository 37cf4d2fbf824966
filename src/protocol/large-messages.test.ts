import { afterEach, describe, expect, it, vi } from "vitest";
import { reverseDirection } from "./message.ts";
import { metadataOf } from "./metadata.ts";
import { parse } from "./parse.ts";
import { createSseDecoder } from "./sse/decoder.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

describe("large messages", () => {
  it("[SC-022] give their metadata without building values", () => {
    const text = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"store","arguments":{"rows":[${"1,".repeat(200_000)}1],"text":"${"x".repeat(300_000)}"},"_meta":{"progressToken":"p"}}}`;
    const bytes = Buffer.from(text);
    expect(bytes.length).toBeGreaterThan(256 * 1024);
    const built = vi.spyOn(JSON, "parse");
    const outcome = parse(bytes, { revision: "2025-11-25", mode: "enforce" });
    if (!outcome.ok || outcome.form !== "single") throw new Error("not one message");
    const metadata = metadataOf(outcome.message);
    expect(built).not.toHaveBeenCalled();
    expect(metadata).toMatchObject({
      target: { type: "tool", name: "store" },
      progressToken: { key: "s:p" },
      size: bytes.length,
    });
  });
});

describe("events of a stream", () => {
  it("[SC-039] are correlated by the ids in their data, and invalid JSON is not a message", () => {
    const seen: string[] = [];
    const decoder = createSseDecoder({
      maxEventBytes: 1000,
      onEvent: ({ data }) => {
        const outcome = parse(data, { revision: "2025-11-25", mode: "observe" });
        if (!outcome.ok) seen.push(`raw ${outcome.failure.reason}`);
        else if (outcome.form === "single") seen.push(outcome.message.id?.key ?? outcome.message.kind);
      },
    });
    decoder.push(
      Buffer.from(
        [
          'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}',
          "data: hello, I am a log line",
          'data: {"jsonrpc":"2.0","id":"9007199254740993","result":{}}',
          'data: {"jsonrpc":"2.0","id":9007199254740993,"result":{}}',
        ]
          .map((line) => `${line}\n\n`)
          .join(""),
      ),
    );
    expect(seen).toEqual(["notification", "raw json.syntax", "s:9007199254740993", "n:9007199254740993"]);
  });
});

describe("directions", () => {
  it("[SC-043] reverse to each other and back; internal and unknown stay unchanged", () => {
    for (const direction of ["client-to-server", "server-to-client"] as const) {
      expect(reverseDirection(direction)).not.toBe(direction);
      expect(reverseDirection(reverseDirection(direction))).toBe(direction);
    }
    expect(reverseDirection("internal")).toBe("internal");
    expect(reverseDirection("unknown")).toBe("unknown");
  });
});
