import type { OpenBreaker } from "../pdp/breaker.ts";
import type { PdpCaller } from "../pdp/call.ts";
import type { PdpReply, ServiceUrl } from "../pdp/client.ts";
import type { EngineCall, EnginePhase, SidebandEngineDeps } from "./contract.ts";
import type { Instruments } from "./telemetry.ts";
import type { SidebandSettings } from "./settings.ts";

/** How a query ended. */
export type QueryOutcome<Answer> =
  /** A 2xx reply, parsed. */
  | { readonly kind: "answer"; readonly answer: Answer }
  /** Any other status; `tripped` if it opened the breaker. */
  | { readonly kind: "reply"; readonly reply: PdpReply; readonly tripped: OpenBreaker | undefined }
  /** No reply. */
  | { readonly kind: "failed"; readonly error: string }
  /** Not sent: the breaker is open. */
  | { readonly kind: "open"; readonly open: OpenBreaker };

/** One query to PingAuthorize. */
export interface SidebandQuery<Answer> {
  readonly phase: EnginePhase;
  readonly body: Buffer;
  /** The MCP method of the message; undefined for other traffic (PA-212). */
  readonly mcpMethod: string | undefined;
  readonly call: EngineCall;
  /** Parses the body of a 2xx reply, and classifies it for metrics and spans. */
  readonly parse: (body: Buffer) => { readonly answer: Answer; readonly decision: "allow" | "deny" | "error" };
}

/** Sends a query; rejects only if the query's signal was aborted. */
export type QuerySideband = <Answer>(query: SidebandQuery<Answer>) => Promise<QueryOutcome<Answer>>;

export interface QuerySidebandDeps {
  readonly settings: SidebandSettings;
  readonly service: ServiceUrl;
  readonly pdp: PdpCaller;
  readonly instruments: Instruments;
  readonly deps: Pick<SidebandEngineDeps, "clock" | "secret">;
  readonly userAgent: string;
}

/** Creates the function that queries PingAuthorize and reports metrics and a span per query. */
export function createSidebandQuery(options: QuerySidebandDeps): QuerySideband {
  const { settings, service, pdp, instruments, deps } = options;
  const { clock } = deps;

  async function headersFor(body: Buffer): Promise<Readonly<Record<string, string>>> {
    return {
      Host: `${service.host}:${service.port}`,
      Connection: "Keep-Alive",
      "Content-Type": "application/json",
      "User-Agent": options.userAgent,
      "Content-Length": String(body.length),
      [settings.secret_header_name]: (await deps.secret?.()) ?? settings.shared_secret,
    };
  }

  /** MCP methods that are not listed get one attempt, in both phases (PA-184). */
  function retriesFor(mcpMethod: string | undefined): number {
    const mayRetry = mcpMethod === undefined || settings.mcp_retry_methods.some((method) => method === mcpMethod);
    return mayRetry ? settings.max_retries : 0;
  }

  return async ({ phase, body, mcpMethod, call, parse }) => {
    const endpoint = phase === "access" ? "request" : "response";
    const open = pdp.checkBreaker();
    instruments.breakerState(open !== undefined);
    if (open !== undefined) return { kind: "open", open };
    const span = instruments.startSpan(phase);
    const startedAt = clock.now();
    const { reply, error, tripped } = await pdp.call({
      // Exactly one slash at the join (PA-054).
      path: `${service.basePath}/sideband/${endpoint}`,
      headers: await headersFor(body),
      body,
      timeoutMs: settings.connection_timeout_ms,
      signal: call.signal,
      retries: retriesFor(mcpMethod),
      budgetMs: call.budgetMs,
    });
    if (tripped !== undefined) instruments.breakerState(true);
    const isSuccess = reply !== undefined && reply.status >= 200 && reply.status < 300;
    const parsed = isSuccess ? parse(reply.body) : undefined;
    const result = parsed?.decision ?? "error";
    instruments.called(phase, result, clock.now() - startedAt);
    if (result !== "error") instruments.decided(result);
    const problem = error ?? (isSuccess ? "the answer is not valid" : `status ${reply?.status}`);
    span?.end({
      attributes: {
        "http.method": "POST",
        "http.url": `${service.shown}/sideband/${endpoint}`,
        ...(reply === undefined ? {} : { "http.status_code": reply.status }),
        ...(result === "error" ? {} : { "policy.decision": result }),
        "circuit_breaker.state": tripped === undefined ? "closed" : "open",
      },
      ...(result === "error" ? { error: problem } : {}),
    });
    if (parsed !== undefined) return { kind: "answer", answer: parsed.answer };
    return reply === undefined ? { kind: "failed", error: problem } : { kind: "reply", reply, tripped };
  };
}
