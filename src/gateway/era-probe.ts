import { GatewayError } from "../errors.ts";
import { Cancellation } from "../exchange.ts";
import type { Clock, Exchange, Principal, SetTimer } from "../exchange.ts";
import { memberInteger, memberType, memberValue } from "../protocol/json/read.ts";
import type { Message } from "../protocol/message.ts";
import { parseText } from "../protocol/parse.ts";
import { newestModern } from "../protocol/revisions.ts";
import type { UpstreamLink } from "../transports/transport.ts";

/** What asking an upstream for `server/discover` told: it serves 2026-07-28, it does not, or nothing at all. */
export type DetectedEra = "modern" | "legacy";

export interface EraProbeDeps {
  readonly route: string;
  /** On whose behalf is asked: the caller because of whom it must be known. */
  readonly principal: Principal;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  /** A link that is used for this question only, so that a server which dies of it takes nothing along. */
  readonly open: () => UpstreamLink;
  /** Whether silence means an old server, as on stdio, or just silence, as over HTTP. */
  readonly silenceIsLegacy: boolean;
  readonly timeoutMs: number;
}

/** Statuses with which an HTTP server of the older era answers a request it does not understand. */
const legacyStatuses: ReadonlySet<unknown> = new Set([400, 404, 405, 406, 415]);

/**
 * Asks an upstream which era it speaks (MCP 2026-07-28, Versioning). Refused credentials, server faults and lost
 * connections are no evidence: they are thrown, and the question can be asked again.
 */
export async function probeEra(deps: EraProbeDeps): Promise<DetectedEra> {
  const link = deps.open();
  const exchange = discoverExchange(deps);
  const stop = deps.setTimer(deps.timeoutMs, () => {
    exchange.cancellation.cancel("timeout");
  });
  try {
    const { message, status } = await link.request(exchange);
    return message !== undefined && isModernAnswer(message, status) ? "modern" : "legacy";
  } catch (error) {
    const failure = GatewayError.from(error);
    if (legacyStatuses.has(failure.details?.["upstreamStatus"])) return "legacy";
    const isSilence = failure.code === "upstream_timeout" || failure.code === "upstream_unreachable";
    if (deps.silenceIsLegacy && isSilence) return "legacy";
    throw failure;
  } finally {
    stop();
    await link.close("the era of the upstream is known");
  }
}

/** Only a real discovery, or the error that lists modern versions, shows a modern server. */
function isModernAnswer(message: Message, _status: number | undefined): boolean {
  if (message.kind === "result") return memberType(message, "result.supportedVersions") === "array";
  if (memberInteger(message, "error.code") !== -32022) return false;
  const data: unknown = memberValue(message, "error.data");
  const supported: unknown =
    typeof data === "object" && data !== null ? Reflect.get(data, "supported") : undefined;
  return Array.isArray(supported) && supported.includes(newestModern);
}

function discoverExchange({ route, principal, clock, newId }: EraProbeDeps): Exchange {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": newestModern,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "headgate", version: "0.1.0" },
  };
  const text = JSON.stringify({
    jsonrpc: "2.0",
    id: newId(),
    method: "server/discover",
    params: { _meta: meta },
  });
  const outcome = parseText(text, { revision: newestModern, mode: "enforce" });
  if (!outcome.ok || outcome.form !== "single") throw new GatewayError("internal", "the probe is no message");
  return {
    id: newId(),
    direction: "client-to-server",
    message: outcome.message,
    original: outcome.message,
    route,
    principal,
    revision: newestModern,
    era: "modern",
    session: undefined,
    transport: { type: "in-process" },
    timing: { startedAt: clock.now(), wallTime: clock.wall() },
    parent: undefined,
    cancellation: new Cancellation(),
    tracking: { entry: undefined },
    reply: undefined,
  };
}
