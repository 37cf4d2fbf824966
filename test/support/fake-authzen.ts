import { anonymous, type Exchange, type Principal } from "../../src/core/exchange.ts";
import { InspectedMessage } from "../../src/core/interceptors/inspected-message.ts";
import { type AuthZenConfig, authZenConfig as schema } from "../../src/policy/authzen/config.ts";
import { type AuthZenDeps, createAuthZenProvider } from "../../src/policy/authzen/provider.ts";
import type { ListEntry, ListKind, PolicyCall, PolicyProvider } from "../../src/policy/provider/provider.ts";
import type { PdpReply, PdpRequest } from "../../src/policy/pdp/client.ts";
import { exchangeWith } from "./exchange.ts";
import { createFakeTime, type FakeTime } from "./fake-time.ts";
import { requestOf } from "./messages.ts";

/** A checked configuration; what a test cares about is given. */
export function authZenConfig(input: Readonly<Record<string, unknown>> = {}): AuthZenConfig {
  return schema.parse({ url: "https://pdp.example.com", discovery: false, ...input });
}

/** What is wrong with a configuration, as paths and words. */
export function authZenProblems(input: Readonly<Record<string, unknown>>): readonly string[] {
  const { error } = schema.safeParse({ url: "https://pdp.example.com", ...input });
  return (error?.issues ?? []).map(({ path, message }) => `${path.join(".")}: ${message}`);
}

/** What the decision point in memory says. */
export interface AuthZenAnswer {
  readonly status?: number;
  readonly headers?: PdpReply["headers"];
  readonly json?: unknown;
  readonly text?: string;
}

/** What it does with a call: an answer, or an error in place of one. */
export type AuthZenReply = AuthZenAnswer | Error;

/** One call that a provider made. */
export interface AuthZenCall extends PdpRequest {
  readonly json: Readonly<Record<string, unknown>>;
}

/** A provider whose decision point is a function, without sockets and with fake time. */
export interface FakedAuthZen {
  readonly provider: PolicyProvider;
  readonly calls: readonly AuthZenCall[];
  readonly time: FakeTime;
  readonly looks: readonly boolean[];
  readonly breaker: readonly boolean[];
  readonly retries: () => number;
}

/** Makes a provider that asks a function; it permits everything unless given. */
export function createFakedAuthZen(
  input: Readonly<Record<string, unknown>> = {},
  decide: (call: AuthZenCall, index: number) => AuthZenReply | Promise<AuthZenReply> = permitted,
  surroundings: Partial<AuthZenDeps> = {},
): FakedAuthZen {
  const time = createFakeTime();
  const calls: AuthZenCall[] = [];
  const looks: boolean[] = [];
  const breaker: boolean[] = [];
  let retries = 0;
  const provider = createAuthZenProvider(authZenConfig(input), {
    clock: time.clock,
    setTimer: time.setTimer,
    onRetry: () => void retries++,
    onBreaker: (isOpen) => void breaker.push(isOpen),
    onCacheLookup: (isHit) => void looks.push(isHit),
    client: {
      async post(request) {
        const text = request.body.toString("utf8");
        const call: AuthZenCall = {
          ...request,
          json: (text === "" ? {} : JSON.parse(text)) as AuthZenCall["json"],
        };
        calls.push(call);
        const reply = await decide(call, calls.length - 1);
        if (reply instanceof Error) throw reply;
        const { status = 200, headers = {}, json = {} } = reply;
        return { status, headers, body: Buffer.from(reply.text ?? JSON.stringify(json)) };
      },
      close: () => {},
    },
    ...surroundings,
  });
  return { provider, calls, time, looks, breaker, retries: () => retries };
}

/** Permits everything that is asked, one by one or in a batch. */
export function permitted(call: AuthZenCall): AuthZenAnswer {
  return decided(call, () => true);
}

/** Decides by the resource. */
export function decided({ json }: AuthZenCall, isPermitted: (id: string, type: string) => boolean): AuthZenAnswer {
  const one = (parts: unknown): { readonly decision: boolean } => {
    const { resource = json["resource"] } = Object(parts) as Readonly<Record<string, unknown>>;
    const { id, type } = Object(resource) as Readonly<Record<string, unknown>>;
    return { decision: isPermitted(String(id), String(type)) };
  };
  const { evaluations } = json;
  return { json: Array.isArray(evaluations) ? { evaluations: evaluations.map(one) } : one(json) };
}

/** A caller with a token. */
export const alice: Principal = {
  ...anonymous,
  id: "https://issuer.example#alice",
  kind: "token",
  scopes: new Set(["read"]),
  claims: {
    iss: "https://issuer.example",
    sub: "alice",
    aud: "https://mcp.example.com",
    client_id: "agent-7",
    roles: ["treasury"],
  },
};

/** A request of hers, unless another caller is given. */
export function askedBy(
  method: string,
  params: Readonly<Record<string, unknown>>,
  facts: Partial<Exchange> = {},
): InspectedMessage {
  return InspectedMessage.of(exchangeWith(requestOf(method, params), { principal: alice, ...facts }));
}

/** A question that nobody cancels. */
export const calm: PolicyCall = { memory: undefined, signal: new AbortController().signal };

/** Asks which names of a list are seen. */
export async function seenOf(
  provider: PolicyProvider,
  kind: ListKind,
  entries: readonly (string | (ListEntry["value"] & { readonly name: string }))[],
  subject: InspectedMessage = askedBy("tools/list", {}),
): Promise<readonly string[] | undefined> {
  const all = entries.map((entry) =>
    typeof entry === "string" ? { name: entry, value: { name: entry } } : { name: entry.name, value: entry },
  );
  const decision = await provider.filterList?.({ subject, kind, entries: all }, calm);
  if (decision === undefined || decision.refusal !== undefined) return undefined;
  return all.flatMap(({ name }, index) => (decision.visible[index] === true ? [name] : []));
}
