import { describe, expect, it } from "vitest";
import { exchangeWith, messageFrom } from "../../../test/support/exchange.ts";
import { GatewayError } from "../../errors.ts";
import type { Exchange } from "../../core/exchange.ts";
import { noReply } from "../../core/pipeline.ts";
import { idFrom } from "../../protocol/message.ts";
import { resultMessage } from "../../core/reply.ts";
import { type LinkEvents, requestWithCallback, type UpstreamLink } from "../../transports/transport.ts";
import { createTransportDetectingLink, type DetectedTransport } from "./transport-detection.ts";

function fakeLink(name: string, log: string[], answer: () => ReturnType<UpstreamLink["request"]>): UpstreamLink {
  return {
    incarnation: name,
    upstreamSession: name,
    hasBackpressure: true,
    request: (exchange: Exchange) => {
      log.push(`${name} ${exchange.message.method}`);
      return answer();
    },
    send: async () => noReply,
    listen: () => {},
    close: async () => {
      log.push(`${name} closed`);
    },
  };
}

const events: LinkEvents = { message: () => {}, malformed: () => {}, error: () => {}, closed: () => {} };
const initialize = exchangeWith(messageFrom('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'));
const fine = async () => ({ message: resultMessage(idFrom(1), "{}") });
const status = (upstreamStatus: number) => async () => {
  throw new GatewayError("upstream_invalid", "no", { details: { upstreamStatus } });
};

describe("finding the HTTP transport of an upstream", () => {
  it("stays with Streamable HTTP where the handshake works, and remembers", async () => {
    const log: string[] = [];
    const verdict: DetectedTransport = { transport: undefined };
    const link = createTransportDetectingLink(
      verdict,
      events,
      () => fakeLink("new", log, fine),
      () => fakeLink("old", log, fine),
    );
    expect(link.resolvedLink).toBeUndefined();
    await link.request(initialize);
    expect([verdict.transport, log]).toEqual(["streamable-http", ["new initialize"]]);
    expect(link.resolvedLink?.incarnation).toBe("new");
  });

  it("finds out for somebody who waits without a promise just as well, and tells of failures too", async () => {
    const log: string[] = [];
    const told = (link: UpstreamLink, exchange: Exchange): Promise<string> =>
      new Promise((resolve) => {
        requestWithCallback(link, exchange, {
          resolve: ({ message }) => {
            resolve(`answer ${message?.id?.key}`);
          },
          reject: ({ code }) => {
            resolve(code);
          },
        });
      });
    const link = createTransportDetectingLink(
      { transport: undefined },
      events,
      () => fakeLink("new", log, status(405)),
      () => fakeLink("old", log, fine),
    );
    expect(await told(link, initialize)).toBe("answer n:1");
    const call = exchangeWith(messageFrom('{"jsonrpc":"2.0","id":2,"method":"tools/list"}'));
    expect(await told(link, call)).toBe("answer n:1");
    expect(log).toEqual(["new initialize", "old initialize", "new closed", "old tools/list"]);
    const broken = fakeLink("broken", log, status(500));
    expect(await told(broken, call)).toBe("upstream_invalid");
  });

  it("falls back to HTTP+SSE where a POST is unknown, closes the first try, and remembers for later links", async () => {
    const log: string[] = [];
    const verdict: DetectedTransport = { transport: undefined };
    const make = () =>
      createTransportDetectingLink(
        verdict,
        events,
        () => fakeLink("new", log, status(405)),
        () => fakeLink("old", log, fine),
      );
    const link = make();
    await link.request(initialize);
    expect(link.incarnation).toBe("old");
    await make().request(initialize);
    expect(log).toEqual(["new initialize", "old initialize", "new closed", "old initialize"]);
  });

  it("reports what Streamable HTTP said where neither works, and does not guess from server faults", async () => {
    const log: string[] = [];
    const neither = createTransportDetectingLink(
      { transport: undefined },
      events,
      () => fakeLink("new", log, status(404)),
      () => fakeLink("old", log, status(500)),
    );
    await expect(neither.request(initialize)).rejects.toMatchObject({ details: { upstreamStatus: 404 } });
    const broken = createTransportDetectingLink(
      { transport: undefined },
      events,
      () => fakeLink("new", log, status(503)),
      () => fakeLink("old", log, fine),
    );
    await expect(broken.request(initialize)).rejects.toMatchObject({ details: { upstreamStatus: 503 } });
    expect(log).toEqual(["new initialize", "old initialize", "old closed", "new initialize"]);
  });
});
