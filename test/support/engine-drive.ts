import type { HttpPolicyEngine, HttpRequestFacts, HttpResponseFacts } from "../../src/policy/sideband/contract.ts";

/** What an upstream got to see. */
export interface UpstreamRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly body: Buffer;
}

/** What a client got, and what went upstream for it. */
export interface Driven {
  readonly status: number;
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly text: string;
  /** Undefined when the upstream was not called. */
  readonly upstream: UpstreamRequest | undefined;
}

/** Takes a request through both phases around an upstream, as a proxy does. */
export async function drive(
  engine: HttpPolicyEngine,
  facts: HttpRequestFacts,
  upstream: (request: UpstreamRequest) => HttpResponseFacts,
): Promise<Driven> {
  const outcome = await engine.evaluateRequest(facts);
  if (outcome.action === "answer") {
    const { status, headers, body } = outcome.answer;
    return { status, headers, text: body.toString(), upstream: undefined };
  }
  const headers = new Map(Object.entries(facts.headers).map(([name, values]) => [name, [values].flat().map(String)]));
  let { method, path, query = "", body } = facts;
  for (const change of outcome.changes) {
    if (change.type === "set-headers") {
      for (const [name, values] of Object.entries(change.headers)) headers.set(name, [...values]);
    } else if (change.type === "clear-header") headers.delete(change.name);
    else if (change.type === "set-method") method = change.method;
    else if (change.type === "set-path") path = change.path;
    else if (change.type === "set-query") query = change.query;
    else body = change.body;
  }
  const sent: UpstreamRequest = { method, path, query, headers: Object.fromEntries(headers), body };
  const response = upstream(sent);
  const kept = new Map(
    Object.entries(response.headers).map(([name, values]) => [name.toLowerCase(), [values].flat().map(String)]),
  );
  const asIs = { status: response.status, headers: Object.fromEntries(kept), text: response.body.toString() };
  if (outcome.store === undefined) return { ...asIs, upstream: sent };
  const result = await engine.evaluateResponse(response, outcome.store);
  if (result.action === "pass") return { ...asIs, upstream: sent };
  for (const name of result.clearHeaders) kept.delete(name);
  for (const [name, values] of Object.entries(result.answer.headers)) kept.set(name, [...values]);
  return {
    status: result.answer.status,
    headers: Object.fromEntries(kept),
    text: result.answer.body.toString(),
    upstream: sent,
  };
}
