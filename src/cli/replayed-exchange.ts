import { anonymous, Cancellation, type Exchange, type Principal } from "../exchange.ts";
import type { Message } from "../protocol/message.ts";
import { newestLegacy, parseRevision, revisions } from "../protocol/revisions.ts";
import type { Frame, FrameContext, FrameLeg } from "../recorder/contract.ts";
import { recordedMessage } from "../recorder/replay/served-message.ts";

/** An exchange of a recording as it is put together while its frames are read. */
export interface ReplayedExchange {
  readonly exchange: Exchange;
  readonly context: FrameContext;
  /** Whether all is known of the caller that a policy could ask for. */
  readonly isCallerKnown: boolean;
  readonly frames: Frame[];
}

/** Callers by their ids, where more is known of them than a recording keeps. */
export type KnownCallers = ReadonlyMap<string, Principal>;

/** The exchange that a recorded message begins, as it was when it came; undefined where its body is not there. */
export function toReplayedExchange(
  frame: Frame,
  { callers, parent }: { readonly callers: KnownCallers; readonly parent: Exchange | undefined },
): ReplayedExchange | undefined {
  const { context, body } = frame;
  const message = body === undefined ? undefined : recordedMessage(body);
  if (context === undefined || message === undefined) return undefined;
  const known = context.principal === anonymous.id ? anonymous : callers.get(context.principal);
  const reading = parseRevision(context.revision);
  const revision = reading.ok ? reading.revision : newestLegacy;
  const exchange: Exchange = {
    id: frame.exchange,
    direction: frame.direction === "c2s" ? "client-to-server" : "server-to-client",
    message,
    original: message,
    route: context.route,
    principal: known ?? { id: context.principal, kind: "token", scopes: new Set(), claims: {} },
    revision,
    era: revisions[revision].era,
    session: context.session === undefined ? undefined : { id: context.session, upstreamId: undefined },
    transport: transportOf(context),
    timing: { startedAt: frame.mono, wallTime: frame.at },
    parent,
    cancellation: new Cancellation(),
    tracking: { entry: undefined },
    reply: undefined,
  };
  return { exchange, context, isCallerKnown: known !== undefined, frames: [frame] };
}

function transportOf({ transport, http }: FrameContext): Exchange["transport"] {
  if (http !== undefined) {
    const { method, path, headers, peer } = http;
    return { type: "http", method, path, headers, ...(peer === undefined ? {} : { peer }) };
  }
  return transport === "stdio" ? { type: "stdio", incarnation: "replay" } : { type: "in-process" };
}

/** A message of an exchange by where it was seen; undefined where it was not, or its body is not there. */
export function messageAt(
  frames: readonly Frame[],
  leg: FrameLeg,
  passing: Frame["passing"],
  isAnswer: boolean,
): Message | undefined {
  const frame = frames.findLast(
    ({ kind, ...one }) =>
      one.leg === leg &&
      one.passing === passing &&
      isAnswer === (kind === "result" || kind === "error") &&
      kind !== "decision",
  );
  if (frame === undefined) return undefined;
  const body = frame.body ?? frames.find(({ seq }) => seq === frame.same)?.body;
  return body === undefined ? undefined : recordedMessage(body);
}
