import { hash } from "node:crypto";

import { type Clock, limitKeyOf } from "../../../core/exchange.ts";
import type { Guard } from "../../../core/pipeline.ts";
import { GatewayError } from "../../../errors.ts";
import { FairMap } from "../../../lib/bounded-map.ts";
import { slotOf } from "../../../protocol/json/outline.ts";
import { memberString } from "../../../protocol/json/read.ts";

/** How long a server is likely to accept a state. */
const keptMs = 24 * 60 * 60_000;
const maxKept = 100_000;

const givenSlot = slotOf("params.requestState");
const issuedSlot = slotOf("result.requestState");

/**
 * Creates the guard that binds the `requestState` of servers to the principal that got it (MCP 2026-07-28, Multi Round-Trip
 * Requests: servers must not let another user continue with it). A server cannot do this behind the gateway, where all
 * callers may look the same. States that are not known here, such as those of another process, are the server's to judge, as are
 * those that it gave to several principals.
 */
export function createStateOwners({ wall }: Pick<Clock, "wall">): Guard {
  const owners = new FairMap<{ readonly id: string | undefined; readonly until: number }>(maxKept);
  return {
    enter: ({ direction, message, principal }) => {
      if (direction !== "client-to-server" || (message.outline.spans[givenSlot] ?? -1) < 0) return undefined;
      const owner = owners.get(keyOf(memberString(message, "params.requestState") ?? ""));
      if (owner?.id === undefined || owner.id === principal.id || wall() >= owner.until) return undefined;
      const problem = "requestState was not issued for this request or was altered; send the request again without it";
      return new GatewayError("invalid_params", problem, { details: { requestState: "broken" } });
    },
    answered: ({ direction, principal }, reply) => {
      const { message } = reply;
      if (direction !== "client-to-server" || message?.kind !== "result") return reply;
      if ((message.outline.spans[issuedSlot] ?? -1) < 0) return reply;
      const key = keyOf(memberString(message, "result.requestState") ?? "");
      const before = owners.get(key);
      const isShared = before !== undefined && before.id !== principal.id && wall() < before.until;
      owners.set(limitKeyOf(principal), key, { id: isShared ? undefined : principal.id, until: wall() + keptMs });
      return reply;
    },
    failed: () => {},
  };
}

function keyOf(state: string): string {
  return hash("sha256", state, "base64url");
}
