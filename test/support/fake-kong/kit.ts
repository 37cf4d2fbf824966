import { emptyMap, LuaBinary } from "./lua-pack.ts";
import type { RequestContext } from "./request.ts";
import type { KongBehaviour } from "./version.ts";

/** What a Lua error inside of Kong does: the coroutine ends, and the plugin server hears nothing more. */
export class LuaError extends Error {
  override readonly name = "LuaError";
}

/** `kong.response.exit`: the phase ends here. */
export class Exit extends Error {
  override readonly name = "Exit";
  readonly status: number;
  readonly body: Buffer | undefined;
  readonly headers: Map<string, readonly string[]>;

  constructor(status: number, body: Buffer | undefined, headers: Map<string, readonly string[]>) {
    super(`exit ${status}`);
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

/** What the kit knows besides the request. */
export interface KitSurroundings {
  /** Bodies over this size are on disk, where nginx puts them. */
  readonly bodyBufferBytes: number;
  readonly vault: ReadonlyMap<string, string>;
  readonly behaviour: KongBehaviour;
}

type KitFunction = (context: RequestContext, args: readonly unknown[], surroundings: KitSurroundings) => unknown;

const knownMethods = new Set(
  "GET HEAD PUT POST DELETE OPTIONS MKCOL COPY MOVE PROPFIND PROPPATCH LOCK UNLOCK PATCH TRACE".split(" "),
);

/** Calls a function of the kit as Kong does; the result is ready to be packed. */
export function callKit(
  context: RequestContext,
  name: string,
  args: readonly unknown[],
  surroundings: KitSurroundings,
): unknown {
  context.calls.push({ phase: context.phase, name, args });
  const log = /^kong\.log\.(?<level>\w+)$/u.exec(name)?.groups?.["level"];
  if (log !== undefined) {
    context.log.push({ level: log, text: args.map(String).join("") });
    return undefined;
  }
  const kitFunction = kit[name];
  if (kitFunction === undefined) {
    // Kong only says so in its log and goes on with nothing.
    context.log.push({ level: "err", text: `could not find pdk method: ${name}` });
    return undefined;
  }
  // unpack() ends at the first hole: what stands behind a nil is lost.
  const hole = args.findIndex((arg) => arg === null || arg === undefined);
  return kitFunction(context, hole === -1 ? args : args.slice(0, hole), surroundings);
}

const kit: Readonly<Record<string, KitFunction>> = {
  "kong.client.get_ip": ({ client }) => client.ip,
  "kong.client.get_port": ({ client }) => client.clientPort,
  "kong.client.tls.get_full_client_certificate_chain": ({ client }) => client.certificate,
  "kong.request.get_method": ({ client }) => client.method,
  "kong.request.get_forwarded_scheme": ({ client }) => client.scheme,
  "kong.request.get_forwarded_host": ({ client }) => client.host,
  "kong.request.get_forwarded_port": ({ client }) => client.port,
  "kong.request.get_forwarded_path": ({ client }) => client.path,
  "kong.request.get_raw_query": ({ client }) => client.query,
  "kong.request.get_http_version": ({ client }) => client.httpVersion,
  "kong.request.get_headers": ({ client }, [limit]) => headerMap(client.headers, limit),
  "kong.request.get_raw_body": ({ client, phase }, [limit], { bodyBufferBytes, behaviour }) => {
    if (phase !== "access") throw new LuaError("function cannot be called in this phase");
    const { body } = client;
    if (body.length <= bodyBufferBytes) return new LuaBinary(body);
    // The bridge packs the answer as binary without looking: a nil there is an error in Lua.
    if (!behaviour.readsBodiesOnDisk || typeof limit !== "number" || limit < 0)
      throw new LuaError("attempt to get length of a nil value");
    if (limit > 0 && body.length > limit) throw new LuaError("attempt to get length of a nil value");
    return new LuaBinary(body);
  },
  "kong.service.request.enable_buffering": ({ client, phase }, _args, { behaviour }) => {
    requirePhase(phase, "access");
    if (client.httpVersion >= 2 && !behaviour.buffersHttp2) {
      throw new LuaError(`buffered proxying cannot currently be enabled with http/${client.httpVersion}`);
    }
  },
  "kong.service.request.set_headers": ({ upstream, phase }, [headers]) => {
    requirePhase(phase, "access");
    for (const [name, value] of Object.entries(tableOf(headers))) {
      if (name.toLowerCase() === "host" && typeof value !== "string") {
        throw new LuaError("bad argument #2 to '__newindex' (string expected, got table)");
      }
      upstream.headers.set(name.toLowerCase(), valuesOf(value));
    }
  },
  "kong.service.request.clear_header": ({ upstream, phase }, [name]) => {
    requirePhase(phase, "access");
    upstream.headers.delete(textOf(name).toLowerCase());
  },
  "kong.service.request.set_method": ({ upstream, phase }, [method]) => {
    requirePhase(phase, "access");
    if (!knownMethods.has(textOf(method))) throw new LuaError(`invalid method: ${textOf(method)}`);
    upstream.method = textOf(method);
  },
  "kong.service.request.set_path": ({ upstream, phase }, [path]) => {
    requirePhase(phase, "access");
    if (!textOf(path).startsWith("/")) throw new LuaError("path must start with /");
    upstream.path = escaped(textOf(path));
  },
  "kong.service.request.set_raw_query": ({ upstream, phase }, [query]) => {
    requirePhase(phase, "access");
    upstream.query = textOf(query);
  },
  "kong.service.request.set_raw_body": ({ upstream, phase }, [body]) => {
    requirePhase(phase, "access");
    upstream.body = bytesOf(body);
    upstream.headers.set("content-length", [String(upstream.body.length)]);
  },
  "kong.response.get_status": (context) => responseOf(context).status,
  "kong.response.get_headers": (context, [limit]) => headerMap(responseOf(context).headers, limit),
  // Something that cannot be walked through: it arrives as nothing.
  "kong.service.response.get_headers": () => emptyMap,
  "kong.service.response.get_raw_body": (context) => new LuaBinary(responseOf(context).body),
  "kong.response.clear_header": (context, [name]) => {
    responseOf(context).headers.delete(textOf(name).toLowerCase());
  },
  "kong.response.exit": (_context, [status, body, headers]) => {
    if (typeof status !== "number" || status < 100 || status > 599) {
      throw new LuaError("code must be a number between 100 and 599");
    }
    const lists = new Map(
      Object.entries(headers === undefined ? {} : tableOf(headers)).map(([name, value]) => [
        name.toLowerCase(),
        valuesOf(value),
      ]),
    );
    throw new Exit(status, body === undefined ? undefined : bytesOf(body), lists);
  },
  "kong.ctx.shared.get": ({ shared }, [key]) => shared.get(textOf(key)),
  "kong.ctx.shared.set": ({ shared }, [key, value]) => {
    shared.set(textOf(key), value);
  },
  "kong.vault.get": (_context, [reference], { vault }) => vault.get(textOf(reference)),
};

/** Names in lower case, values always lists, no more than asked for. */
function headerMap(headers: ReadonlyMap<string, readonly string[]>, limit: unknown): unknown {
  const most = limit === undefined ? 100 : limit;
  if (typeof most !== "number" || most < 1 || most > 1000) {
    throw new LuaError("max_headers must be >= 1 and <= 1000");
  }
  // As in Lua, where every name is one like any other.
  const map = Object.create(null) as Record<string, string[]>;
  let count = 0;
  for (const [name, values] of headers) {
    for (const value of values) {
      if (count === most) return map;
      count += 1;
      map[name] = [...(map[name] ?? []), value];
    }
  }
  return count === 0 ? emptyMap : map;
}

function requirePhase(phase: string, wanted: string): void {
  if (phase !== wanted) throw new LuaError(`function cannot be called in ${phase} phase`);
}

function responseOf({ response }: RequestContext): NonNullable<RequestContext["response"]> {
  if (response === undefined) throw new LuaError("function cannot be called in access phase");
  return response;
}

/** What Kong's escape() does before the path goes to nginx. */
function escaped(path: string): string {
  return [...Buffer.from(path)]
    .map((byte) => {
      const character = String.fromCodePoint(byte);
      return /[!#$&'()*+,/:;=?@[\]A-Za-z\d\-_.~%]/u.test(character) && byte < 0x80
        ? character
        : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
    })
    .join("");
}

function tableOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) throw new LuaError("headers must be a table");
  return { ...value };
}

function valuesOf(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.map(textOf);
  return [textOf(value)];
}

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString("utf8");
  throw new LuaError("string expected");
}

function bytesOf(value: unknown): Buffer {
  return value instanceof Uint8Array ? Buffer.from(value) : Buffer.from(textOf(value));
}
