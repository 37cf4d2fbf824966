import * as z from "zod";

import type { ExchangeRecord } from "../../../recorder/contract.ts";
import { defineEventStream } from "../endpoint.ts";
import { conditionOf, filterField } from "../filter-query.ts";
import { nothing } from "../schemas.ts";
import { exchangeSchema } from "../traffic-schemas.ts";

/** `GET /live`: exchanges as they begin and change. */
export const followTraffic = defineEventStream({
  method: "GET",
  path: "/live",
  name: "followTraffic",
  summary:
    "Exchanges from now on, each when it begins and again when it changes. A slow reader is told what it missed.",
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

    function send(exchanges: readonly ExchangeRecord[]): void {
      if (!isReady) {
        isReady = true;
        sink.send("ready", {});
      }
      if (exchanges.length === 0) return;
      if (isBehind) omitted += exchanges.length;
      else if (!sink.send("exchanges", { exchanges })) void catchUp();
    }

    /** Nothing is queued for a slow reader beyond what the socket holds. */
    async function catchUp(): Promise<void> {
      isBehind = true;
      await sink.drained().catch(() => {});
      isBehind = false;
      if (omitted > 0 && !signal.aborted) sink.send("omitted", { count: omitted });
      omitted = 0;
    }

    await queries.follow(conditionOf(query.filter, clock.wall(), caller), send, signal);
  },
});
