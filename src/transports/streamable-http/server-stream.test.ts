import { describe, expect, it } from "vitest";

import { defaultLimits } from "../../protocol/message.ts";
import type { HttpEndpoint, HttpSessionState } from "./endpoint.ts";
import { openServerStream, type ResumeOptions } from "./server-stream.ts";

const state: HttpSessionState = { era: "legacy", session: "s", revision: "2025-11-25", principal: undefined };
const longestTimer = 2 ** 31 - 1;

/** The delays between connections to a server that writes this text on each of them and ends it. */
function delaysWith(text: string, connections: number, once?: ResumeOptions): readonly number[] {
  const delays: number[] = [];
  let reconnect: (() => void) | undefined;
  const endpoint: HttpEndpoint = {
    origin: "http://upstream.example",
    path: "/mcp",
    headers: {},
    forwardHeaders: [],
    limits: defaultLimits,
    quickMs: 1000,
    newId: () => "stream-1",
    setTimer: (delay, callback) => {
      // The others are about how long requests wait for the stream.
      if (callback.name === "connect") {
        delays.push(delay);
        reconnect = callback;
      }
      return () => {};
    },
    dispatcher: {
      dispatch: (_options, handler) => {
        const controller = { abort: () => {}, pause: () => {}, resume: () => {} } as never;
        handler.onRequestStart?.(controller, undefined);
        handler.onResponseStart?.(controller, 200, { "content-type": "text/event-stream" }, "");
        handler.onResponseData?.(controller, Buffer.from(text));
        handler.onResponseEnd?.(controller, {});
        return true;
      },
    },
  };
  openServerStream(endpoint, state, () => {}, once);
  for (let count = 1; count < connections; count++) reconnect?.();
  return delays;
}

const event = 'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n';

describe("the stream of a server that ends it again and again", () => {
  it.each(["", "0", "1", "99", "2147483648", "99999999999", "9".repeat(400)])(
    "is reopened neither at once nor never, whatever the server asks for: retry %s",
    (retry) => {
      for (const text of [`retry: ${retry}\n\n`, `retry: ${retry}\n${event}`]) {
        const once = { lastEventId: "e", retryMs: Number(retry), onEnd: () => {} };
        const delays = [...delaysWith(text, 12), ...delaysWith(text, 1, once)];
        expect(delays).toHaveLength(13);
        for (const delay of delays) {
          expect(delay).toBeGreaterThanOrEqual(100);
          expect(delay).toBeLessThanOrEqual(longestTimer);
        }
      }
    },
  );

  it("is reopened ever more slowly while nothing comes, and as the server asks once something does", () => {
    expect(delaysWith("retry: 0\n\n", 5)).toEqual([200, 400, 800, 1600, 3200]);
    expect(delaysWith(": nothing\n\n", 7)).toEqual([2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
    expect(delaysWith(`retry: 250\n${event}`, 4)).toEqual([250, 250, 250, 250]);
    expect(delaysWith(event, 3)).toEqual([1000, 1000, 1000]);
    expect(delaysWith("retry: 60000\n\n", 2)).toEqual([60_000, 60_000]);
  });
});
