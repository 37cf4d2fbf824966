import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../test/support/exchange.ts";
import { createFakeTime, settled } from "../../../test/support/fake-time.ts";
import { requestOf, resultOf } from "../../../test/support/messages.ts";
import { anonymous, type Exchange } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { Session } from "../../sessions/session.ts";
import type { UpstreamLink } from "../../transports/transport.ts";
import { createLinks, type LinkLimits } from "./links.ts";

const minutes = 60_000;

/** Links to a server that answers when told to. */
function bench(limits: Partial<LinkLimits> = {}) {
  const time = createFakeTime();
  const closed: string[] = [];
  const answers: (() => void)[] = [];
  let opened = 0;
  const open = (): UpstreamLink => {
    const name = `link ${++opened}`;
    return {
      incarnation: name,
      upstreamSession: undefined,
      hasBackpressure: false,
      request: () =>
        new Promise<Reply>((resolve) => {
          answers.push(() => {
            resolve({ message: resultOf({}) });
          });
        }),
      send: () => Promise.reject(new Error("nothing is sent here")),
      listen: () => {},
      close: async () => {
        closed.push(name);
      },
    };
  };
  const events = { message: () => {}, malformed: () => {}, error: () => {}, closed: () => {} };
  const links = createLinks(open, "principal", () => events, {
    limits: { perPrincipal: 2, total: 10, countsSessions: true, ...limits },
    clock: time.clock,
    setTimer: time.setTimer,
    newId: () => "id",
    address: "there",
    onBegunAnew: () => {},
  });
  const by = (who: string, capabilities = {}): Exchange =>
    exchangeWith(requestOf("tools/list", { _meta: { "io.modelcontextprotocol/clientCapabilities": capabilities } }), {
      principal: { ...anonymous, id: who },
    });
  return {
    time,
    closed,
    answer: async () => {
      answers.shift()?.();
      await settled();
    },
    modern: (who: string, set = "") => links.for(by(who, { experimental: { [set]: {} } }), undefined),
    session: (who: string, id: string) => {
      const session = new Session(id, "test", { ...anonymous, id: who }, time.clock.now(), 1e9);
      links.for(by(who), session);
      return session;
    },
    use: (link: UpstreamLink) => void link.request(by("ann")),
  };
}

describe("links of modern clients", () => {
  it("are closed when nobody has used them for 10 to 20 minutes, and not while a request runs", async () => {
    const { time, closed, modern, use, answer } = bench();
    modern("ann");
    use(modern("bob"));
    await time.advance(9 * minutes);
    expect(closed).toEqual([]);
    await time.advance(11 * minutes);
    expect(closed).toEqual(["link 1"]);
    await time.advance(60 * minutes);
    expect(closed).toEqual(["link 1"]);
    await answer();
    await time.advance(20 * minutes);
    expect(closed).toEqual(["link 1", "link 2"]);
    expect(time.pending()).toBe(0);
  });

  it("and sessions of one caller make room for its next one, the links first", () => {
    const { closed, modern, session } = bench();
    const first = session("ann", "first");
    modern("ann", "a");
    modern("ann", "b");
    expect(closed).toEqual(["link 2"]);
    session("ann", "second");
    expect([closed, first.isOver]).toEqual([["link 2", "link 3"], false]);
    session("ann", "third");
    expect(first.isOver).toBe(true);
  });

  it("are refused to a caller whose links and sessions are all in use, and to no other", () => {
    const { modern, session, use } = bench();
    use(modern("ann", "a"));
    session("ann", "busy").running++;
    expect(() => modern("ann", "b")).toThrow("this caller uses too many servers");
    expect(() => session("ann", "another")).toThrow("this caller uses too many servers");
    expect(() => [modern("bob"), session("bob", "his")]).not.toThrow();
  });
});
