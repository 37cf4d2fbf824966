import { describe, expect, it } from "vitest";
import { exchangeWith, messageFrom } from "../../../test/support/exchange.ts";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import { GatewayError } from "../../errors.ts";
import { anonymous, type Exchange } from "../../core/exchange.ts";
import { noReply, type Reply } from "../../core/pipeline.ts";
import { idFrom } from "../../protocol/message.ts";
import { errorMessage, resultMessage } from "../../core/reply.ts";
import type { LinkEvents } from "../../transports/transport.ts";
import { type ProbeVerdict, probeEra } from "./era-detection.ts";
import { type BridgeLink, createEraLinks } from "./era-links.ts";

const events: LinkEvents = { message: () => {}, malformed: () => {}, error: () => {}, closed: () => {} };
const modernScope = { era: "modern", principal: anonymous, session: undefined, capabilities: "{}" } as const;
const legacyScope = { ...modernScope, era: "legacy" } as const;

function fakeLink(name: string, log: string[], answer: (exchange: Exchange) => Promise<Reply>): BridgeLink {
  return {
    isIdle: true,
    incarnation: name,
    upstreamSession: undefined,
    hasBackpressure: true,
    request: (exchange) => {
      log.push(`${name} ${exchange.message.method}`);
      return answer(exchange);
    },
    send: async () => noReply,
    listen: () => {},
    close: async () => {
      log.push(`${name} closed`);
    },
  };
}

const fine = async (): Promise<Reply> => ({ message: resultMessage(idFrom(1), "{}") });
const call = exchangeWith(
  messageFrom(
    '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}}',
  ),
);
const handshake = exchangeWith(messageFrom('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'));

function setUp(
  probes: ProbeVerdict[],
  plainAnswer: (exchange: Exchange) => Promise<Reply> = fine,
  bridgedAnswer: (exchange: Exchange) => Promise<Reply> = fine,
) {
  const log: string[] = [];
  const time = createFakeTime();
  const { open } = createEraLinks({
    era: "auto",
    plain: () => fakeLink("plain", log, plainAnswer),
    bridges: {
      toModern: () => fakeLink("to-modern", log, fine),
      toLegacy: () => fakeLink("to-legacy", log, bridgedAnswer),
    },
    probe: async () => {
      log.push("probe");
      return probes.shift() ?? "modern";
    },
    clock: time.clock,
    onVerdict: (verdict) => log.push(`verdict ${verdict}`),
  });
  return { log, time, open };
}

const withoutVerdicts = (log: readonly string[]): string[] => log.filter((line) => !line.startsWith("verdict"));

describe("links across the eras", () => {
  it("asks the upstream once, also when many requests come at the same time", async () => {
    const { log, open } = setUp(["modern"]);
    const link = open(modernScope, events);
    await Promise.all([link.request(call), link.request(call)]);
    await open(modernScope, events).request(call);
    expect(withoutVerdicts(log)).toEqual(["probe", "plain tools/list", "plain tools/list", "plain tools/list"]);
  });

  it("bridges modern requests to an older upstream, and asks again after a while, for servers get upgraded", async () => {
    const { log, time, open } = setUp(["legacy", "modern"]);
    const link = open(modernScope, events);
    await link.request(call);
    await link.request(call);
    await time.advance(11 * 60_000);
    await link.request(call);
    expect(withoutVerdicts(log)).toEqual([
      "probe",
      "to-legacy tools/list",
      "to-legacy tools/list",
      "probe",
      "plain tools/list",
    ]);
  });

  it("bridges a session whose handshake a modern-only upstream refuses, and later ones at once", async () => {
    const refuse = async (): Promise<Reply> => ({
      message: errorMessage(idFrom(1), { code: -32022, message: "no" }),
    });
    const { log, open } = setUp(["modern"], refuse);
    const first = open(legacyScope, events);
    expect(first.resolvedLink).toBeUndefined();
    const reply = await first.request(handshake);
    expect(reply.message?.kind).toBe("result");
    expect(first.resolvedLink?.incarnation).toBe("to-modern");
    await open(legacyScope, events).request(handshake);
    expect(withoutVerdicts(log)).toEqual([
      "plain initialize",
      "plain closed",
      "probe",
      "to-modern initialize",
      "to-modern initialize",
    ]);
  });

  it("gives back the refusal of an upstream that is of no other era either", async () => {
    const refuse = async (): Promise<Reply> => ({
      message: errorMessage(idFrom(1), { code: -32602, message: "no" }),
    });
    const { log, open } = setUp(["legacy"], refuse);
    const reply = await open(legacyScope, events).request(handshake);
    expect(reply.message?.kind).toBe("error");
    expect(withoutVerdicts(log)).toEqual(["plain initialize", "plain closed", "probe"]);
  });

  it("takes a silent upstream for legacy only once it has answered over the bridge", async () => {
    const { log, open } = setUp(["silent"]);
    const link = open(modernScope, events);
    await link.request(call);
    await link.request(call);
    expect(log).toEqual(["probe", "verdict silent", "to-legacy tools/list", "verdict legacy", "to-legacy tools/list"]);
  });

  it("asks a silent upstream again after the older handshake failed too", async () => {
    const fail = async (): Promise<Reply> => {
      throw new GatewayError("upstream_timeout", "silent");
    };
    const { log, open } = setUp(["silent", "modern"], fine, fail);
    const link = open(modernScope, events);
    await expect(link.request(call)).rejects.toMatchObject({ code: "upstream_timeout" });
    await link.request(call);
    expect(log).toEqual([
      "probe",
      "verdict silent",
      "to-legacy tools/list",
      "probe",
      "verdict modern",
      "plain tools/list",
    ]);
  });

  it("does not probe where nothing was said, only something failed", async () => {
    const fail = async (): Promise<Reply> => {
      throw new GatewayError("upstream_unreachable", "down");
    };
    const { log, open } = setUp([], fail);
    await expect(open(legacyScope, events).request(handshake)).rejects.toMatchObject({
      code: "upstream_unreachable",
    });
    expect(log).toEqual(["plain initialize"]);
  });
});

describe("the probe", () => {
  const probe = (answer: () => Promise<Reply>, silenceIsLegacy = false) => {
    const time = createFakeTime();
    return probeEra({
      principal: anonymous,
      route: "r",
      clock: time.clock,
      setTimer: time.setTimer,
      newId: () => "1",
      open: () => fakeLink("probe", [], answer),
      silenceIsLegacy,
      timeoutMs: 1000,
    });
  };

  it("takes only a discovery, or the list of modern versions, as evidence of a modern server", async () => {
    const discovery = async () => ({
      message: resultMessage(idFrom(1), '{"supportedVersions":["2026-07-28"]}'),
    });
    const listed = async () => ({
      message: errorMessage(idFrom(1), { code: -32022, message: "", data: { supported: ["2026-07-28"] } }),
    });
    expect([await probe(discovery), await probe(listed)]).toEqual(["modern", "modern"]);
    for (const code of [-32601, -32020, -32021, -32000, -32022]) {
      const refusal = async () => ({ message: errorMessage(idFrom(1), { code, message: "" }) });
      expect([code, await probe(refusal)]).toEqual([code, "legacy"]);
    }
    expect(await probe(async () => ({ message: resultMessage(idFrom(1), "{}") }))).toBe("legacy");
  });

  it("takes faults and refused credentials as no evidence, and silence only on stdio", async () => {
    const failing = (upstreamStatus: number) => async (): Promise<Reply> => {
      throw new GatewayError("upstream_invalid", "", { details: { upstreamStatus } });
    };
    for (const status of [400, 404, 405]) expect(await probe(failing(status))).toBe("legacy");
    for (const status of [401, 403, 500, 503])
      await expect(probe(failing(status))).rejects.toBeInstanceOf(GatewayError);
    const silent = async (): Promise<Reply> => {
      throw new GatewayError("upstream_timeout", "");
    };
    await expect(probe(silent)).rejects.toMatchObject({ code: "upstream_timeout" });
    expect(await probe(silent, true)).toBe("silent");
  });
});

describe("bridges to the older era", () => {
  const callWith = (capabilities: string): Exchange =>
    exchangeWith(
      messageFrom(
        `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":${capabilities}}}}`,
      ),
    );

  function bounded(log: string[], busy: ReadonlySet<string | undefined>) {
    const { open } = createEraLinks({
      era: "legacy",
      plain: () => fakeLink("plain", log, fine),
      bridges: {
        toModern: () => fakeLink("to-modern", log, fine),
        toLegacy: ({ capabilities }) => ({
          ...fakeLink(String(capabilities), log, fine),
          isIdle: !busy.has(capabilities),
        }),
      },
      probe: async () => "legacy",
      clock: createFakeTime().clock,
      maxBridges: 2,
    });
    return open(modernScope, events);
  }

  it("are bounded: the one that was idle for longest makes room", async () => {
    const log: string[] = [];
    const link = bounded(log, new Set(['{"a":1}']));
    for (const capabilities of ['{"a":1}', '{"b":1}', '{"a":1}', '{"c":1}', '{"d":1}', '{"c":1}'])
      await link.request(callWith(capabilities));
    expect(log.filter((line) => line.endsWith("closed"))).toEqual([
      '{"b":1} closed',
      '{"c":1} closed',
      '{"d":1} closed',
    ]);
    await link.close("over");
    expect(log.filter((line) => line.endsWith("closed")).toSorted()).toEqual(
      ['{"b":1}', '{"c":1}', '{"d":1}', '{"a":1}', '{"c":1}'].map((name) => `${name} closed`).toSorted(),
    );
  });

  it("are refused to new kinds of clients while all of them are in use", () => {
    const link = bounded([], new Set(['{"a":1}', '{"b":1}']));
    void link.request(callWith('{"a":1}'));
    void link.request(callWith('{"b":1}'));
    expect(() => link.request(callWith('{"c":1}'))).toThrow("too many kinds");
  });
});
