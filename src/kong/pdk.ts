import { isMap } from "./rpc.ts";

/** Calls a function of Kong's plugin development kit (PDK) for the current request. */
export type PdkCall = <Name extends PdkName>(
  name: Name,
  ...args: PdkFunctions[Name]["args"]
) => Promise<PdkFunctions[Name]["result"]>;

/** Answers the client and ends the phase; Kong ignores the event after it. */
export const exitFunction = "kong.response.exit";

/** The PDK functions in use, with their arguments and results. */
interface PdkFunctions {
  readonly "kong.client.get_ip": PdkFunction<[], string>;
  readonly "kong.client.get_port": PdkFunction<[], number>;
  /** PEM, the client's own certificate first; undefined without TLS or certificate (PA-096). */
  readonly "kong.client.tls.get_full_client_certificate_chain": PdkFunction<[], string | undefined>;
  readonly "kong.request.get_method": PdkFunction<[], string>;
  readonly "kong.request.get_forwarded_scheme": PdkFunction<[], string>;
  readonly "kong.request.get_forwarded_host": PdkFunction<[], string>;
  readonly "kong.request.get_forwarded_port": PdkFunction<[], number>;
  /** Percent-decoded except for reserved characters. */
  readonly "kong.request.get_forwarded_path": PdkFunction<[], string>;
  readonly "kong.request.get_raw_query": PdkFunction<[], string>;
  readonly "kong.request.get_http_version": PdkFunction<[], number>;
  readonly "kong.request.get_headers": PdkFunction<[limit: number], KongHeaders>;
  readonly "kong.request.get_raw_body": PdkFunction<[limit: number], Buffer>;
  readonly "kong.service.request.set_headers": PdkFunction<[headers: HeaderArguments], void>;
  readonly "kong.service.request.clear_header": PdkFunction<[name: string], void>;
  readonly "kong.service.request.set_method": PdkFunction<[method: string], void>;
  readonly "kong.service.request.set_path": PdkFunction<[path: string], void>;
  readonly "kong.service.request.set_raw_query": PdkFunction<[query: string], void>;
  readonly "kong.service.request.set_raw_body": PdkFunction<[body: Uint8Array], void>;
  readonly "kong.response.get_status": PdkFunction<[], number>;
  /** In the response phase these are the upstream's; `kong.service.response.get_headers` arrives empty (PX-05). */
  readonly "kong.response.get_headers": PdkFunction<[limit: number], KongHeaders>;
  readonly "kong.response.clear_header": PdkFunction<[name: string], void>;
  readonly "kong.service.response.get_raw_body": PdkFunction<[], Buffer>;
  readonly "kong.ctx.shared.get": PdkFunction<[key: string], string | undefined>;
  readonly "kong.ctx.shared.set": PdkFunction<[key: string, value: string], void>;
  readonly "kong.vault.get": PdkFunction<[reference: string], string | undefined>;
  readonly "kong.log.warn": PdkFunction<[text: string], void>;
  readonly "kong.log.err": PdkFunction<[text: string], void>;
}

interface PdkFunction<Args extends readonly unknown[], Result> {
  readonly args: Args;
  readonly result: Result;
}

type PdkName = keyof PdkFunctions;

/** Header values by lower-case name; the policy engine validates them (PA-039). */
export type KongHeaders = Readonly<Record<string, unknown>>;

/** Headers to set; lists become several lines. */
export type HeaderArguments = Readonly<Record<string, string | readonly string[]>>;

type Readers = { readonly [Name in PdkName]: (value: unknown) => PdkFunctions[Name]["result"] };

const readers: Readers = {
  "kong.client.get_ip": text,
  "kong.client.get_port": number,
  "kong.client.tls.get_full_client_certificate_chain": optionalText,
  "kong.request.get_method": text,
  "kong.request.get_forwarded_scheme": text,
  "kong.request.get_forwarded_host": text,
  "kong.request.get_forwarded_port": number,
  "kong.request.get_forwarded_path": text,
  "kong.request.get_raw_query": text,
  "kong.request.get_http_version": number,
  "kong.request.get_headers": headerMap,
  "kong.request.get_raw_body": bytes,
  "kong.service.request.set_headers": nothing,
  "kong.service.request.clear_header": nothing,
  "kong.service.request.set_method": nothing,
  "kong.service.request.set_path": nothing,
  "kong.service.request.set_raw_query": nothing,
  "kong.service.request.set_raw_body": nothing,
  "kong.response.get_status": number,
  "kong.response.get_headers": headerMap,
  "kong.response.clear_header": nothing,
  "kong.service.response.get_raw_body": bytes,
  "kong.ctx.shared.get": optionalText,
  "kong.ctx.shared.set": nothing,
  "kong.vault.get": optionalText,
  "kong.log.warn": nothing,
  "kong.log.err": nothing,
};

/** Makes a typed PDK from a function that sends one call to Kong. */
export function createPdk(send: (name: string, args: readonly unknown[]) => Promise<unknown>): PdkCall {
  return (name, ...args) => send(name, args).then((value) => read(name, value));
}

function read<Name extends PdkName>(name: Name, value: unknown): PdkFunctions[Name]["result"] {
  try {
    return readers[name](value);
  } catch (error) {
    throw new Error(`${name} returned ${typeName(value)}, which Kong 3 never does`, {
      cause: error,
    });
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
