import { createExchange, timingOf } from "../../core/exchange.ts";
import type { Clock, Exchange, Principal, SetTimer } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import { memberInteger, memberType, memberValue } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import { parseText } from "../../protocol/parse.ts";
import { newestModern } from "../../protocol/revisions.ts";
import type { UpstreamLink } from "../../transports/transport.ts";

/** Whether an upstream serves 2026-07-28 or only older revisions. */
export type DetectedEra = "modern" | "legacy";

/** The outcome of a probe. Silent upstreams are tried with the older handshake, whose answer is the proof. */
export type ProbeVerdict = DetectedEra | "silent";

export interface EraDetectorDeps {
  /** The configured era, or `auto` to detect it. */
  readonly era: "auto" | "legacy" | "modern";
  /** Asks the upstream, on behalf of the caller whose message needs the answer. */
  readonly probe: (principal: Principal) => Promise<ProbeVerdict>;
  readonly clock: Clock;
  /** Called with each detection, and when an upstream gave no answer. */
  readonly onVerdict?: (verdict: ProbeVerdict) => void;
}

/** A server may be upgraded and still answer the old handshake, so "legacy" is checked again after this long. */
const legacyRecheckMs = 10 * 60_000;

let detections = 0;

/** Counts the detections in this process: while it does not change, no upstream has become legacy. */
export function eraDetections(): number {
  return detections;
}

/** What is known about the eras of an upstream, shared by all its links. */
export class EraDetector {
  readonly #deps: EraDetectorDeps;
  #servesModern: boolean | undefined;
  #detectedAt: number;
  #detecting: Promise<ProbeVerdict> | undefined;
  #isAssumed = false;
  /** Whether the upstream takes the legacy handshake; undefined until one was tried. */
  servesLegacy: boolean | undefined;

  constructor(deps: EraDetectorDeps) {
    const { era, clock } = deps;
    this.#deps = deps;
    this.#detectedAt = clock.now();
    this.#servesModern = era === "auto" ? undefined : era === "modern";
    this.servesLegacy = era === "auto" ? undefined : era === "legacy";
  }

  /** Whether the upstream speaks 2026-07-28; undefined while that is unknown. */
  get servesModern(): boolean | undefined {
    const { era, clock } = this.#deps;
    const isStale = era === "auto" && this.#servesModern === false && clock.now() - this.#detectedAt > legacyRecheckMs;
    return isStale ? undefined : this.#servesModern;
  }

  /** Asks the upstream. Callers that ask at the same time share one probe. */
  async detect(principal: Principal): Promise<DetectedEra> {
    this.#detecting ??= this.#deps.probe(principal).finally(() => {
      this.#detecting = undefined;
    });
    const verdict = await this.#detecting;
    this.#set(verdict);
    return verdict === "modern" ? "modern" : "legacy";
  }

  /** Whether nothing has answered yet, and the upstream is only assumed to be legacy. */
  get isAssumed(): boolean {
    return this.#isAssumed;
  }

  /** The upstream answered the older handshake. */
  confirmLegacy(): void {
    if (this.#isAssumed) this.#set("legacy");
  }

  /** The older handshake failed as well: the next message asks again. */
  forgetAssumption(): void {
    if (this.#isAssumed) this.#servesModern = undefined;
    this.#isAssumed = false;
  }

  #set(verdict: ProbeVerdict): void {
    detections++;
    this.#servesModern = verdict === "modern";
    this.#isAssumed = verdict === "silent";
    this.#detectedAt = this.#deps.clock.now();
    this.#deps.onVerdict?.(verdict);
  }
}

export interface EraProbeDeps {
  readonly route: string;
  /** The caller on whose behalf the upstream is asked. */
  readonly principal: Principal;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  /** A link for this probe alone, so that a server which crashes on it affects no other session. */
  readonly open: () => UpstreamLink;
  /** Whether silence means an old server, as on stdio. Over HTTP it means nothing. */
  readonly silenceIsLegacy: boolean;
  readonly timeoutMs: number;
}

/** Statuses with which a legacy HTTP server answers a request it does not understand. */
const legacyStatuses: ReadonlySet<unknown> = new Set([400, 404, 405, 406, 415]);

/**
 * Asks an upstream for its era with `server/discover` (MCP 2026-07-28, Versioning). Refused credentials, server faults
 * and lost connections prove nothing: they are thrown, and the next message asks again.
 */
export async function probeEra(deps: EraProbeDeps): Promise<ProbeVerdict> {
  const link = deps.open();
  const exchange = discoverExchange(deps);
  const stop = deps.setTimer(deps.timeoutMs, () => {
    exchange.cancellation.cancel("timeout");
  });
  let verdict: ProbeVerdict | undefined;
  try {
    const { message } = await link.request(exchange);
    verdict = message !== undefined && isModernAnswer(message) ? "modern" : "legacy";
  } catch (error) {
    const failure = GatewayError.from(error);
    const isSilence = failure.code === "upstream_timeout" || failure.code === "upstream_unreachable";
    if (legacyStatuses.has(failure.details?.["upstreamStatus"])) verdict = "legacy";
    else if (deps.silenceIsLegacy && isSilence) verdict = "silent";
    else throw failure;
  } finally {
    stop();
    // The process started for the probe serves the caller next, if it still runs.
    if (verdict === undefined || link.release === undefined) await link.close("detected upstream era");
    else await link.release(verdict !== "modern");
  }
  return verdict;
}

/** Only a discovery result, or the error that lists modern versions, proves a modern server. */
function isModernAnswer(message: Message): boolean {
  if (message.kind === "result") return memberType(message, "result.supportedVersions") === "array";
  if (memberInteger(message, "error.code") !== -32022) return false;
  const supported: unknown = Reflect.get(Object(memberValue(message, "error.data")), "supported");
  return Array.isArray(supported) && supported.includes(newestModern);
}

function discoverExchange({ route, principal, clock, newId }: EraProbeDeps): Exchange {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": newestModern,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "headgate", version: "0.1.0" },
  };
  const request = { jsonrpc: "2.0", id: newId(), method: "server/discover", params: { _meta: meta } };
  const outcome = parseText(JSON.stringify(request), { revision: newestModern, mode: "enforce" });
  if (!outcome.ok || outcome.form !== "single") throw new GatewayError("internal", "built an invalid probe");
  return createExchange({
    id: newId(),
    message: outcome.message,
    route,
    principal,
    revision: newestModern,
    transport: { type: "in-process" },
    timing: timingOf(clock),
  });
}
