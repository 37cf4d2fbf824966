import { readdirSync } from "node:fs";

import { thrownMessage } from "../errors.ts";

const hidden = "<path>";

/**
 * The message of an error for the model, without stack trace and without paths of this machine. Everything else stays
 * as the error says it: a URL, a ratio, a route of an API, or the name of a field are not paths.
 */
export function toErrorText(thrown: unknown): string {
  const text = systemPaths(thrown)
    .reduce((shown, path) => shown.replaceAll(path, hidden), thrownMessage(thrown))
    .replaceAll(/\n\s+at [^\n]*/gu, "")
    .replaceAll(/file:\/\/[^\s'"`)\]]+/gu, hidden)
    // The words of a system error that another error repeats: `ENOENT: no such file or directory, open '/x y/z'`.
    .replaceAll(/(?<what>\bE[A-Z]{2,}: [^\n,']*, \w+ )'[^'\n]*'(?: -> '[^'\n]*')?/gu, `$<what>'${hidden}'`);
  return hideQuoted(text).replaceAll(absolutePath, (path) => (isOfThisMachine(path) ? hidden : path));
}

/** The paths of the system errors behind a thrown value. Other errors may call anything `path`. */
function systemPaths(thrown: unknown, depth = 0): readonly string[] {
  if (typeof thrown !== "object" || thrown === null || depth > 8) return [];
  const own = "syscall" in thrown ? ["path", "dest"].map((name): unknown => Reflect.get(thrown, name)) : [];
  const inner: readonly unknown[] = [
    "cause" in thrown ? thrown.cause : undefined,
    ...(thrown instanceof AggregateError ? thrown.errors : []),
  ];
  return [
    ...own.filter((path): path is string => typeof path === "string" && path !== ""),
    ...inner.flatMap((error) => systemPaths(error, depth + 1)),
  ].toSorted((one, other) => other.length - one.length);
}

/** A path in quotes may hold blanks. */
function hideQuoted(text: string): string {
  return text.replaceAll(/(?<quote>['"`])(?<path>(?:[A-Za-z]:)?[\\/][^'"`\n]*)\k<quote>/gu, (whole, quote, path) =>
    isOfThisMachine(String(path)) ? `${String(quote)}${hidden}${String(quote)}` : whole,
  );
}

/** An absolute path with two or more parts that nothing else runs into, so not the end of a URL or of `and/or`. */
const absolutePath = /(?<![\w/\\.:%~-])(?:[A-Za-z]:[\\/]|\/(?=[^\s/]+\/))[^\s'"`<>|,;)\]}]*[^\s'"`<>|,;)\]}.:]/gu;

let roots: ReadonlySet<string> | undefined;

/** Whether a path begins in the root folder of this machine, or on a drive. */
function isOfThisMachine(path: string): boolean {
  if (/^[A-Za-z]:/u.test(path) || path.startsWith("\\\\")) return true;
  roots ??= new Set(readdirSync("/"));
  return roots.has(path.split("/")[1] ?? "");
}
