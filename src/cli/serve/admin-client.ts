import type { Environment } from "../../config/substitute.ts";
import { GatewayError } from "../../errors.ts";
import { parseUrl } from "../../lib/addresses.ts";
import { isObject } from "../../lib/is-object.ts";
import { createSseDecoder } from "../../protocol/sse/decoder.ts";
import { defaultAdminUrls } from "../commands.ts";
import { UsageError } from "../define-command.ts";
import { adminTokenFile, readAdminToken } from "./admin-token.ts";

/** How long a gateway may take to answer, on a machine that is busy with it. */
const answerMs = 10_000;
const maxEventBytes = 64 * 1024 * 1024;

/** A running gateway of this user. */
export interface RunningGateway {
  /** Where its admin paths are. */
  readonly place: string;
  readonly token: string;
}

/** A gateway that answers, or where none did. */
export type FoundGateway =
  | { readonly ok: true; readonly gateway: RunningGateway }
  | { readonly ok: false; readonly places: readonly string[] };

/** Finds the running gateway, by the URL that was given or at the usual places. */
export async function findGateway(url: string | undefined, env: Environment): Promise<FoundGateway> {
  if (url !== undefined && parseUrl(url) === undefined) throw new UsageError(`\`${url}\` is not a URL`);
  const token = readAdminToken(env);
  if (token === undefined) throw new UsageError(`${adminTokenFile(env)} cannot be read`);
  const places = url === undefined ? defaultAdminUrls : [url.replace(/\/+$/u, "")];
  for (const place of places) {
    // The API of a gateway answers 401; anything else is not one.
    const status = await fetch(`${place}/api/v1/about`, { signal: AbortSignal.timeout(answerMs) }).then(
      (response) => response.status,
      () => undefined,
    );
    if (status === 401) return { ok: true, gateway: { place, token } };
  }
  return { ok: false, places };
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
