import type { Endpoint } from "../endpoint.ts";
import { decideHold, followHolds, listHolds } from "./holds.ts";
import { followTraffic } from "./live.ts";
import { aboutGateway, signInByTicket, signOut } from "./session.ts";
import { explainExchange, getExchange, getFigures, listExchanges, listSessions } from "./traffic.ts";

/** Every path of the admin API. */
export const endpoints: readonly Endpoint[] = [
  signInByTicket,
  signOut,
  aboutGateway,
  listExchanges,
  getExchange,
  explainExchange,
  listSessions,
  getFigures,
  followTraffic,
  listHolds,
  followHolds,
  decideHold,
];
