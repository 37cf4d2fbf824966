/** The parsed base URL of a decision point. */
export interface ServiceUrl {
  readonly isHttps: boolean;
  /** As written in the URL: an IPv6 address has brackets. */
  readonly host: string;
  readonly port: number;
  /** Without a trailing slash; empty if the URL has no path. */
  readonly basePath: string;
  /** Without credentials, for logs and spans. */
  readonly shown: string;
}

const endpointPath = /\/sideband(?:\/request|\/response)?\/?$/iu;

/** What is wrong with a `service_url`, as a predicate for an error message (PA-010, PA-011). */
export function serviceUrlProblem(text: string): string | undefined {
  if (!/^https?:\/\//iu.test(text)) return "must begin with http:// or https://";
  if (!URL.canParse(text)) return "is not a URL with a host";
  const { pathname, search, hash } = new URL(text);
  if (endpointPath.test(pathname)) {
    return "must not end in /sideband, /sideband/request or /sideband/response: these are added to it";
  }
  return search === "" && hash === "" ? undefined : "must have neither a query nor a fragment";
}

/** Parses a checked URL, with the default port of its scheme (PA-056). */
export function parseServiceUrl(text: string): ServiceUrl {
  const url = new URL(text);
  const isHttps = url.protocol === "https:";
  const basePath = url.pathname.replace(/\/+$/u, "");
  return {
    isHttps,
    host: url.hostname,
    port: url.port === "" ? (isHttps ? 443 : 80) : Number(url.port),
    basePath,
    shown: `${url.protocol}//${url.host}${basePath}`,
  };
}

/** The path of an endpoint, with exactly one slash at the join (PA-054). */
export function endpointPathOf(service: ServiceUrl, endpoint: "request" | "response"): string {
  return `${service.basePath}/sideband/${endpoint}`;
}
