import type { HttpClientRequest } from "./http.ts";

/** What the gateway adds to a question to an authorization server to say who it is (RFC 6749 section 2.3). */
export interface ClientAuthentication {
  readonly headers: Readonly<Record<string, string>>;
  readonly fields: NonNullable<HttpClientRequest["form"]>;
}

/** The gateway as a client that an authorization server knows. */
export interface ClientIdentity {
  readonly clientId: string;
  readonly clientSecret?: string | undefined;
  /** How the secret is shown: in the Authorization header, or in the form. */
  readonly method: "basic" | "post";
}

/** Makes what goes with every question. Without a secret only the id is told. */
export function createClientAuthentication(identity: ClientIdentity): ClientAuthentication {
  const { clientId, clientSecret, method } = identity;
  if (clientSecret === undefined) return { headers: {}, fields: [["client_id", clientId]] };
  if (method === "post") {
    return {
      headers: {},
      fields: [
        ["client_id", clientId],
        ["client_secret", clientSecret],
      ],
    };
  }
  // RFC 6749 section 2.3.1: both are form-encoded before they are joined.
  const pair = `${formEncoded(clientId)}:${formEncoded(clientSecret)}`;
  return { headers: { authorization: `Basic ${Buffer.from(pair).toString("base64")}` }, fields: [] };
}

function formEncoded(text: string): string {
  return new URLSearchParams([["", text]]).toString().slice(1);
}
