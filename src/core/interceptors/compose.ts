import { GatewayError } from "../../errors.ts";
import { type Exchange, withMessage } from "../exchange.ts";
import { type Handler, identityInterceptor, type Interceptor, noReply, type Reply } from "../pipeline.ts";
import {
  createAuditingStep,
  createEnforcingStep,
  type InterceptorDeps,
  type InterceptorStep,
  isThenable,
} from "./steps.ts";
import type { MessageInterceptor } from "./interceptor.ts";
import { createGlobTest } from "../../lib/glob.ts";
import { type MessageOutcome, passing } from "./plan.ts";
import { InspectedMessage } from "./inspected-message.ts";

/**
 * Makes one interceptor of the pipeline out of many. Every message, request, notification or response, in either
 * direction, passes them on its own and one after the other: by priority, lowest first, then by name (SC-063). The
 * first that refuses or answers ends that, and answers made here do not pass them again. Names that come twice are
 * refused. Without any interceptors a handler stays the very one it was (SC-066).
 */
export function composeInterceptors(
  interceptors: readonly MessageInterceptor[],
  runtime: InterceptorDeps,
): Interceptor {
  if (interceptors.length === 0) return identityInterceptor;
  const links = toOrdered(interceptors).map((interceptor) => createLink(interceptor, runtime));
  const seesResponses = interceptors.some(({ phase }) => phase !== "request");
  return (next) => async (exchange) => {
    const asked = InspectedMessage.of(exchange);
    const passed = passAll(links, asked);
    const verdict = isThenable(passed) ? await passed : passed;
    if (verdict.type === "settle") return settle(verdict, exchange, next);
    const forwarded = verdict.message === exchange.message ? exchange : withMessage(exchange, verdict.message);
    const reply = await next(forwarded);
    return seesResponses ? answer(links, forwarded, reply) : reply;
  };
}

/** An interceptor's step, and which messages take it. */
interface Link {
  readonly sees: (subject: InspectedMessage) => boolean;
  readonly step: InterceptorStep;
}

function createLink(interceptor: MessageInterceptor, runtime: InterceptorDeps): Link {
  const { mode, phase, directions, methods } = interceptor;
  const seesMethod = createGlobTest(methods);
  return {
    sees: (subject) =>
      (phase === "both" || phase === subject.phase) &&
      directions.includes(subject.direction) &&
      (subject.method === undefined || seesMethod(subject.method)),
    step: mode === "audit" ? createAuditingStep(interceptor, runtime) : createEnforcingStep(interceptor, runtime),
  };
}

/** Takes a message through the links from one on; without a wait where none of them needs one. */
function passAll(
  links: readonly Link[],
  subject: InspectedMessage,
  from = 0,
): MessageOutcome | Promise<MessageOutcome> {
  let current = subject;
  for (const [index, { sees, step }] of links.entries()) {
    if (index < from || !sees(current)) continue;
    const verdict = step(current);
    if (isThenable(verdict)) return goOn(links, current, verdict, index + 1);
    if (verdict.type === "settle") return verdict;
    if (verdict.message !== current.message) current = current.with(verdict.message);
  }
  return passing(current);
}

async function goOn(
  links: readonly Link[],
  subject: InspectedMessage,
  awaited: Promise<MessageOutcome>,
  from: number,
): Promise<MessageOutcome> {
  const verdict = await awaited;
  if (verdict.type === "settle") return verdict;
  const { message } = verdict;
  return passAll(links, message === subject.message ? subject : subject.with(message), from);
}

/** What was asked ends here: a request is answered. An answer of the peer's still has to reach who waits for it. */
async function settle(
  { message, status }: MessageOutcome & { readonly type: "settle" },
  exchange: Exchange,
  next: Handler,
): Promise<Reply> {
  if (message === undefined) return noReply;
  if (exchange.message.kind !== "request") return next(withMessage(exchange, message));
  return status === undefined ? { message } : { message, status };
}

/** Takes the response of a request through the interceptors. */
async function answer(links: readonly Link[], exchange: Exchange, reply: Reply): Promise<Reply> {
  const { message: request } = exchange;
  if (reply.message === undefined || request.kind !== "request") return reply;
  const passed = passAll(links, InspectedMessage.answering(exchange, request, reply.message));
  const { type, ...rest } = isThenable(passed) ? await passed : passed;
  if (type === "settle") return rest;
  return rest.message === reply.message ? reply : { ...reply, message: rest.message };
}

function toOrdered(interceptors: readonly MessageInterceptor[]): readonly MessageInterceptor[] {
  const names = new Set<string>();
  for (const { name } of interceptors) {
    if (names.has(name)) throw new GatewayError("config_invalid", `two interceptors are named ${name}`);
    names.add(name);
  }
  // Compared by code units: an order by language would differ between machines.
  return interceptors.toSorted((a, b) => a.priority - b.priority || (a.name < b.name ? -1 : 1));
}
