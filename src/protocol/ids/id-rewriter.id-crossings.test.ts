import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createForwardedRequests, type ForwardedRequest } from "./id-rewriter.ts";
import { idFrom } from "../message.ts";

const factsOf = (owner: string) => ({
  owner,
  method: "tools/call",
  id: idFrom(1),
  token: undefined,
  wantsTask: false,
  aboutTask: undefined,
});

describe("crossings", () => {
  it("have numbers that count up and never come twice, whatever stays and whatever goes", () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { maxLength: 400 }), (stays) => {
        const crossings = createForwardedRequests<string>();
        const kept: ForwardedRequest<string>[] = [];
        let last = 0;
        for (const stay of stays) {
          const crossing = crossings.add(factsOf("a"));
          expect(crossing.number).toBeGreaterThan(last);
          last = crossing.number;
          if (stay) kept.push(crossing);
          else crossings.remove(crossing);
        }
        expect(kept.filter((crossing) => crossings.find(crossing.number) !== crossing)).toEqual([]);
        expect([crossings.size, crossings.last]).toEqual([kept.length, last]);
      }),
    );
  });

  it("stay bounded in their table while one of them stays for ever", () => {
    const crossings = createForwardedRequests<string>();
    const listen = crossings.add(factsOf("a"));
    for (let turn = 0; turn < 1000; turn++) crossings.remove(crossings.add(factsOf("b")));
    expect([crossings.find(listen.number), crossings.size]).toEqual([listen, 1]);
    // One number in 64 falls on the place of the one that stays.
    expect(crossings.last).toBeLessThan(1020);
  });

  it("are not found once removed, nor under numbers of the same place", () => {
    const crossings = createForwardedRequests<string>();
    const crossing = crossings.add(factsOf("a"));
    expect([crossings.find(0), crossings.find(crossing.number + 64)]).toEqual([undefined, undefined]);
    crossings.remove(crossing);
    crossings.remove(crossing);
    expect([crossings.find(crossing.number), crossings.size]).toEqual([undefined, 0]);
  });

  it("are searched from the newest, and taken out by owner", () => {
    const crossings = createForwardedRequests<string>();
    const [a, b, c] = [crossings.add(factsOf("x")), crossings.add(factsOf("y")), crossings.add(factsOf("x"))];
    expect(crossings.search(({ owner }) => owner === "x")).toBe(c);
    expect(crossings.removeAll("x")).toEqual([a, c]);
    expect([crossings.find(b.number), crossings.size]).toEqual([b, 1]);
  });

  it("keep a thousand tasks, and the newest of them", () => {
    const crossings = createForwardedRequests<string>();
    const all = Array.from({ length: 1001 }, (_, index) => {
      const crossing = crossings.add(factsOf("a"));
      crossings.keepTask(crossing, `t${index}`);
      return crossing;
    });
    expect([crossings.tasks, crossings.size]).toEqual([1000, 1000]);
    expect(crossings.find(all[0]?.number ?? 0)).toBeUndefined();
    crossings.removeAll("a");
    expect(crossings.tasks).toBe(0);
  });
});
