/** What a post needs to know of its session. */
export interface Submission {
  readonly baseUrl: string;
  readonly sessionId: string;
  readonly token: string | undefined;
  /** Whether cookies of the page go along. */
  readonly withCredentials?: boolean;
}

/** Posts a JSON-RPC message, with the session in header and query; rejects where it was not accepted. */
export async function post(
  { baseUrl, sessionId, token, withCredentials = false }: Submission,
  message: unknown,
): Promise<void> {
  const url = new URL(`${baseUrl}/rpc`);
  url.searchParams.set("sessionId", sessionId);
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-mcp-session": sessionId,
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    ...(withCredentials ? { credentials: "include" as const } : {}),
    body: JSON.stringify(message),
  });
  if (response.status !== 202) throw new Error(`not accepted: ${response.status} ${await response.text()}`);
}
