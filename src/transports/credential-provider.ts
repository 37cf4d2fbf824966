import { GatewayError } from "../errors.ts";
import type { Principal } from "../core/exchange.ts";

/** Headers by lower-case name. */
type Headers = Readonly<Record<string, string>>;

/** Provides the credentials that the gateway sends to an upstream. */
export interface CredentialProvider {
  /** Returns cached credentials directly; rejects with a GatewayError if none can be obtained. */
  headersFor(principal: Principal): Headers | Promise<Headers>;
  /** The upstream rejected these with 401. Returns whether newer ones may be obtained. */
  invalidate(principal: Principal, headers: Headers): boolean;
}

/**
 * Sends a request with credentials. A 401 means that it was not carried out, so it is sent once more if newer credentials
 * can be obtained; a second 401 is reported.
 */
export async function sendWithCredentials<Result>(
  credentials: CredentialProvider,
  principal: Principal,
  send: (headers: Headers) => Promise<Result>,
): Promise<Result> {
  const headers = await credentials.headersFor(principal);
  try {
    return await send(headers);
  } catch (error) {
    if (!isUnauthorized(error) || !credentials.invalidate(principal, headers)) throw error;
    return send(await credentials.headersFor(principal));
  }
}

function isUnauthorized(error: unknown): boolean {
  return error instanceof GatewayError && error.details?.["upstreamStatus"] === 401;
}
