import { parseExactJson } from "../replay/canonical.ts";
import { isObject } from "../replay/match-key.ts";
import type { RecordedCall } from "../replay/recorded-call.ts";
import {
  definingMethods,
  definitionKey,
  definitionsIn,
  listShapeOf,
  type Definition,
} from "./definitions.ts";

/** What a server offered last. */
export interface OfferedDefinitions {
  readonly definitions: readonly Definition[];
  /** Kinds whose lists were seen to their end, so that what is not there is gone. */
  readonly complete: ReadonlySet<Definition["kind"]>;
}

/** What the servers of a recording offered last, by route; pages of a list belong together. */
export function offeredDefinitions(calls: readonly RecordedCall[]): ReadonlyMap<string, OfferedDefinitions> {
  const routes = new Map<string, Map<string, Map<string, Definition>>>();
  const ended = new Map<string, Set<Definition["kind"]>>();
  for (const { method, params, answer, context } of calls) {
    if (!definingMethods.includes(method) || answer === undefined || context === undefined) continue;
    const value = parseExactJson(answer);
    const result = isObject(value) ? value["result"] : undefined;
    if (!isObject(result)) continue;
    const route = getOrMake(routes, context.route, () => new Map<string, Map<string, Definition>>());
    const own = getOrMake(route, method === "initialize" ? "server/discover" : method, () => new Map());
    const isFirst = !isObject(params) || params["cursor"] === undefined;
    // A first page begins the list anew.
    if (isFirst) own.clear();
    for (const definition of definitionsIn(method, result)) own.set(definitionKey(definition), definition);
    const kind = listShapeOf(method)?.kind;
    const kinds = getOrMake(ended, context.route, () => new Set<Definition["kind"]>());
    if (kind !== undefined && isFirst) kinds.delete(kind);
    if (kind !== undefined && result["nextCursor"] === undefined) kinds.add(kind);
  }
  return new Map(
    [...routes].map(([route, methods]) => [
      route,
      {
        definitions: [...methods.values()].flatMap((own) => [...own.values()]),
        complete: ended.get(route) ?? new Set(),
      },
    ]),
  );
}

function getOrMake<Value>(map: Map<string, Value>, key: string, make: () => Value): Value {
  let value = map.get(key);
  if (value === undefined) map.set(key, (value = make()));
  return value;
}
