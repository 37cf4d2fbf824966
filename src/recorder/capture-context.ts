import type { Exchange } from "../exchange.ts";
import type { Redactor } from "../redact/redactor.ts";
import { traceOf } from "../telemetry/trace-context.ts";
import type { FrameContext } from "./contract.ts";

/** What is known of an exchange, and how many values were redacted in it. */
export interface CapturedContext {
  readonly context: FrameContext;
  readonly count: number;
}

/** Tells what is known of an exchange; what was secret in its message is taken out of its headers too. */
export type ContextBuilder = (exchange: Exchange, secrets: readonly string[]) => CapturedContext;

const maxCachedContexts = 500;

/** What a context is made of. */
type ContextOrigin = Pick<Exchange, "route" | "principal" | "session" | "revision" | "transport">;

/** The last context of a session or principal, and of what it was made. */
interface CachedContext {
  readonly origin: ContextOrigin;
  readonly captured: CapturedContext;
}

/**
 * Makes the contexts of a capture. Most messages of a client come with the same headers: what was made of them once is
 * taken again, and being the same object it is also written only once.
 */
export function createContextBuilder(redactor: Redactor): ContextBuilder {
  const known = new Map<string, CachedContext>();

  return (exchange, secrets) => {
    const traceId = traceOf(exchange)?.traceId;
    if (secrets.length > 0 || traceId !== undefined || exchange.parent !== undefined)
      return buildContext(exchange, redactor, secrets, traceId);
    const key = exchange.session?.id ?? exchange.principal.id;
    const last = known.get(key);
    if (last !== undefined && isSameOrigin(last.origin, exchange)) return last.captured;
    const captured = buildContext(exchange, redactor, secrets, undefined);
    if (known.size >= maxCachedContexts) known.clear();
    const { route, principal, session, revision, transport } = exchange;
    known.set(key, { origin: { route, principal, session, revision, transport }, captured });
    return captured;
  };
}

/** Whether two exchanges agree in everything that a context is made of. */
function isSameOrigin(one: ContextOrigin, other: ContextOrigin): boolean {
  if (
    one.route !== other.route ||
    one.principal.id !== other.principal.id ||
    one.session?.id !== other.session?.id ||
    one.revision !== other.revision
  )
    return false;
  const { transport } = other;
  if (one.transport.type !== "http" || transport.type !== "http")
    return one.transport.type === transport.type;
  const { method, path, peer, headers } = one.transport;
  return (
    method === transport.method &&
    path === transport.path &&
    peer === transport.peer &&
    includesHeaders(headers, transport.headers) &&
    includesHeaders(transport.headers, headers)
  );
}

function includesHeaders(
  headers: Readonly<Record<string, string>>,
  others: Readonly<Record<string, string>>,
): boolean {
  for (const name in headers) if (headers[name] !== others[name]) return false;
  return true;
}

function buildContext(
  exchange: Exchange,
  redactor: Redactor,
  secrets: readonly string[],
  traceId: string | undefined,
): CapturedContext {
  const { route, principal, session, revision, transport, parent } = exchange;
  const common = {
    route,
    principal: principal.id,
    ...(session === undefined ? undefined : { session: session.id.slice(0, 8) }),
    revision,
    transport: transport.type,
    ...(parent === undefined ? undefined : { parent: parent.id }),
    ...(traceId === undefined ? undefined : { traceId }),
  };
  if (transport.type !== "http") return { context: common, count: 0 };
  const path = redactor.text(transport.path);
  const { headers, count } = redactor.headers(transport.headers, secrets);
  const { method, peer } = transport;
  const http = { method, path: path.text, ...(peer === undefined ? undefined : { peer }), headers };
  return { context: { ...common, http }, count: path.count + count };
}
