import { basename } from "node:path";

import { routeNameOf } from "../../config/mcp-servers.ts";
import { meantValue } from "../../lib/closest-name.ts";
import type { Environment } from "../../config/substitute.ts";
import { InputFileError, namedConfig, parseHeader, UsageError } from "../define-command.ts";

/** The options of `run` and `stdio` that describe a server without a configuration file. */
export interface InlineOptions {
  readonly upstream?: string | undefined;
  readonly "upstream-header"?: readonly string[] | undefined;
  /** Servers to serve as one, as NAME=SERVER. */
  readonly federate?: readonly string[] | undefined;
  readonly transport?: string | undefined;
  /** Variables for the program, as NAME or NAME=VALUE. */
  readonly env?: readonly string[] | undefined;
  /** The program to serve, with its arguments. */
  readonly program?: readonly string[] | undefined;
}

const transports: readonly string[] = ["streamable-http", "sse", "auto"];

/** Refuses options that would have no effect. */
export function checkInlineOptions({ upstream, program, ...options }: InlineOptions): void {
  if (program !== undefined && (program[0] ?? "") === "") throw new UsageError("expected a command after --");
  if (upstream === undefined) {
    if (options["upstream-header"] !== undefined) throw new UsageError("--upstream-header needs --upstream URL");
    if (options.transport !== undefined) throw new UsageError("--transport needs --upstream URL");
  }
  if (options.transport !== undefined && !transports.includes(options.transport)) {
    const meant = meantValue(options.transport, transports);
    const hint = meant === undefined ? "" : `; did you mean \`${meant}\`?`;
    throw new UsageError(`--transport must be one of ${transports.join(", ")}${hint}`);
  }
  // `localhost:3000` is a URL too, with the scheme `localhost`.
  if (upstream !== undefined && !/^https?:/iu.test(URL.parse(upstream)?.protocol ?? "")) {
    const remedy = upstream.includes(" ")
      ? `start a command with \`-- ${upstream}\``
      : "begin it with `http://` or `https://`";
    throw new InputFileError(`headgate: --upstream: \`${upstream}\` is not a URL; ${remedy}`);
  }
  if (program === undefined && options.env !== undefined) throw new UsageError("--env needs a command after --");
}

/** The configuration that `run` and `stdio` are given, as a word or with `--config`; refuses other words. */
export function configArgument(words: readonly string[], option: string | undefined): string | undefined {
  const other = words.find((word) => !/\.(?:ya?ml|jsonc?|toml)$/iu.test(word));
  if (other === undefined) return namedConfig(words, option);
  const isUrl = /^https?:/iu.test(other) && URL.canParse(other);
  const hint = isUrl ? `name a server with \`--upstream ${other}\`` : "put `--` before a command to start";
  throw new UsageError(`unexpected argument \`${other}\`; ${hint}`);
}

/**
 * The configuration for a URL, a program, several servers, or else the demo server. The route is named after the
 * server, so that its recordings can be distinguished from others.
 */
export function inlineConfig(options: InlineOptions, environment: Environment): unknown {
  const { program = [], upstream: url, transport } = options;
  const [command, ...args] = program;
  if (command !== undefined) {
    const env = Object.fromEntries((options.env ?? []).map((text) => parseVariable(text, environment)));
    return routeTo(nameOfProgram(program), { command, args, ...given({ env }) });
  }
  if (options.federate !== undefined) {
    return { routes: { all: { upstreams: Object.fromEntries(options.federate.map(parseMember)) } } };
  }
  if (url === undefined) return routeTo("demo", { demo: true });
  const headers = Object.fromEntries(
    (options["upstream-header"] ?? []).map((line) => parseHeader("--upstream-header", line)),
  );
  const upstream = { url, ...given({ headers }), ...(transport === undefined ? {} : { transport }) };
  return routeTo(nameOfUrl(url), upstream);
}

function routeTo(name: string | undefined, upstream: unknown): unknown {
  return { routes: { [name ?? "default"]: { upstream } } };
}

/** The objects with something in them. */
function given(parts: Readonly<Record<string, object>>): Readonly<Record<string, object>> {
  return Object.fromEntries(Object.entries(parts).filter(([, part]) => Object.keys(part).length > 0));
}

function nameOfUrl(text: string): string | undefined {
  const url = URL.parse(text);
  if (url === null) return undefined;
  // The last segment is the same for most servers.
  const path = url.pathname.replace(/\/(?:mcp|sse)?\/*$/u, "");
  return routeNameOf(`${url.host}${path}`);
}

/** Programs that run another program, after which the server is named. */
const runners: ReadonlySet<string> = new Set([
  "npx",
  "npm",
  "pnpm",
  "yarn",
  "bunx",
  "bun",
  "uvx",
  "uv",
  "pipx",
  "node",
  "deno",
  "python",
  "python3",
  "docker",
  "podman",
  "env",
  "sh",
  "bash",
  "cmd",
]);
/** Subcommands of a runner. */
const runnerWords: ReadonlySet<string> = new Set(["run", "exec", "dlx", "tool", "x", "/c"]);

function nameOfProgram([command = "", ...args]: readonly string[]): string | undefined {
  const program = programName(command);
  if (!runners.has(program)) return routeNameOf(program);
  const isNamed = (arg: string): boolean =>
    /^[\w@./\\:+-]+$/u.test(arg) &&
    !arg.startsWith("-") &&
    !runnerWords.has(arg) &&
    !/^\w+=/u.test(arg) &&
    !runners.has(programName(arg));
  const named = args.find(isNamed);
  return routeNameOf(named === undefined ? program : programName(named).replace(/@[^@/]*$/u, ""));
}

function programName(path: string): string {
  return basename(path.replaceAll("\\", "/")).replace(/\.(?:exe|cmd|bat|[cm]?[jt]s|py|sh)$/iu, "");
}

function parseMember(text: string): readonly [name: string, upstream: unknown] {
  const equals = text.indexOf("=");
  const [name, server] = [text.slice(0, Math.max(equals, 0)), text.slice(equals + 1).trim()];
  const [command, ...args] = wordsOf(server);
  if (name === "" || command === undefined)
    throw new UsageError(`--federate takes NAME=URL or NAME='COMMAND ARGS', not \`${text}\``);
  return [name, /^https?:\/\//u.test(server) ? { url: server } : { command, args }];
}

/** The words of a command line: no shell splits it, so only quotes and spaces mean something. */
function wordsOf(line: string): readonly string[] {
  const words = line.match(/(?:[^\s"']|"[^"]*"|'[^']*')+/gu) ?? [];
  return words.map((word) =>
    word.replaceAll(/"([^"]*)"|'([^']*)'/gu, (_, one: string = "", other: string = "") => one + other),
  );
}

function parseVariable(text: string, environment: Environment): readonly [name: string, value: string] {
  const { name, value } = /^(?<name>[^=\0]+)(?:=(?<value>.*))?$/su.exec(text)?.groups ?? {};
  if (name === undefined) throw new UsageError("--env takes NAME or NAME=VALUE");
  const known = value ?? environment[name];
  if (known === undefined)
    throw new UsageError(`--env ${name}: this variable is not set; export it first, or write --env ${name}=VALUE`);
  // A reference makes it a secret, which is kept out of logs. Other references were for the shell to replace.
  const isReferable = value === undefined && /^[A-Z_a-z]\w*$/u.test(name);
  return [name, isReferable ? `\${env:${name}}` : known.replaceAll("${", () => "$${")];
}
