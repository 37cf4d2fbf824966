import * as z from "zod";

import type { Clock, Principal } from "../../src/core/exchange.ts";
import { InspectedMessage } from "../../src/core/interceptors/inspected-message.ts";
import { createCelProvider } from "../../src/policy/cel/provider.ts";
import { rulesFields } from "../../src/policy/cel/config.ts";
import type { ListKind, PolicyCall, PolicyProvider, Decision } from "../../src/policy/provider/provider.ts";
import type { Message, RequestMessage } from "../../src/protocol/message.ts";
import { exchangeWith } from "./exchange.ts";
import { createFakeTime, type FakeTime } from "./fake-time.ts";
import { requestOf } from "./messages.ts";
import { principalNamed } from "./principals.ts";

const schema = z.strictObject(rulesFields);

/** Rules as they are written in a configuration. */
export type RulesInput = z.input<typeof schema>;

/** The embedded provider with some rules, and short ways to ask it. */
export interface CelPolicy {
  readonly provider: PolicyProvider;
  readonly time: FakeTime;
  /** What goes with a question that nobody cancels. */
  readonly call: PolicyCall;
  readonly ask: (message: Message, principal?: Partial<Principal>) => Decision;
  readonly answer: (request: RequestMessage, answer: Message) => Decision;
  /** The names of a list that are left of it. */
  readonly filter: (
    kind: ListKind,
    entries: readonly (string | Readonly<Record<string, unknown>>)[],
    principal?: Partial<Principal>,
  ) => readonly string[];
}

/** Makes the embedded provider; what it says is known at once. */
export function celPolicy(rules: RulesInput, clock?: Clock): CelPolicy {
  const time = createFakeTime();
  const provider = createCelProvider(schema.parse(rules), { clock: clock ?? time.clock });
  const call: PolicyCall = { signal: new AbortController().signal, memory: undefined };
  const who = (facts: Partial<Principal> = {}): Principal => principalNamed("ann", facts);
  return {
    provider,
    time,
    call,
    ask: (message, principal) =>
      known(provider.evaluateRequest(InspectedMessage.of(exchangeWith(message, { principal: who(principal) })), call)),
    answer: (request, answer) => {
      const exchange = exchangeWith(request, { principal: who() });
      return known(provider.evaluateResponse(InspectedMessage.answering(exchange, request, answer), call));
    },
    filter: (kind, given, principal) => {
      const key = kind === "resource" ? "uri" : kind === "resource-template" ? "uriTemplate" : "name";
      const entries = given.map((entry) => {
        const value = typeof entry === "string" ? { [key]: entry } : entry;
        return { name: String(value[key]), value };
      });
      const subject = InspectedMessage.of(
        exchangeWith(requestOf(kind === "resource-template" ? "resources/templates/list" : `${kind}s/list`), {
          principal: who(principal),
        }),
      );
      const decision = provider.filterList?.({ subject, kind, entries }, call);
      if (decision === undefined) return entries.map(({ name }) => name);
      const { visible } = known(decision);
      return entries.filter((_, index) => visible[index]).map(({ name }) => name);
    },
  };
}

function known<T>(decision: T | Promise<T>): T {
  if (decision instanceof Promise) throw new Error("the decision is not there yet");
  return decision;
}
