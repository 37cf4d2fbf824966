import * as z from "zod";

import { defineEventStream } from "../endpoint.ts";
import { conditionOf, filterField } from "../filter-query.ts";
import type { FollowListener } from "../queries/shared-following.ts";
import { nothing } from "../schemas.ts";
import { exchangeSchema } from "../traffic-schemas.ts";

/** `GET /live`: exchanges as they begin and change. */
export const liveTraffic = defineEventStream({
  method: "GET",
  path: "/live",
  name: "followTraffic",
  summary:
    "Exchanges from now on, each when it begins and again when it changes. A slow reader gets the number of exchanges that it missed.",
  right: "view",
  pathSchema: nothing,
  query: z.strictObject({ filter: filterField }),
  events: {
    ready: z.strictObject({}),
    exchanges: z.strictObject({ exchanges: z.array(exchangeSchema) }),
    omitted: z.strictObject({ count: z.number() }),
  },
  handle: async ({ query, caller, signal }, { queries, clock }, sink) => {
    let omitted = 0;
    let isBehind = false;
    let isReady = false;

    const follower: FollowListener = {
      onBatch: ({ count, json }) => {
        if (!isReady) {
          isReady = true;
          sink.send("ready", {});
        }
        if (count === 0) return;
        if (isBehind) omitted += count;
        else if (!sink.sendJson("exchanges", `{"exchanges":${json}}`)) void catchUp();
      },
      onOmitted: (count) => {
        if (isBehind) omitted += count;
        else sink.send("omitted", { count });
      },
    };

    /** Nothing is queued for a slow reader beyond what the socket holds. */
    async function catchUp(): Promise<void> {
      isBehind = true;
      await sink.drained().catch(() => {});
      isBehind = false;
      if (omitted > 0 && !signal.aborted) sink.send("omitted", { count: omitted });
      omitted = 0;
    }

    await queries.follow(conditionOf(query.filter, clock.wall(), caller), follower, signal);
  },
});
