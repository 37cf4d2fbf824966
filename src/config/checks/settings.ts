import { hasTypographicQuotes } from "../../lib/text/value-hints.ts";
import { isObject } from "../../lib/is-object.ts";
import { closestName } from "../../lib/closest-name.ts";
import { isLoopback, parseUrl } from "../../lib/addresses.ts";
import { formatDuration } from "../../lib/duration.ts";
import { isInOwnNamespace, methodNames } from "../../protocol/methods.ts";
import { type Config, type RouteConfig, serversOf } from "../config.ts";
import { type ConfigFinding, formatPath, type Path, valueAt } from "../issues.ts";

/** Settings that would make callers or messages indistinguishable, or would create a loop. */
export function settingProblems(config: Config): readonly ConfigFinding[] {
  return [...sameKeys(config), ...ownEndpoints(config)];
}

/** Settings that work but are probably a mistake. */
export function settingWarnings(config: Config, now: number): readonly ConfigFinding[] {
  return [...uselessKeys(config, now), ...unknownRoutes(config), ...unknownMethods(config), ...doubledPath(config)];
}

/** Two owners with one key would be indistinguishable. */
function sameKeys({ auth }: Config): readonly ConfigFinding[] {
  return Object.entries(auth.authenticators).flatMap(([name, { apiKeys }]) => {
    const owners = new Map<string, string>();
    return Object.entries(apiKeys?.keys ?? {}).flatMap(([owner, { hash }]): readonly ConfigFinding[] => {
      const other = owners.get(hash);
      owners.set(hash, other ?? owner);
      if (other === undefined) return [];
      const path = ["auth", "authenticators", name, "apiKeys", "keys", owner, "hash"];
      return [{ path, message: `is also the hash of \`${other}\`; give each owner a key: \`headgate key\`` }];
    });
  });
}

function uselessKeys({ auth }: Config, now: number): readonly ConfigFinding[] {
  return Object.entries(auth.authenticators).flatMap(([name, { apiKeys }]): readonly ConfigFinding[] => {
    if (apiKeys === undefined) return [];
    const path = ["auth", "authenticators", name, "apiKeys", "keys"];
    const keys = Object.entries(apiKeys.keys);
    if (keys.length === 0) return [{ path, message: "has no keys; create one with `headgate key`" }];
    return keys.flatMap(([owner, { expires }]) =>
      expires === undefined || Date.parse(expires) > now
        ? []
        : [{ path: [...path, owner, "expires"], message: "is in the past: the key is refused" }],
    );
  });
}

/** Not an error: the recordings of a route that was removed may be kept. Views are routes of their own. */
function unknownRoutes({ record, routes }: Config): readonly ConfigFinding[] {
  if (record === undefined || record === false) return [];
  const known = Object.keys(routes);
  return Object.keys(record.retention.routes).flatMap((name) => {
    if (known.includes(name)) return [];
    const meant = closestName(name, known);
    const hint = meant === undefined ? `expected ${known.map(quoted).join(", ")}` : `did you mean ${quoted(meant)}?`;
    return [{ path: ["record", "retention", "routes"], key: name, message: `no route ${quoted(name)}; ${hint}` }];
  });
}

function unknownMethods(config: Config): readonly ConfigFinding[] {
  const own = Object.values(config.routes).flatMap((route): readonly ConfigFinding[] =>
    route.rates === config.rates ? [] : methodsIn(route.rates, ["routes", route.name, "rates"]),
  );
  return [...methodsIn(config.rates, ["rates"]), ...own];
}

function methodsIn({ methods }: Config["rates"], path: Path): readonly ConfigFinding[] {
  return Object.keys(methods).flatMap((name) => {
    if (name.includes("*") || methodNames.includes(name)) return [];
    const meant = closestName(name, methodNames);
    // Extensions have methods of their own.
    if (meant === undefined && !isInOwnNamespace(name)) return [];
    const hint = meant === undefined ? "" : `; did you mean ${quoted(meant)}?`;
    return [{ path: [...path, "methods"], key: name, message: `MCP has no method ${quoted(name)}${hint}` }];
  });
}

/** A route whose server is the route itself would forward each message forever. */
function ownEndpoints({ listen, routes }: Config): readonly ConfigFinding[] {
  if (listen.unixSocket !== undefined) return [];
  return Object.values(routes).flatMap((route) =>
    serversOf(route.upstream).flatMap(({ name, server }): readonly ConfigFinding[] => {
      if (server.type !== "http" || !isEndpoint(new URL(server.url), listen, route)) return [];
      const path = [...routePath(route), ...(name === undefined ? ["upstream"] : ["upstreams", name]), "url"];
      return [{ path, message: "is this route itself; give the URL of the server, or another `listen.port`" }];
    }),
  );
}

function isEndpoint(url: URL, listen: Config["listen"], { prefixes }: RouteConfig): boolean {
  const port = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
  if (port !== listen.port || !isLoopback(url.hostname)) return false;
  return prefixes.some((prefix) => url.pathname === `${prefix}/mcp` || url.pathname === `${prefix}/sse`);
}

function routePath({ name, prefixes }: RouteConfig): Path {
  return prefixes.some((prefix) => prefix !== "") ? ["routes", name] : [];
}

/** A public URL that ends in `/mcp` is mostly that of an endpoint. */
function doubledPath({ listen: { publicUrl } }: Config): readonly ConfigFinding[] {
  const url = publicUrl === undefined ? undefined : parseUrl(publicUrl);
  if (url === undefined || !/\/(?:mcp|sse)\/?$/u.test(url.pathname)) return [];
  const message = `paths of endpoints follow it: clients would connect to ${url.href.replace(/\/$/u, "")}/mcp; leave out \`${url.pathname}\``;
  return [{ path: ["listen", "publicUrl"], message }];
}

/**
 * What is wrong with single values as they are written, beyond what their schema says. Values at `replaced` paths come
 * from elsewhere.
 */
export function writtenFindings(
  tree: unknown,
  replaced: ReadonlySet<string> = new Set(),
): {
  problems: readonly ConfigFinding[];
  warnings: readonly ConfigFinding[];
} {
  const problems: ConfigFinding[] = [];
  const warnings: ConfigFinding[] = [];
  const visit = (value: unknown, path: Path): void => {
    if (Array.isArray(value)) for (const [index, inner] of value.entries()) visit(inner, [...path, index]);
    else if (isObject(value)) {
      // A validated object does not have it, so it would be ignored.
      if (Object.hasOwn(value, "__proto__"))
        problems.push({ path, key: "__proto__", message: "`__proto__` cannot be a name; choose another" });
      for (const [key, inner] of Object.entries(value)) visit(inner, [...path, key]);
    } else if (typeof value === "number") warnings.push(...durationWarnings(value, path));
    else if (typeof value === "string") {
      problems.push(...pathProblems(value, path));
      const isReplaced = replaced.has(formatPath(path)) || (path.at(-2) === "args" && isShellCommand(tree, path));
      const found = isReplaced ? [] : [...shellFindings(value, path), ...quoteFindings(value, path)];
      (isPathSetting(path) ? problems : warnings).push(...found);
    }
  };
  visit(tree, []);
  warnings.push(...uselessSettings(tree));
  return { problems, warnings };
}

/** Settings that name a file, a folder or a program. */
const pathKeys: ReadonlySet<string> = new Set(["command", "cwd", "file", "folder", "lock", "unixSocket"]);
/** Objects whose keys the user chooses. */
const ownNames: ReadonlySet<string> = new Set(["env", "headers", "labels", "set", "annotations", "arguments"]);

function isPathSetting(path: Path): boolean {
  const key = String(path.at(-1));
  return (pathKeys.has(key) || key.endsWith("File")) && !ownNames.has(String(path.at(-2)));
}

function pathProblems(text: string, path: Path): readonly ConfigFinding[] {
  if (!isPathSetting(path)) return [];
  if (/[\p{Cc}\u0085\u2028\u2029]/u.test(text))
    return [
      {
        path,
        message:
          "contains a control character; in double quotes `\\` begins an escape such as `\\n`: use single quotes",
      },
    ];
  return [];
}

/** Quotes of a word processor do not end a string, so they are a part of it. */
function quoteFindings(text: string, path: Path): readonly ConfigFinding[] {
  if (!hasTypographicQuotes(text) || !(isPathSetting(path) || isForServer(path))) return [];
  return [{ path, message: 'its quotes are typographic and count as text: write `"`' }];
}

/** Settings that another one makes useless. */
function uselessSettings(tree: unknown): readonly ConfigFinding[] {
  const found: ConfigFinding[] = [];
  const auth = valueAt(tree, ["auth"]);
  const authenticators = valueAt(auth, ["authenticators"]);
  const isEmpty =
    authenticators === undefined || (isObject(authenticators) && Object.keys(authenticators).length === 0);
  if (isObject(auth) && isEmpty && auth["use"] === undefined)
    found.push({
      path: ["auth"],
      message: "has no `authenticators`, so callers need no credentials; leave it out to say so",
    });
  for (const key of ["host", "port"])
    if (typeof valueAt(tree, ["listen", "unixSocket"]) === "string" && valueAt(tree, ["listen", key]) !== undefined)
      found.push({ path: ["listen", key], message: "is not used beside `unixSocket`; keep one of the two" });
  return found;
}

/** Where no shell replaces them, `~` and `$HOME` are literal text. */
function shellFindings(text: string, path: Path): readonly ConfigFinding[] {
  if (!isPathSetting(path) && !isForServer(path)) return [];
  if (text.startsWith("~/") && path.at(-2) !== "headers")
    return [{ path, message: `no shell replaces \`~\` here; write \`\${env:HOME}${text.slice(1)}\`` }];
  if (path.at(-2) === "args" && shellOperators.has(text))
    return [{ path, message: `no shell sees \`${text}\` here; run one: \`command: sh\`, \`args: [-c, "…"]\`` }];
  const { posix, windows } = shellVariable.exec(text)?.groups ?? {};
  const name = posix ?? windows;
  if (name === undefined) return [];
  const written = posix === undefined ? `%${name}%` : `$${name}`;
  return [{ path, message: `no shell replaces \`${written}\` here; write \`\${env:${name}}\`` }];
}

const shellOperators: ReadonlySet<string> = new Set(["|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"]);

/** Whether an argument is one of a shell, which replaces variables itself. */
function isShellCommand(tree: unknown, path: Path): boolean {
  const command = valueAt(tree, [...path.slice(0, -2), "command"]);
  return (
    typeof command === "string" && /(?:^|[/\\])(?:(?:ba|z|da|fi|k)?sh|cmd|powershell|pwsh)(?:\.exe)?$/iu.test(command)
  );
}

/** `$NAME` and `%NAME%` at the beginning of a word, in capital letters: others are mostly parts of passwords. */
const shellVariable = /(?<![^\s/\\:=,;"'@])(?:\$(?<posix>[A-Z_][\dA-Z_]+)(?!\w)|%(?<windows>[A-Z_][\dA-Z_]+)%)/u;

/** Whether a string is an argument, a variable, a header or the URL of a server. */
function isForServer(path: Path): boolean {
  const [holder, key] = [path.at(-2), path.at(-1)];
  if (typeof key === "number") return holder === "args";
  return key === "url" || holder === "env" || holder === "headers";
}

/** A plain number of milliseconds that was probably meant as seconds. */
function durationWarnings(value: number, path: Path): readonly ConfigFinding[] {
  if (value <= 0 || value >= 1000 || !isDuration(path)) return [];
  return [
    {
      path,
      message: `is ${formatDuration(value)} because it has no unit; write \`${value}ms\`, or \`${value}s\` for seconds`,
    },
  ];
}

/**
 * The names of settings that are durations, and of maps of them. A list, because making the JSON schema, which knows them
 * too, takes longer than reading a configuration.
 */
export const durationKeys: ReadonlySet<string> = new Set([
  "body",
  "cacheMaxAge",
  "circuitBreakerPause",
  "clockSkew",
  "connect",
  "connectionKeepalive",
  "connectionTimeout",
  "grace",
  "hard",
  "human",
  "idleReuse",
  "idleTimeout",
  "lifetime",
  "maxAge",
  "quick",
  "readinessDelay",
  "retryBackoff",
  "routes.*",
  "stale",
  "streamKeepAlive",
  "timeout",
  "tool",
  "tools.*",
  "ttl",
  "wait",
]);

function isDuration(path: Path): boolean {
  const [holder, key] = [String(path.at(-2)), String(path.at(-1))];
  return durationKeys.has(`${holder}.*`) || (durationKeys.has(key) && !ownNames.has(holder));
}

function quoted(name: string): string {
  return `\`${name}\``;
}
