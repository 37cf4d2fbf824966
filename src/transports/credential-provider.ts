import { GatewayError } from "../errors.ts";
import type { Principal } from "../core/exchange.ts";

/** Headers by lower-case name. */
type Headers = Readonly<Record<string, string>>;

/** What the gateway shows to an upstream with every request; obtained elsewhere and handed in. */
export interface CredentialProvider {
  /** At once where they are known; rejects with a GatewayError where there are none to be had. */
  headersFor(principal: Principal): Headers | Promise<Headers>;
  /** The upstream answered 401 to these. Answers whether asking again may give better ones. */
  invalidate(principal: Principal, headers: Headers): boolean;
}

/**
 * Sends a request with credentials. One that is answered 401 was not carried out, so it is sent once more where other
 * credentials can be had; a second 401 is reported as what it is, a failure between the gateway and the upstream.
 */
export async function sendWithCredentials<Answer>(
  credentials: CredentialProvider,
  principal: Principal,
  send: (headers: Headers) => Promise<Answer>,
): Promise<Answer> {
  const first = credentials.headersFor(principal);
  const headers = first instanceof Promise ? await first : first;
  try {
    return await send(headers);
  } catch (error) {
    if (!isRefusal(error) || !credentials.invalidate(principal, headers)) throw error;
    return send(await credentials.headersFor(principal));
  }
}

function isRefusal(error: unknown): boolean {
  return error instanceof GatewayError && error.details?.["upstreamStatus"] === 401;
}
