import type { CredentialHeaders, CredentialProvider } from "../core/credentials.ts";
import type { Principal } from "../core/exchange.ts";
import { GatewayError } from "../errors.ts";

/**
 * Sends a request with credentials. A 401 means that it was not carried out, so it is sent once more if newer credentials
 * can be obtained; a second 401 is reported.
 */
export async function sendWithCredentials<Result>(
  credentials: CredentialProvider,
  principal: Principal,
  send: (headers: CredentialHeaders) => Promise<Result>,
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
