import { loadConfig } from "../../config/load.ts";
import { GatewayError } from "../../errors.ts";
import { parseUrl } from "../../lib/addresses.ts";
import { isObject } from "../../lib/is-object.ts";
import { createSseDecoder } from "../../protocol/sse/decoder.ts";
import { defaultAdminUrls } from "../commands.ts";
import { configInFolder, UsageError } from "../define-command.ts";
import type { CliIo } from "../io.ts";
import { adminTokenFile, readAdminToken } from "./admin-token.ts";

/** How long a gateway may take to answer, with room for a busy machine. */
const answerMs = 10_000;
const maxEventBytes = 64 * 1024 * 1024;

/** A running gateway of this user. */
export interface RunningGateway {
  /** Where its admin paths are. */
  readonly place: string;
  readonly token: string;
}

/**
 * Finds the running gateway at the given URL, else at the admin address of the configuration in this folder or a default
 * one; prints an error where none answers.
 */
export async function findGateway(
  command: string,
  url: string | undefined,
  { env, err, readFile }: Pick<CliIo, "env" | "err" | "readFile">,
): Promise<RunningGateway | undefined> {
  if (url !== undefined && parseUrl(url) === undefined) throw new UsageError(`\`${url}\` is not a URL`);
  const token = readAdminToken(env);
  if (token === undefined) throw new UsageError(`${adminTokenFile(env)} cannot be read`);
  const places =
    url === undefined
      ? new Set([...(await placeInFolder({ env, readFile })), ...defaultAdminUrls])
      : [url.replace(/\/+$/u, "")];
  for (const place of places) {
    // A path that needs no sign-in: a refusal would appear in the traffic that the user is about to look at.
    const answer: unknown = await fetch(`${place}/api/v1/session`, { signal: AbortSignal.timeout(answerMs) })
      .then((response) => (response.ok ? response.json() : undefined))
      .catch(() => undefined);
    if (isObject(answer) && "signedIn" in answer) return { place, token };
  }
  err(`headgate ${command}: no gateway answers at ${[...places].join(" or ")}; start one, or name it with --url\n`);
  return undefined;
}

/** Where the gateway of the configuration in this folder has its admin paths, if there is one and it says so. */
async function placeInFolder({ env, readFile }: Pick<CliIo, "env" | "readFile">): Promise<readonly string[]> {
  const file = configInFolder();
  if (file === undefined) return [];
  const loaded = await loadConfig({ file, env, readFile });
  // Ignores problems: what a gateway needs, such as an environment variable, may be missing here.
  const admin = loaded.ok && loaded.config.admin;
  if (admin === false || admin.port === 0) return [];
  // A gateway that listens at all addresses is reached at the first one of the machine.
  const host = ["0.0.0.0", "::"].includes(admin.host) ? "127.0.0.1" : admin.host;
  return [`http://${host.includes(":") ? `[${host}]` : host}:${admin.port}`];
}

/** Posts to the admin API; returns why it refused, if it did. */
export async function postToGateway(
  { place, token }: RunningGateway,
  path: string,
  body: unknown,
): Promise<string | undefined> {
  const response = await fetch(`${place}/api/v1${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  return response.ok ? undefined : problemIn(text, response.status);
}

/** An event of the admin API. */
export interface GatewayEvent {
  readonly event: string;
  readonly data: unknown;
}

/** Follows a stream of the admin API until it ends; throws when the gateway refuses it. */
export async function* followGateway(
  { place, token }: RunningGateway,
  path: string,
  signal: AbortSignal,
): AsyncGenerator<GatewayEvent> {
  const response = await fetch(`${place}/api/v1${path}`, { headers: { authorization: `Bearer ${token}` }, signal });
  if (!response.ok || response.body === null)
    throw new GatewayError("config_invalid", problemIn(await response.text(), response.status));
  const events: GatewayEvent[] = [];
  const decoder = createSseDecoder({
    maxEventBytes,
    onEvent: ({ kind, event = "message", data }) => {
      if (kind === "data") events.push({ event, data: JSON.parse(data.toString()) });
    },
  });
  for await (const chunk of response.body) {
    decoder.push(Buffer.from(chunk));
    for (const one of events.splice(0)) {
      if (one.event === "error") throw new GatewayError("config_invalid", problemIn(JSON.stringify(one.data), 200));
      yield one;
    }
  }
}

/** The message of an error answer. */
function problemIn(text: string, status: number): string {
  try {
    const value: unknown = JSON.parse(text);
    const error = isObject(value) && isObject(value["error"]) ? value["error"] : {};
    if (typeof error["message"] === "string") return error["message"];
  } catch {
    // Not an answer of the API.
  }
  return `the gateway answered ${status}`;
}
