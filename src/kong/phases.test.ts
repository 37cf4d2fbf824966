import { describe, expect, it } from "vitest";

import type {
  HttpPolicyEngine,
  HttpRequestFacts,
  HttpResponseFacts,
  RequestOutcome,
  ResponseOutcome,
  SidebandLogEntry,
  StoredContext,
} from "../policy/sideband/contract.ts";
import { createFixedSecret } from "./engine-pool.ts";
import { createPdk } from "./pdk.ts";
import type { PhaseEnd } from "./phase-event.ts";
import { createAccessHandler, createKongPhaseLog, createResponseHandler, type KongPhaseDeps } from "./phases.ts";

interface Asked {
  readonly facts: HttpRequestFacts | HttpResponseFacts;
  readonly stored?: StoredContext;
}

const answers: Readonly<Record<string, unknown>> = {
  "kong.client.get_ip": "192.0.2.7",
  "kong.client.get_port": 5034,
  "kong.request.get_method": "POST",
  "kong.request.get_forwarded_scheme": "https",
  "kong.request.get_forwarded_host": "api.example.com",
  "kong.request.get_forwarded_port": 8443,
  "kong.request.get_forwarded_path": "/a b",
  "kong.request.get_raw_query": "x=1",
  "kong.request.get_http_version": 1.1,
  "kong.request.get_headers": { accept: ["a", "b"] },
  "kong.client.tls.get_full_client_certificate_chain": undefined,
  "kong.request.get_raw_body": Uint8Array.of(0xff, 0x00),
  "kong.response.get_status": 201,
  "kong.response.get_headers": [],
  "kong.service.response.get_raw_body": Uint8Array.of(1, 2),
};

/** Runs a phase against a kit with these answers and an engine that decides so. */
async function run(
  outcome: RequestOutcome | ResponseOutcome,
  options: {
    readonly phase?: "access" | "response";
    readonly shared?: Readonly<Record<string, string>>;
    readonly logs?: readonly SidebandLogEntry[];
    readonly hasResponsePhase?: boolean;
    readonly withMcp?: boolean;
    readonly kit?: Readonly<Record<string, unknown>>;
    readonly deps?: Partial<KongPhaseDeps>;
    /** Has the phase clean up after a failure instead of running it. */
    readonly isFailed?: boolean;
  } = {},
) {
  const calls: (readonly [string, ...unknown[]])[] = [];
  const asked: Asked[] = [];
  const lines: SidebandLogEntry[] = [];
  const phaseLog = createKongPhaseLog((entry) => lines.push(entry));
  const decide = async (question: Asked): Promise<RequestOutcome | ResponseOutcome> => {
    asked.push(question);
    for (const entry of options.logs ?? []) phaseLog.write(entry);
    return Promise.resolve(outcome);
  };
  const engine: HttpPolicyEngine = {
    hasResponsePhase: options.hasResponsePhase ?? true,
    evaluateRequest: (facts) => decide({ facts }) as Promise<RequestOutcome>,
    evaluateResponse: (facts, stored) => decide({ facts, stored }) as Promise<ResponseOutcome>,
    close: () => {},
  };
  const kong = createPdk((name, args) => {
    calls.push([name, ...args]);
    const value =
      name === "kong.ctx.shared.get" ? options.shared?.[String(args[0])] : { ...answers, ...options.kit }[name];
    return Promise.resolve(value);
  });
  const tools = {
    engine,
    secret: createFixedSecret("s"),
    phaseLog,
    budgetMs: 1,
    withMcp: options.withMcp ?? false,
    withTrace: false,
    maxBodyBytes: 100,
    logHead: { plugin: "p", service_url: "u" },
    hasResponseHandler: true,
    ...options.deps,
  };
  const phase = options.phase === "response" ? createResponseHandler(tools) : createAccessHandler(tools);
  let end: PhaseEnd | undefined;
  if (options.isFailed === true) await phase.fail(kong, "why");
  else end = await phase.run({ kong, signal: new AbortController().signal });
  return { calls, asked, lines, end };
}

const allow: RequestOutcome = { action: "continue", decision: "allow", changes: [], store: undefined };
const answer = { status: 403, headers: { "x-a": ["1", "2"] }, body: Buffer.from("no") };
const refusal = { reason: "policy", status: 403, message: "no" } as const;
const entry = { plugin: "p", phase: "access", service_url: "u", msg: "m" } as const;
const sets = (calls: readonly (readonly unknown[])[]) =>
  calls.filter(([name]) => !String(name).includes("get_") && !String(name).endsWith(".get"));

describe("the access phase", () => {
  it("[PA-042] [PA-043] [PA-044] [PA-045] [PA-048] [PA-050] [PX-05] reads the request through the PDK, with sizes", async () => {
    const { asked, calls } = await run(allow);
    expect(asked[0]?.facts).toEqual({
      clientAddress: "192.0.2.7",
      clientPort: 5034,
      method: "POST",
      scheme: "https",
      host: "api.example.com",
      port: 8443,
      path: "/a b",
      query: "x=1",
      httpVersion: 1.1,
      headers: { accept: ["a", "b"] },
      headerLimit: 1000,
      clientCertificate: undefined,
      body: Buffer.of(0xff, 0x00),
    });
    expect(calls).toContainEqual(["kong.request.get_headers", 1000]);
    expect(calls).toContainEqual(["kong.request.get_raw_body", 2 ** 31 - 1]);
  });

  it("[PA-211] [PX-03] applies the changes in the engine's order, stores the context, and sets the mark last", async () => {
    const { calls, end } = await run({
      action: "continue",
      decision: "allow",
      changes: [
        { type: "set-headers", headers: { host: ["new:443"], "x-a": ["1", "2"], "x-b": ["1"] } },
        { type: "clear-header", name: "accept-encoding" },
        { type: "set-method", method: "PUT" },
        { type: "set-path", path: "/new" },
        { type: "set-query", query: "" },
        { type: "set-body", body: Buffer.from("b") },
      ],
      store: { paz_original_request: "{}", paz_state: '"s"', paz_mcp: "{}" },
    });
    expect(sets(calls)).toEqual([
      ["kong.service.request.set_headers", { host: "new:443", "x-a": ["1", "2"], "x-b": "1" }],
      ["kong.service.request.clear_header", "accept-encoding"],
      ["kong.service.request.set_method", "PUT"],
      ["kong.service.request.set_path", "/new"],
      ["kong.service.request.set_raw_query", ""],
      ["kong.service.request.set_raw_body", Buffer.from("b")],
      ["kong.ctx.shared.set", "paz_original_request", "{}"],
      ["kong.ctx.shared.set", "paz_state", '"s"'],
      ["kong.ctx.shared.set", "paz_mcp", "{}"],
      ["kong.ctx.shared.set", "paz_access", "done"],
    ]);
    expect(end).toEqual({ end: "continue" });
  });

  it("[PX-03] marks a refusal as its own answer", async () => {
    const { calls, end } = await run({ action: "answer", answer, refusal });
    expect(sets(calls)).toEqual([["kong.ctx.shared.set", "paz_access", "refused"]]);
    expect(end).toEqual({ end: "exit", exit: answer });
  });

  it("[PX-03] [PA-133] marks its answer and logs the reason as JSON when it failed", async () => {
    const { calls } = await run(allow, { isFailed: true });
    expect(calls).toEqual([
      [
        "kong.log.err",
        '{"plugin":"p","phase":"access","service_url":"u","level":"error","msg":"Unexpected error","error":"why"}',
      ],
      ["kong.ctx.shared.set", "paz_access", "refused"],
    ]);
  });

  it("[PX-03] refuses an upgrade where responses are judged, and not where they are not", async () => {
    const kit = { "kong.request.get_headers": { upgrade: ["WebSocket"] } };
    const judged = await run(allow, { kit });
    expect([judged.end, judged.asked]).toMatchObject([{ end: "exit", exit: { status: 400 } }, []]);
    expect(sets(judged.calls).at(-1)).toEqual(["kong.ctx.shared.set", "paz_access", "refused"]);
    expect((await run(allow, { kit, hasResponsePhase: false })).end).toEqual({ end: "continue" });
  });

  it("[PA-050] asks Kong to buffer for HTTP/2 clients where responses are judged: old versions refuse", async () => {
    const kit = { "kong.request.get_http_version": 2 };
    const buffering = ["kong.service.request.enable_buffering"];
    expect((await run(allow, { kit })).calls).toContainEqual(buffering);
    expect((await run(allow, { kit, hasResponsePhase: false })).calls).not.toContainEqual(buffering);
    expect((await run(allow)).calls).not.toContainEqual(buffering);
  });

  it("refuses a body over the limit, and does not fetch one that announces itself", async () => {
    const announced = await run(allow, { kit: { "kong.request.get_headers": { "content-length": ["101"] } } });
    expect([announced.end, announced.asked]).toMatchObject([{ exit: { status: 413 } }, []]);
    expect(announced.calls.map(([name]) => name)).not.toContain("kong.request.get_raw_body");
    const found = await run(allow, { kit: { "kong.request.get_raw_body": new Uint8Array(101) } });
    expect([found.end, found.asked]).toMatchObject([{ exit: { status: 413 } }, []]);
    const unlimited = { kit: { "kong.request.get_raw_body": new Uint8Array(101) }, deps: { maxBodyBytes: 0 } };
    expect((await run(allow, unlimited)).end).toEqual({ end: "continue" });
  });

  it("[PX-03] frees the response where it is not judged, before its own mark", async () => {
    const { calls } = await run(allow, { hasResponsePhase: false });
    expect(sets(calls)).toEqual([
      ["kong.ctx.shared.set", "paz_response", "done"],
      ["kong.ctx.shared.set", "paz_access", "done"],
    ]);
  });

  it("[PA-138] sends warnings and errors to Kong's own log, and nothing else", async () => {
    const { calls, lines } = await run(allow, {
      logs: [
        { ...entry, level: "info" },
        { ...entry, level: "warn", status: 1 },
        { ...entry, level: "error" },
      ],
    });
    expect(sets(calls)).toEqual([
      ["kong.log.warn", JSON.stringify({ ...entry, level: "warn", status: 1 })],
      ["kong.log.err", JSON.stringify({ ...entry, level: "error" })],
      ["kong.ctx.shared.set", "paz_access", "done"],
    ]);
    expect(lines.map(({ level }) => level)).toEqual(["info"]);
  });
});

describe("the response phase", () => {
  const stored = { paz_original_request: "{}", paz_state: '"s"' };
  const pass: ResponseOutcome = { action: "pass", decision: "fail-open" };

  it("[PA-086] [PA-087] [PA-088] [PA-090] [PX-05] reads the upstream's response and the stored context", async () => {
    const { asked, calls } = await run(pass, { phase: "response", shared: { ...stored, paz_mcp: "{}" } });
    expect(asked).toEqual([
      {
        facts: { status: 201, headers: {}, headerLimit: 1000, body: Buffer.of(1, 2) },
        stored,
      },
    ]);
    expect(calls).toContainEqual(["kong.response.get_headers", 1000]);
    expect(calls).not.toContainEqual(["kong.ctx.shared.get", "paz_mcp"]);
  });

  it("[PA-162] reads the stored MCP facts where there may be some", async () => {
    const shared = { ...stored, paz_mcp: '{"mcp_method":"tools/list"}' };
    const { asked } = await run(pass, { phase: "response", withMcp: true, shared });
    expect(asked[0]?.stored).toEqual(shared);
  });

  it("[PX-03] sets its mark last when the response passes as it is", async () => {
    const { calls, end } = await run(pass, { phase: "response", shared: stored });
    expect(sets(calls)).toEqual([["kong.ctx.shared.set", "paz_response", "done"]]);
    expect(end).toEqual({ end: "continue" });
  });

  it("[PA-093] [PX-03] clears headers and sets its mark right before the answer", async () => {
    const outcome: ResponseOutcome = {
      action: "answer",
      answer,
      clearHeaders: ["x-internal", "server"],
      isOriginalBody: false,
    };
    const { calls, end } = await run(outcome, { phase: "response", shared: stored });
    expect(sets(calls)).toEqual([
      ["kong.response.clear_header", "x-internal"],
      ["kong.response.clear_header", "server"],
      ["kong.ctx.shared.set", "paz_response", "done"],
    ]);
    expect(end).toEqual({ end: "exit", exit: answer });
  });

  it("[PA-217] answers 500 without a decision where access stored nothing", async () => {
    const { asked, end, calls } = await run(pass, { phase: "response" });
    expect([asked, end]).toMatchObject([[], { end: "exit", exit: { status: 500, headers: {} } }]);
    expect(sets(calls).map(([name]) => name)).toContain("kong.log.err");
  });

  it("[PA-217] [PX-03] clears every header of the upstream before its own 500 and 502", async () => {
    const kit = { "kong.response.get_headers": { "set-cookie": ["a", "b"], etag: ["e"] } };
    const cleared = [
      ["kong.response.clear_header", "set-cookie"],
      ["kong.response.clear_header", "etag"],
      ["kong.ctx.shared.set", "paz_response", "done"],
    ];
    const nothingStored = await run(pass, { phase: "response", kit });
    const failed = await run(pass, { phase: "response", kit, isFailed: true });
    const tooLong = await run(pass, {
      phase: "response",
      kit: { ...kit, "kong.service.response.get_raw_body": new Uint8Array(101) },
      shared: stored,
    });
    for (const { calls } of [nothingStored, failed, tooLong]) {
      const [log, ...rest] = sets(calls);
      expect(JSON.parse(String(log?.[1]))).toMatchObject({ plugin: "p", phase: "response", service_url: "u" });
      expect(rest).toEqual(cleared);
    }
    expect(tooLong.end).toMatchObject({ end: "exit", exit: { status: 502 } });
  });

  it("[PX-03] goes on clearing while Kong shows no more than a thousand headers at once", async () => {
    const many = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`x-${index}`, ["1"]]));
    let asked = 0;
    const kit = {
      get "kong.response.get_headers"() {
        asked += 1;
        return asked < 3 ? many : { last: ["1"] };
      },
    };
    const { calls } = await run(pass, { phase: "response", kit, isFailed: true });
    expect(calls.filter(([name]) => name === "kong.response.clear_header").at(-1)).toContain("last");
  });

  it("[PA-085] reads nothing at all when it is switched off", async () => {
    const { asked, calls } = await run(pass, { phase: "response", hasResponsePhase: false });
    expect([asked, calls]).toEqual([[], []]);
  });
});

describe("the log of phases", () => {
  it("keeps apart what phases log that run at the same time, and loses nothing of one that fails", async () => {
    const lines: SidebandLogEntry[] = [];
    const log = createKongPhaseLog((line) => lines.push(line));
    const gate = Promise.withResolvers<void>();
    const reported: string[] = [];
    const kong = createPdk((_name, [text]) => {
      reported.push(String(text));
      return Promise.resolve(undefined);
    });
    const work = (msg: string) =>
      log.capture(async () => {
        await gate.promise;
        log.write({ ...entry, level: "warn", msg });
        if (msg === "bad") throw new Error("bad");
      });
    const both = Promise.allSettled([work("one"), work("two"), work("bad")]);
    gate.resolve();
    const [first] = await both;
    if (first.status === "fulfilled") await first.value.record.report(kong);
    expect(reported.map((text) => (JSON.parse(text) as SidebandLogEntry).msg)).toEqual(["one"]);
    expect(lines.map(({ msg }) => msg)).toEqual(["bad"]);
  });
});
