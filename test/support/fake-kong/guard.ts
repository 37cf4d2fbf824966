import { parse } from "yaml";
import { Exit } from "./kit.ts";
import type { RequestContext } from "./request.ts";

/** The functions of Kong's `post-function` plugin, as its configuration has them. */
export interface Guard {
  readonly access: readonly GuardFunction[];
  readonly headerFilter: readonly GuardFunction[];
}

/** One function; it throws Exit where it answers the client. */
export type GuardFunction = (context: RequestContext, source: string) => void;

/**
 * Reads the shipped guard. Its Lua is so plain that it becomes JavaScript word by word; anything beyond that is
 * refused, so that what runs here is what the file says.
 */
export function parseGuard(yaml: string): Guard {
  const plugin: unknown = parse(yaml);
  const config = at(plugin, "config");
  return {
    access: listOf(at(config, "access")).map(toFunction),
    headerFilter: listOf(at(config, "header_filter")).map(toFunction),
  };
}

const tokens = /--[^\n]*|"[^"\n]*"|\d+|[A-Za-z_][\w.]*|~=|==|[(){},=]|\s+|(?<stranger>.)/gu;

const words: ReadonlyMap<string, string> = new Map([
  ["~=", "!=="],
  ["==", "==="],
  ["and", "&&"],
  ["or", "||"],
  ["if", "if("],
  ["then", "){"],
  ["end", "}"],
  ["nil", "undefined"],
  ["local", "const"],
]);

function toFunction(lua: string): GuardFunction {
  let depth = 0;
  const code = [...lua.matchAll(tokens)]
    .map(({ 0: token, groups }) => {
      if (groups?.["stranger"] !== undefined) throw new Error(`the guard has ${token}, which is not plain Lua`);
      if (token.startsWith("--")) return "";
      if (token === "{") depth += 1;
      if (token === "}") depth -= 1;
      return depth > 0 && token === "=" ? ":" : (words.get(token) ?? token);
    })
    .join("");
  // The code is a file of this repository, made of the few words above.
  // oxlint-disable-next-line typescript/no-implied-eval
  const run = new Function("kong", code) as (kong: unknown) => void;
  return (context, source) => run(kongFor(context, source));
}

function kongFor(context: RequestContext, source: string): unknown {
  return {
    ctx: { shared: Object.fromEntries(context.shared) },
    log: { err: (text: string) => context.log.push({ level: "err", text }) },
    response: {
      get_source: () => source,
      exit: (status: number, body?: unknown) => {
        const text = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
        throw new Exit(status, text, new Map([["content-type", ["application/json"]]]));
      },
    },
  };
}

function at(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

function listOf(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}
