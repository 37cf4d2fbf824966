/** Header values by lower-case name. */
export type HeaderLists = Readonly<Record<string, readonly string[]>>;

/** What a client sends to Kong. What is left out has a plain value. */
export interface ClientRequest {
  readonly method?: string;
  readonly scheme?: string;
  readonly host?: string;
  readonly port?: number;
  /** As Kong's kit gives it: percent-decoded but for reserved characters. */
  readonly path?: string;
  /** Raw, without `?`. */
  readonly query?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | Buffer;
  readonly httpVersion?: number;
  readonly ip?: string;
  readonly clientPort?: number;
  /** PEM chain, where the client showed a certificate. */
  readonly certificate?: string;
}

/** What the upstream gets. */
export interface UpstreamRequest {
  method: string;
  path: string;
  query: string;
  headers: Map<string, readonly string[]>;
  body: Buffer;
}

/** What the upstream answers. */
export interface UpstreamResponse {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | Buffer;
}

/** What the client gets. */
export interface ClientResponse {
  readonly status: number;
  readonly headers: HeaderLists;
  readonly body: Buffer;
  /** Who made it, as `kong.response.get_source` says. */
  readonly source: "service" | "exit" | "error";
}

/** One line of Kong's log. */
export interface KongLogLine {
  readonly level: string;
  readonly text: string;
}

/** Kong's side of one request, from phase to phase. */
export interface RequestContext {
  readonly client: Required<Omit<ClientRequest, "certificate" | "headers" | "body">> & {
    readonly certificate: string | undefined;
    readonly headers: Map<string, readonly string[]>;
    readonly body: Buffer;
  };
  readonly upstream: UpstreamRequest;
  /** The upstream's response, once there is one. */
  response: { status: number; headers: Map<string, readonly string[]>; body: Buffer } | undefined;
  /** `kong.ctx.shared`. */
  readonly shared: Map<string, unknown>;
  phase: "access" | "response" | "header_filter";
  /** Functions of the kit that were called, by phase. */
  readonly calls: { readonly phase: string; readonly name: string; readonly args: readonly unknown[] }[];
  readonly log: KongLogLine[];
}

/** Begins a request. */
export function createContext(request: ClientRequest): RequestContext {
  const { host = "api.example.com", port = 443, path = "/", method = "GET", query = "" } = request;
  const body = Buffer.from(request.body ?? "");
  const headers = listsOf({
    host,
    ...(body.length > 0 ? { "content-length": String(body.length) } : {}),
    ...request.headers,
  });
  return {
    client: {
      method,
      scheme: request.scheme ?? "https",
      host,
      port,
      path,
      query,
      httpVersion: request.httpVersion ?? 1.1,
      ip: request.ip ?? "192.0.2.7",
      clientPort: request.clientPort ?? 54_321,
      certificate: request.certificate,
      headers,
      body,
    },
    upstream: { method, path, query, headers: new Map(headers), body },
    response: undefined,
    shared: new Map(),
    phase: "access",
    calls: [],
    log: [],
  };
}

/** Headers as lists with lower-case names. */
export function listsOf(headers: Readonly<Record<string, string | readonly string[]>>): Map<string, readonly string[]> {
  return new Map(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), typeof value === "string" ? [value] : value]),
  );
}
