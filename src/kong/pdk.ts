import { isMap } from "./frames.ts";

/** Calls a function of Kong's plugin development kit (PDK) for the current request. */
export type PdkCall = <Name extends PdkName>(name: Name, ...args: PdkArguments<Name>) => Promise<PdkResult<Name>>;

/** Answers the client and ends the phase; Kong ignores the event after it. */
export const exitFunction = "kong.response.exit";

/** Header values by lower-case name; the policy engine validates them (PA-039). */
export type KongHeaders = Readonly<Record<string, unknown>>;

/** Headers to set; lists become several lines. */
export type HeaderArguments = Readonly<Record<string, string | readonly string[]>>;

/** The PDK functions in use, each with what reads its result. */
const readers = {
  "kong.client.get_ip": text,
  "kong.client.get_port": number,
  // PEM, the client's own certificate first; undefined without TLS or certificate (PA-096).
  "kong.client.tls.get_full_client_certificate_chain": optionalText,
  "kong.request.get_method": text,
  "kong.request.get_forwarded_scheme": text,
  "kong.request.get_forwarded_host": text,
  "kong.request.get_forwarded_port": number,
  // Percent-decoded except for reserved characters.
  "kong.request.get_forwarded_path": text,
  "kong.request.get_raw_query": text,
  "kong.request.get_http_version": number,
  "kong.request.get_headers": headerMap,
  "kong.request.get_raw_body": bytes,
  "kong.service.request.enable_buffering": nothing,
  "kong.service.request.set_headers": nothing,
  "kong.service.request.clear_header": nothing,
  "kong.service.request.set_method": nothing,
  "kong.service.request.set_path": nothing,
  "kong.service.request.set_raw_query": nothing,
  "kong.service.request.set_raw_body": nothing,
  "kong.response.get_status": number,
  // In the response phase these are the upstream's; `kong.service.response.get_headers` arrives empty (PX-05).
  "kong.response.get_headers": headerMap,
  "kong.response.clear_header": nothing,
  "kong.service.response.get_raw_body": bytes,
  "kong.ctx.shared.get": optionalText,
  "kong.ctx.shared.set": nothing,
  "kong.vault.get": optionalText,
  "kong.log.warn": nothing,
  "kong.log.err": nothing,
} as const;

type PdkName = keyof typeof readers;
type PdkResult<Name extends PdkName> = ReturnType<(typeof readers)[Name]>;
type PdkArguments<Name extends PdkName> = Name extends keyof Arguments ? Arguments[Name] : [];

/** The arguments of the functions that take any. */
interface Arguments {
  readonly "kong.request.get_headers": [limit: number];
  readonly "kong.request.get_raw_body": [limit: number];
  readonly "kong.service.request.set_headers": [headers: HeaderArguments];
  readonly "kong.service.request.clear_header": [name: string];
  readonly "kong.service.request.set_method": [method: string];
  readonly "kong.service.request.set_path": [path: string];
  readonly "kong.service.request.set_raw_query": [query: string];
  readonly "kong.service.request.set_raw_body": [body: Uint8Array];
  readonly "kong.response.get_headers": [limit: number];
  readonly "kong.response.clear_header": [name: string];
  readonly "kong.ctx.shared.get": [key: string];
  readonly "kong.ctx.shared.set": [key: string, value: string];
  readonly "kong.vault.get": [reference: string];
  readonly "kong.log.warn": [text: string];
  readonly "kong.log.err": [text: string];
}

/** Makes a typed PDK from a function that sends one call to Kong. */
export function createPdk(send: (name: string, args: readonly unknown[]) => Promise<unknown>): PdkCall {
  return (name, ...args) => send(name, args).then((value) => read(name, value));
}

function read<Name extends PdkName>(name: Name, value: unknown): PdkResult<Name> {
  try {
    // The reader of this name returns the result of this name.
    return readers[name](value) as PdkResult<Name>;
  } catch (error) {
    throw new Error(`${name} returned ${typeName(value)}, which Kong 3 never does`, { cause: error });
  }
}

function text(value: unknown): string {
  if (typeof value === "string") return value;
  // Kong sends text as strings and bodies as binary today; this accepts both.
  if (value instanceof Uint8Array) return viewOf(value).toString("utf8");
  throw new TypeError("text expected");
}

function optionalText(value: unknown): string | undefined {
  return value === undefined || value === null ? undefined : text(value);
}

function number(value: unknown): number {
  const found = typeof value === "string" ? Number(value) : value;
  if (typeof found === "number" && Number.isFinite(found)) return found;
  throw new TypeError("number expected");
}

function bytes(value: unknown): Buffer {
  if (value instanceof Uint8Array) return viewOf(value);
  if (typeof value === "string") return Buffer.from(value);
  throw new TypeError("bytes expected");
}

function headerMap(value: unknown): KongHeaders {
  // An empty Lua table arrives as an empty array.
  if (Array.isArray(value) && value.length === 0) return {};
  if (isMap(value)) return value;
  throw new TypeError("map expected");
}

function nothing(): void {}

function viewOf(value: Uint8Array): Buffer {
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

function typeName(value: unknown): string {
  if (value === undefined || value === null) return "nothing";
  if (Array.isArray(value)) return "a list";
  return value instanceof Uint8Array ? "bytes" : `a value of type ${typeof value}`;
}
