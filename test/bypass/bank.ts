import { methodFacts, methodNames } from "../../src/protocol/methods.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import type { Vault } from "./upstreams.ts";

const objectSchema = { type: "object" } as const;
const names = ["status", "transfer", "search"];
const tools = names.map((name) => ({ name, inputSchema: objectSchema }));

/** How the bank is offered: by itself, or beside another server. */
export const places: Readonly<Record<string, Pick<Vault, "amongOthers" | "tools">>> = {
  alone: {},
  "among others": { amongOthers: "by its own names" },
  "renamed among others": { amongOthers: "renamed", tools: names },
};

/**
 * A server that reads as leniently as any: member names and methods without regard to letter case, one object or a list of
 * them, and requests with or without an id. It tells whenever that makes it do what the policy forbids.
 */
export async function openBank(): Promise<Vault & { readonly served: () => readonly string[] }> {
  const reached: string[] = [];
  const served: string[] = [];
  const upstream = await legacyUpstream((call, { id, method }) => {
    const wrong = wrongIn(call.json);
    if (wrong === undefined) served.push(call.text);
    else reached.push(`${wrong}: ${call.text}`);
    if (id === undefined) return call.replyRaw(202);
    const content = [{ type: "text", text: "shut" }];
    return call.reply({ jsonrpc: "2.0", id, result: method === "tools/list" ? { tools } : { content } });
  });
  return {
    upstream: { url: upstream.url },
    reached: async () => reached,
    served: () => served,
    [Symbol.asyncDispose]: upstream[Symbol.asyncDispose],
  };
}

/** Why a message had no business here, if it had none. */
export function wrongIn(message: unknown): string | undefined {
  const hasId = valuesOf([message], "id").length > 0;
  for (const method of valuesOf([message], "method").map(String)) {
    const name = methodNames.find((one) => isSame(one, method));
    const kind = name === undefined ? undefined : methodFacts(name)?.kind;
    if (kind === "request" && !hasId) return "a request without an id";
    if (hasId && (kind === "notification" || /^notifications\//iu.test(method))) return "a notification with an id";
    if (name === "tools/call") return wrongCall(valuesOf([message], "params"));
  }
  return undefined;
}

function wrongCall(params: readonly unknown[]): string | undefined {
  const values = valuesOf(params, "arguments");
  for (const tool of valuesOf(params, "name")) {
    if (!tools.some(({ name }) => name === tool)) return `the tool ${String(tool)}`;
    if (tool === "transfer" && !amountsIn(values).every((amount) => Number(amount) <= 100)) return "too much";
    if (tool === "search" && !isOwnSearch(values)) return "a search beyond one's own";
  }
  return undefined;
}

function amountsIn(values: readonly unknown[]): readonly unknown[] {
  return [values, valuesOf(values, "order"), valuesOf(values, "orders")].flatMap((each) => valuesOf(each, "amount"));
}

function isOwnSearch(values: readonly unknown[]): boolean {
  const owners = valuesOf(valuesOf(values, "filter"), "owner");
  const isUnset = ["debug"].every((name) => valuesOf(values, name).length === 0);
  const isUntraced = valuesOf(valuesOf(values, "options"), "trace").length === 0;
  const isNarrow = [...valuesOf(values, "scope"), ...valuesOf(values, "key")].every((value) => value !== "all");
  return owners.length > 0 && owners.every((owner) => owner === "me") && isUnset && isUntraced && isNarrow;
}

/** All members of this name, in any letter case, of objects and of those in lists. */
function valuesOf(holders: readonly unknown[], name: string): readonly unknown[] {
  return holders.flatMap((holder): readonly unknown[] => {
    if (Array.isArray(holder)) return valuesOf(holder, name);
    if (typeof holder !== "object" || holder === null) return [];
    // A server that copies members into another object gets what is in `__proto__` too.
    return Object.entries(holder).flatMap(([key, value]: [string, unknown]) =>
      isSame(name, key) ? [value] : key === "__proto__" ? valuesOf([value], name) : [],
    );
  });
}

/** Simple case folding, as regular expressions know it. */
function isSame(name: string, other: string): boolean {
  return new RegExp(`^${name}$`, "iu").test(other);
}
