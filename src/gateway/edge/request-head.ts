import type { IncomingMessage } from "node:http";

/**
 * Headers that decide and may come once. Node keeps the first and silently drops the others, while servers and proxies
 * before us may read the last; headers of which several are joined fail their own checks.
 */
const singles: readonly string[] = ["host", "content-type", "authorization"];

type RequestHead = Pick<IncomingMessage, "headers" | "httpVersion" | "rawHeaders">;

/** Why the head of a request is malformed or ambiguous (RFC 9112); undefined if it is not. */
export function requestHeadProblem({ headers, httpVersion, rawHeaders }: RequestHead): string | undefined {
  if (httpVersion !== "1.1") {
    // The parser reads 0.9 and 2.0 in a request line, too.
    if (httpVersion !== "1.0") return `HTTP/${httpVersion} is not served here; use HTTP/1.1`;
  } else if (headers.host === undefined) {
    return "the request has no Host header";
  }
  const codings = headers["transfer-encoding"];
  if (codings !== undefined) {
    // RFC 9112 section 6.1: such a message must be treated as if its framing is faulty.
    if (httpVersion === "1.0") return "HTTP/1.0 has no Transfer-Encoding";
    // What another coding hides has not been read.
    if (codings.trim().toLowerCase() !== "chunked") return "the only Transfer-Encoding accepted here is chunked";
  }
  let seen = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? "";
    for (const [index, single] of singles.entries()) {
      if (name.length !== single.length || name.toLowerCase() !== single) continue;
      if ((seen & (1 << index)) !== 0) return `the request has several headers ${name}`;
      seen |= 1 << index;
    }
  }
  return undefined;
}

const absoluteForm = /^https?:\/\/(?<authority>[^/?#@]+)(?<target>[/?].*)?$/iu;

/**
 * Turns a target with scheme and host into the usual form. Its host replaces the Host header (RFC 9112 section 3.2.2), so
 * that everything that is checked is about the host that was asked for.
 */
export function useOriginForm(request: Pick<IncomingMessage, "headers" | "url">): void {
  const { url = "" } = request;
  if (url.startsWith("/")) return;
  const { authority, target = "/" } = absoluteForm.exec(url)?.groups ?? {};
  if (authority === undefined) return;
  request.headers.host = authority;
  request.url = target.startsWith("/") ? target : `/${target}`;
}
