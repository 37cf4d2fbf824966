import type { Endpoint } from "../endpoint.ts";
import { decideHold, followHolds, listHolds } from "./holds.ts";
import { approveDrift, listDrift } from "./drift.ts";
import { liveTraffic } from "./live.ts";
import { answerCall, cancelCall, followCall, getOffers, startPlay } from "./playground.ts";
import { explainPolicy, getPolicy, getReplay, startReplay } from "./policy.ts";
import { aboutGateway, getSession, signInByTicket, signOut } from "./session.ts";
import {
  explainExchange,
  getExchange,
  getFigures,
  getTopology,
  listExchanges,
  listTurns,
  recentSessions,
} from "./traffic.ts";

/** Every path of the admin API. */
export const endpoints: readonly Endpoint[] = [
  getSession,
  signInByTicket,
  signOut,
  aboutGateway,
  listExchanges,
  getExchange,
  explainExchange,
  recentSessions,
  listTurns,
  getFigures,
  getTopology,
  liveTraffic,
  listHolds,
  followHolds,
  decideHold,
  getPolicy,
  explainPolicy,
  startReplay,
  getReplay,
  listDrift,
  approveDrift,
  getOffers,
  startPlay,
  followCall,
  answerCall,
  cancelCall,
];
