import { GatewayError } from "../../errors.ts";
import type { HttpUpstream } from "./client.ts";
import { heldCredentials, requestHeaders } from "./headers.ts";
import type { LinkState } from "./headers.ts";
import { ResponseReader } from "./response.ts";

/** How long the upstream has to take note that a session has ended. */
const goodbyeMs = 2000;

/** Asks the upstream to forget the session; it may refuse (405) or be gone, which is all the same now. */
export async function sayGoodbye(upstream: HttpUpstream, state: LinkState): Promise<void> {
  const { origin, path, calls, setTimer, limits } = upstream;
  const own = await heldCredentials(upstream, state);
  const headers = requestHeaders(upstream, state, undefined, own);
  return new Promise((resolve) => {
    const done = () => {
      stop();
      resolve();
    };
    const reader = new ResponseReader(
      { started: () => {}, event: () => {}, ended: done, failed: done },
      limits.maxBytes,
    );
    const stop = setTimer(goodbyeMs, () => {
      reader.abort(
        new GatewayError("upstream_timeout", "the upstream did not confirm the end of the session"),
      );
      resolve();
    });
    calls.dispatch({ origin, path, method: "DELETE", headers }, reader);
  });
}
