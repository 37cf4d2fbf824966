import { readFigures } from "../../bench/figures.ts";

/** What a set of gateways has to serve. */
export interface ClusterLoad {
  /** Open at a time. */
  readonly sessions: number;
  /** How long a session lives. */
  readonly sessionHours: number;
  readonly callsPerSecond: number;
  /** The part of calls whose server lives in one process (stdio, HTTP+SSE), from 0 to 1. */
  readonly heldPart: number;
  /** Whether the load balancer keeps a client at one gateway. */
  readonly isSticky: boolean;
}

/** Costs as measured. The first three are from `npm run bench -- replicas streams --save`. */
export const measuredCosts = {
  /** Calls a second of one gateway at full load with everything on: a log line, ten rules and recording. */
  callsPerSecond: rounded(figureOf("replicas", "calls of one gateway with everything on"), Math.floor),
  /** What a call costs more that is handed over to another gateway, in such calls. */
  handOverCalls: rounded(
    figureOf("replicas", "call that is handed to another gateway, processor time over a local one at full load"),
    Math.ceil,
  ),
  /** Memory of an idle session with its streams to two servers. */
  sessionBytes: rounded(figureOf("streams", "10000 sessions with a stream each, two servers") * 1000, Math.ceil),
  /** How much of full load is used, to leave room for bursts and for a gateway that restarts. */
  use: 0.7,
  /** Commands of a gateway each second, for its lease and the list of peers. */
  leaseCommands: 4,
  /** Commands when a gateway sees a session of another one for the first time: whether it has ended, and a note that it is here. */
  lookupCommands: 3,
  /** Commands when a session ends. */
  endCommands: 2,
} as const;

/** A figure as it was last saved. */
function figureOf(bench: string, name: string): number {
  const value = readFigures(bench)?.rows.find((row) => row.name === name)?.value ?? undefined;
  if (value === undefined) throw new Error(`bench/figures/${bench}.json has no figure "${name}"; save it with --save`);
  return value;
}

/** Two digits, to the careful side: more are not good for another machine. */
function rounded(value: number, round: (value: number) => number): number {
  const unit = 10 ** (Math.floor(Math.log10(value)) - 1);
  return Number((round(value / unit) * unit).toPrecision(2));
}

/** What the load needs. */
export interface ClusterSize {
  readonly gateways: number;
  /** Calls a second that each takes from clients. */
  readonly callsEach: number;
  /** Part of full load, from 0 to 1 and beyond. */
  readonly load: number;
  readonly handedOverPerSecond: number;
  readonly memoryEach: number;
  readonly storeCommandsPerSecond: number;
}

/** Calls that reach a gateway that is not the owner, behind a round robin. */
export function handedOver(calls: number, gateways: number): number {
  return (calls * (gateways - 1)) / gateways;
}

/** Commands for sessions that are used at so many gateways, and end. */
export function sessionCommands(sessions: number, seenBy: number): number {
  const { lookupCommands, endCommands } = measuredCosts;
  return sessions * ((seenBy - 1) * lookupCommands + endCommands);
}

/** The size that a load needs with so many gateways. */
export function sizeOf(load: ClusterLoad, gateways: number): ClusterSize {
  const { callsPerSecond, sessionBytes, handOverCalls, leaseCommands } = measuredCosts;
  const seenBy = load.isSticky ? 1 : gateways;
  const passedOn = load.isSticky ? 0 : handedOver(load.callsPerSecond * load.heldPart, gateways);
  const sessionsPerSecond = load.sessions / (load.sessionHours * 3600);
  return {
    gateways,
    callsEach: load.callsPerSecond / gateways,
    load: (load.callsPerSecond + passedOn * handOverCalls) / gateways / callsPerSecond,
    handedOverPerSecond: passedOn,
    // Behind a round robin, every gateway has every session.
    memoryEach: (load.sessions * seenBy * sessionBytes) / gateways,
    storeCommandsPerSecond: gateways * leaseCommands + sessionCommands(sessionsPerSecond, seenBy),
  };
}

/** The fewest gateways that a load needs. */
export function fewestGateways(load: ClusterLoad): ClusterSize {
  let gateways = 1;
  while (sizeOf(load, gateways).load > measuredCosts.use) gateways++;
  return sizeOf(load, gateways);
}
