import { GatewayError } from "../../errors.ts";
import type { HttpEndpoint } from "./link.ts";
import { type HttpSessionState, requestHeaders, sessionCredentials } from "./request-headers.ts";
import { ResponseReader } from "./response.ts";

/** How long the upstream has to take note that a session has ended. */
const deleteTimeoutMs = 2000;

/** Asks the upstream to forget the session; it may refuse (405) or be gone, which is all the same now. */
export async function deleteSession(upstream: HttpEndpoint, state: HttpSessionState): Promise<void> {
  const { origin, path, requestPool: calls, setTimer, limits } = upstream;
  const own = await sessionCredentials(upstream, state);
  const headers = requestHeaders(upstream, state, undefined, own);
  return new Promise((resolve) => {
    const done = () => {
      stop();
      resolve();
    };
    const reader = new ResponseReader(
      { onHeaders: () => {}, onEvent: () => {}, onEnd: done, onError: done },
      limits.maxBytes,
    );
    const stop = setTimer(deleteTimeoutMs, () => {
      reader.abort(new GatewayError("upstream_timeout", "the upstream did not confirm the end of the session"));
      resolve();
    });
    calls.dispatch({ origin, path, method: "DELETE", headers }, reader);
  });
}
