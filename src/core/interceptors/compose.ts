import { GatewayError } from "../../errors.ts";
import { isPromise, type MaybePromise } from "../../lib/is-promise.ts";
import { type Exchange, withMessage } from "../exchange.ts";
import { type Handler, identityInterceptor, type Interceptor, noReply, type Reply } from "../pipeline.ts";
import { createAuditingStep, createEnforcingStep, type InterceptorDeps, type InterceptorStep } from "./steps.ts";
import type { MessageInterceptor } from "./interceptor.ts";
import { createGlobTest } from "../../lib/text/glob.ts";
import { type PlanOutcome, passing } from "./plan.ts";
import { InspectedMessage } from "./inspected-message.ts";

/**
 * Combines interceptors into one step of the pipeline. Each request, notification and response, in either direction, passes
 * them one after the other: by priority, lowest first, then by name (SC-063). The first that refuses or answers ends that;
 * answers made here do not pass them again. Names must be unique. Without interceptors the handler stays the same (SC-066).
 */
export function composeInterceptors(interceptors: readonly MessageInterceptor[], deps: InterceptorDeps): Interceptor {
  if (interceptors.length === 0) return identityInterceptor;
  const stages = toOrdered(interceptors).map((interceptor) => createStage(interceptor, deps));
  const seesResponses = interceptors.some(({ phase }) => phase !== "request");
  return (next) => async (exchange) => {
    const asked = InspectedMessage.of(exchange);
    const passed = passAll(stages, asked);
    const outcome = isPromise(passed) ? await passed : passed;
    if (outcome.type === "settle") return settle(outcome, exchange, next);
    const forwarded = outcome.message === exchange.message ? exchange : withMessage(exchange, outcome.message);
    const reply = await next(forwarded);
    return seesResponses ? answer(stages, forwarded, reply) : reply;
  };
}

/** The step of an interceptor, and which messages take it. */
interface Stage {
  readonly sees: (inspected: InspectedMessage) => boolean;
  readonly step: InterceptorStep;
}

function createStage(interceptor: MessageInterceptor, deps: InterceptorDeps): Stage {
  const { mode, phase, directions, methods, when } = interceptor;
  const seesMethod = createGlobTest(methods);
  const createStep = mode === "audit" ? createAuditingStep : createEnforcingStep;
  const step = createStep(interceptor, deps);

  /** A condition that throws is a failure of its interceptor. */
  function conditionalStep(inspected: InspectedMessage): ReturnType<InterceptorStep> {
    try {
      if (when?.(inspected) === false) return passing(inspected);
    } catch (thrown) {
      const onMessage = (): never => {
        throw thrown;
      };
      return createStep({ ...interceptor, onMessage }, deps)(inspected);
    }
    return step(inspected);
  }

  return {
    sees: (inspected) =>
      (phase === "both" || phase === inspected.phase) &&
      directions.includes(inspected.direction) &&
      (inspected.method === undefined || seesMethod(inspected.method)),
    step: when === undefined ? step : conditionalStep,
  };
}

/** Takes a message through the stages from `index` on; synchronous if they are. */
function passAll(stages: readonly Stage[], inspected: InspectedMessage, from = 0): MaybePromise<PlanOutcome> {
  let current = inspected;
  for (const [index, { sees, step }] of stages.entries()) {
    if (index < from || !sees(current)) continue;
    const outcome = step(current);
    if (isPromise(outcome)) return continueWhenDone(stages, current, outcome, index + 1);
    if (outcome.type === "settle") return outcome;
    if (outcome.message !== current.message) current = current.with(outcome.message);
  }
  return passing(current);
}

async function continueWhenDone(
  stages: readonly Stage[],
  inspected: InspectedMessage,
  awaited: Promise<PlanOutcome>,
  from: number,
): Promise<PlanOutcome> {
  const outcome = await awaited;
  if (outcome.type === "settle") return outcome;
  const { message } = outcome;
  return passAll(stages, message === inspected.message ? inspected : inspected.with(message), from);
}

/** A settled request is answered. A replaced response still has to reach the side that waits for it. */
async function settle(
  { message, status, dropped }: PlanOutcome & { readonly type: "settle" },
  exchange: Exchange,
  next: Handler,
): Promise<Reply> {
  if (message === undefined) return dropped === undefined ? noReply : { ...noReply, dropped };
  if (exchange.message.kind !== "request") return next(withMessage(exchange, message));
  return status === undefined ? { message } : { message, status };
}

/** Takes the response to a request through the interceptors. */
async function answer(stages: readonly Stage[], exchange: Exchange, reply: Reply): Promise<Reply> {
  const { message: request } = exchange;
  if (reply.message === undefined || request.kind !== "request") return reply;
  const passed = passAll(stages, InspectedMessage.answering(exchange, request, reply.message));
  const { type, ...rest } = isPromise(passed) ? await passed : passed;
  if (type === "settle") return rest;
  return rest.message === reply.message ? reply : { ...reply, message: rest.message };
}

function toOrdered(interceptors: readonly MessageInterceptor[]): readonly MessageInterceptor[] {
  const names = new Set<string>();
  for (const { name } of interceptors) {
    if (names.has(name)) throw new GatewayError("config_invalid", `two interceptors are named ${name}`);
    names.add(name);
  }
  // Compared by code units, because locale order differs between machines.
  return interceptors.toSorted((a, b) => a.priority - b.priority || (a.name < b.name ? -1 : 1));
}
