import { accessSync, closeSync, constants, existsSync, openSync, readFileSync, readSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, isAbsolute, resolve as resolvePath } from "node:path";
import { createSecureContext } from "node:tls";
import { createPrivateKey, X509Certificate } from "node:crypto";

import { type Config, type RouteConfig, unnamedRoute, type Upstream } from "../../config/config.ts";
import type { ConfigFinding, Path } from "../../config/issues.ts";
import { type Environment, reasonOf } from "../../config/substitute.ts";
import { isObject } from "../../lib/is-object.ts";
import { parseLock } from "../../recorder/drift/compare.ts";
import { hasDataFolder } from "../data-folder.ts";
import { isProgram } from "../find-program.ts";
import { defaultRecordingFile } from "../traffic/recordings.ts";
import { socketPathProblem } from "../../lib/socket-path.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";

/** What a configuration needs that this machine lacks. */
export interface Preflight {
  /** With these a gateway does not start. */
  readonly problems: readonly ConfigFinding[];
  /** With these it starts, and something will not work. */
  readonly warnings: readonly ConfigFinding[];
}

/** Looks for the files, folders and programs that a configuration names. Starts and changes nothing. */
export function preflight(config: Config, env: Environment): Preflight {
  const servers = Object.values(config.routes).flatMap(placedServers);
  return {
    problems: [
      ...fileProblems(config),
      ...certificateProblems(config),
      ...lockProblems(config),
      ...folderProblems(config),
      ...servers.flatMap(commandProblems),
    ],
    warnings: [...recordWarnings(config, env), ...servers.flatMap((server) => programWarnings(server, env))],
  };
}

/** Every setting that ends in `File` names a file to read. */
function fileProblems(config: Config): readonly ConfigFinding[] {
  const { routes, secrets: _secrets, ...rest } = config;
  const named = [
    ...filesIn(rest, []),
    ...Object.values(routes)
      .flatMap(placedServers)
      .flatMap(({ upstream, path }) => filesIn(upstream, path)),
    ...Object.values(routes).flatMap((route) => filesIn(route.policy, [...routePath(route), "policy"])),
  ];
  return named.flatMap(({ path, file }) => {
    const reason = unreadable(file);
    return reason === undefined ? [] : [{ path, message: `cannot read ${file}: ${reason}` }];
  });
}

interface NamedFile {
  readonly path: Path;
  readonly file: string;
}

function filesIn(value: unknown, path: Path): readonly NamedFile[] {
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    typeof inner === "string" && key.endsWith("File")
      ? [{ path: [...path, key], file: inner }]
      : filesIn(inner, [...path, key]),
  );
}

/** A server and its path in the file. */
interface PlacedServer {
  readonly upstream: Upstream;
  readonly path: Path;
}

function placedServers(route: RouteConfig): readonly PlacedServer[] {
  const path = routePath(route);
  const { upstream } = route;
  // A view has the servers of its route, and no place of its own in the file.
  if (upstream.type === "federation" && upstream.view !== undefined) return [];
  if (upstream.type !== "federation") return [{ upstream, path: [...path, "upstream"] }];
  return upstream.members.map((member) => ({ upstream: member.upstream, path: [...path, "upstreams", member.name] }));
}

/** The path of a route in the file; a route that is written without a name has no entry in `routes`. */
export function routePath({ name }: RouteConfig): Path {
  return name === unnamedRoute ? [] : ["routes", name];
}

function unreadable(file: string): string | undefined {
  try {
    accessSync(file, constants.R_OK);
    return statSync(file).isFile() ? undefined : "it is not a file";
  } catch (error) {
    return reasonOf(error);
  }
}

function certificateProblems({ listen: { tls } }: Config): readonly ConfigFinding[] {
  if (tls === undefined || unreadable(tls.certFile) !== undefined || unreadable(tls.keyFile) !== undefined) return [];
  const [cert, key] = [readFileSync(tls.certFile), readFileSync(tls.keyFile)];
  try {
    createSecureContext({ cert, key });
    const { validTo } = new X509Certificate(cert);
    return Date.parse(validTo) < Date.now()
      ? [{ path: ["listen", "tls", "certFile"], message: `the certificate expired on ${validTo}` }]
      : [];
  } catch (error) {
    const problem = pemProblem("certFile", cert, key) ?? pemProblem("keyFile", key, cert) ?? pairProblem(cert, key);
    return [
      problem ?? { path: ["listen", "tls"], message: `certificate and key cannot be used: ${thrownMessage(error)}` },
    ];
  }
}

const pemLabels = { certFile: "CERTIFICATE", keyFile: "PRIVATE KEY" } as const;

/** Why a file is not PEM with a certificate or a key: it has the other one, or neither. */
function pemProblem(name: keyof typeof pemLabels, own: Buffer, other: Buffer): ConfigFinding | undefined {
  const label = pemLabels[name];
  const has = (pem: Buffer): boolean =>
    new RegExp(`^-----BEGIN [A-Z ]*${label}-----`, "mu").test(pem.toString("latin1"));
  if (has(own)) return undefined;
  const hint = has(other) ? "; `certFile` and `keyFile` are the wrong way round" : "";
  return { path: ["listen", "tls", name], message: `has no PEM block "BEGIN ${label}"${hint}` };
}

/** A certificate or a key that cannot be read, or two that do not belong together. */
function pairProblem(cert: Buffer, key: Buffer): ConfigFinding | undefined {
  const path = ["listen", "tls"];
  const certificate = readPem(() => new X509Certificate(cert));
  if (certificate === undefined)
    return { path: [...path, "certFile"], message: "the certificate is damaged or cut off; copy the file again" };
  const privateKey = readPem(() => createPrivateKey(key));
  if (privateKey === undefined) {
    const isEncrypted = /ENCRYPTED/u.test(key.toString("latin1"));
    const message = isEncrypted
      ? "the key is encrypted; decrypt it, for example with `openssl pkey -in KEY -out PLAIN`"
      : "the key is damaged or cut off; copy the file again";
    return { path: [...path, "keyFile"], message };
  }
  if (certificate.checkPrivateKey(privateKey)) return undefined;
  return { path: [...path, "keyFile"], message: "is the key of another certificate than the first one in `certFile`" };
}

function readPem<Read>(read: () => Read): Read | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function lockProblems({ drift }: Config): readonly ConfigFinding[] {
  if (drift === undefined) return [];
  const path = ["drift", "lock"];
  const reason = unreadable(drift.lock);
  if (reason !== undefined) {
    const hint = "`headgate drift approve` writes it";
    return [{ path, message: `cannot read ${drift.lock}: ${reason}; ${hint}` }];
  }
  try {
    parseLock(readFileSync(drift.lock, "utf8"), drift.lock);
    return [];
  } catch (error) {
    return [{ path, message: `${thrownMessage(error)}; \`headgate drift approve\` writes one` }];
  }
}

function folderProblems({ audit, listen }: Config): readonly ConfigFinding[] {
  const { unixSocket } = listen;
  return [
    ...(audit === undefined ? [] : unwritable(["audit", "file"], audit.file)),
    ...(unixSocket === undefined ? [] : socketProblems(unixSocket)),
  ];
}

/** Why the file of recordings cannot be written; the default one is in a folder that is made when it is needed. */
export function recordWarnings({ record }: Pick<Config, "record">, env: Environment): readonly ConfigFinding[] {
  if (record === undefined || record === false || record.postgres !== undefined) return [];
  if (record.file === undefined && !hasDataFolder(env)) return [];
  const fallback = defaultRecordingFile(env);
  const file = record.file ?? fallback;
  const place = file === fallback ? nearestFolder(file) : file;
  const remedy = file === fallback ? "; set `record.file`, or XDG_DATA_HOME to a folder that can be written" : "";
  const path = ["record", "file"];
  const isInFile = place !== file && !statSync(place).isDirectory();
  const findings = isInFile
    ? [{ path, message: `${place} is not a folder` }]
    : [...unwritable(path, place, place === file ? undefined : place), ...foreignFile(path, file)];
  return findings.map(({ message }) => ({ path, message: `nothing will be recorded: ${message}${remedy}` }));
}

/** An existing file that is not a database is left alone. */
function foreignFile(path: Path, file: string): readonly ConfigFinding[] {
  const found = statSync(file, { throwIfNoEntry: false });
  if (found?.isFile() !== true || found.size === 0 || unreadable(file) !== undefined) return [];
  const start = Buffer.alloc(databaseStart.length);
  const descriptor = openSync(file, "r");
  try {
    readSync(descriptor, start, 0, start.length, 0);
  } finally {
    closeSync(descriptor);
  }
  if (start.toString("latin1") === databaseStart) return [];
  return [{ path, message: `${file} is another kind of file; name one that does not exist yet` }];
}

/** How every SQLite database begins (SQLite, "Database File Format", section 1.3). */
const databaseStart = "SQLite format 3\0";

/** The file, or the nearest folder around it that exists. */
function nearestFolder(file: string): string {
  const around = dirname(file);
  return around === file || existsSync(file) ? file : nearestFolder(around);
}

/** Why a file cannot be written; with `folder`, the path may be a folder in which the file will be created. */
function unwritable(path: Path, file: string, folder?: string): readonly ConfigFinding[] {
  const found = statSync(file, { throwIfNoEntry: false });
  if (found?.isDirectory() === true && file !== folder)
    return [{ path, message: `${file} is a folder; name a file in it` }];
  const place = found === undefined ? dirname(file) : file;
  try {
    accessSync(place, constants.W_OK);
    return [];
  } catch (error) {
    const isMissing = error instanceof Error && "code" in error && error.code === "ENOENT";
    if (isMissing) return [{ path, message: `the folder ${place} does not exist; create it` }];
    return [{ path, message: `cannot write to ${place}: ${reasonOf(error)}` }];
  }
}

function socketProblems(socket: string): readonly ConfigFinding[] {
  const path = ["listen", "unixSocket"];
  const problem = socketPathProblem(socket);
  if (problem !== undefined) return [{ path, message: problem }];
  if (process.platform === "win32") return [];
  const found = statSync(socket, { throwIfNoEntry: false });
  if (found !== undefined && !found.isSocket())
    return [{ path, message: `${socket} exists and is not a socket; delete it, or choose another path` }];
  return unwritable(path, socket);
}

function commandProblems({ upstream, path }: PlacedServer): readonly ConfigFinding[] {
  if (upstream.type !== "stdio") return [];
  const { command, args, cwd } = upstream;
  const problems: ConfigFinding[] = [];
  const line = command.trim().split(/\s+/u);
  const start = line.findIndex((word) => !isAssignment(word));
  const variables = line.slice(0, start).map((word) => word.slice(0, word.indexOf("=")));
  const [program = "", ...words] = line.slice(start);
  // A path may contain a space.
  if (
    line.length > 1 &&
    start >= 0 &&
    args.length === 0 &&
    statSync(command, { throwIfNoEntry: false }) === undefined
  ) {
    const rewritten = `command: ${program}${words.length === 0 ? "" : `, args: ${JSON.stringify(words)}`}`;
    const env = variables.length === 0 ? "" : `, and ${variables.join(", ")} in \`env\``;
    problems.push({
      path: [...path, "command"],
      message: `is a whole command line, and no shell splits it; write ${rewritten}${env}`,
    });
  }
  if (cwd !== undefined && statSync(cwd, { throwIfNoEntry: false })?.isDirectory() !== true)
    problems.push({ path: [...path, "cwd"], message: `there is no folder ${cwd}` });
  return problems;
}

/** `NAME=value` before a command, as shells take it. */
function isAssignment(word: string): boolean {
  return /^[A-Za-z_]\w*=/u.test(word);
}

function programWarnings(server: PlacedServer, env: Environment): readonly ConfigFinding[] {
  const { upstream, path } = server;
  if (upstream.type !== "stdio" || commandProblems(server).length > 0) return [];
  if (isProgram(upstream.command, { PATH: env["PATH"], ...upstream.env }, upstream.cwd))
    return scriptWarnings(upstream, path);
  const variable = /^(?<name>[A-Z_]\w*)=(?<value>\S*)\s/u.exec(upstream.command)?.groups?.["name"];
  const hint = variable === undefined ? "" : `; variables such as ${variable} belong in \`env\``;
  const message = `no command \`${upstream.command}\`: not in PATH, or not executable${hint}`;
  return [{ path: [...path, "command"], message }];
}

/** A script that an interpreter is to run and that does not exist. */
function scriptWarnings(
  { command, args, cwd = "." }: Extract<Upstream, { readonly type: "stdio" }>,
  path: Path,
): readonly ConfigFinding[] {
  const index = args.findIndex((word) => !word.startsWith("-"));
  const script = args[index];
  if (script === undefined || !interpreters.test(command) || !/\.(?:[cm]?[jt]s|py|rb)$/u.test(script)) return [];
  // An option before it may take the next word as its value.
  const isFirst = args.slice(0, index).every((word) => word.startsWith("--") && word.includes("="));
  const file = resolvePath(cwd, script);
  if (!isFirst || existsSync(file)) return [];
  const hint = isAbsolute(script) ? "" : "; relative paths in `args` start at `cwd`, or where Headgate is started";
  return [{ path: [...path, "args", index], message: `there is no file ${file}${hint}` }];
}

const interpreters = /(?:^|[/\\])(?:node|bun|deno|tsx|python3?|ruby)(?:\.exe)?$/iu;

/** The ports that another process has taken, or this user may not have. */
export async function portFindings(config: Config): Promise<readonly ConfigFinding[]> {
  const { listen, admin } = config;
  const main = listen.unixSocket === undefined ? await portFinding(["listen", "port"], "--port", listen) : [];
  const own = admin === false ? [] : await portFinding(["admin", "port"], "--admin-port", admin);
  return [...main, ...own];
}

async function portFinding(
  path: Path,
  option: string,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<readonly ConfigFinding[]> {
  const { promise, resolve } = Promise.withResolvers<NodeJS.ErrnoException | undefined>();
  const server = createServer();
  server.once("error", resolve);
  server.listen({ host, port }, () => {
    server.close(() => {
      resolve(undefined);
    });
  });
  const error = await promise;
  if (error === undefined) return [];
  const message =
    error.code === "EADDRINUSE"
      ? `${host}:${port} is in use by another process now; choose another with ${option}, or stop that process`
      : `cannot listen on ${host}:${port}: ${reasonOf(error)}`;
  return [{ path, message }];
}
