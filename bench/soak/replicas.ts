import type { ConfigInput } from "../../src/config/schema.ts";
import { sleep } from "../../src/lib/timeout.ts";
import { systemTimer } from "../../src/lib/clock.ts";
import { type LegacySession, openSession, toolCall } from "../../test/support/legacy-session.ts";
import { legacyUpstream } from "../../test/support/legacy-upstream.ts";
import { startRedis } from "../../test/support/redis.ts";
import { replicaConfig } from "../../test/support/replica-config.ts";
import { type RestartableGateway, startRestartable } from "../../test/support/restartable-gateway.ts";
import { type RoundRobin, startRoundRobin } from "../../test/support/round-robin.ts";
import type { MemoryPlan } from "../load/memory.ts";
import type { Rig } from "../load/rig.ts";
import type { BenchRow } from "../row.ts";

/** What became of calls since the last look. */
interface Tally {
  answered: number;
  /** Answered with an error, or not at all, although no gateway was killed meanwhile. */
  failed: number;
  /** Not answered by a gateway that was killed meanwhile. */
  cut: number;
  /** Answered with 404: the session is gone. */
  lost: number;
}

/** Between two calls of a session, so that hundreds of them leave room for restarts. */
const pauseMs = 200;

/**
 * Two gateways with Redis behind a proxy without sticky sessions, while all sessions call: gateways are restarted one by
 * one, killed one by one, and the store is away. Only calls that a killed gateway was serving may fail.
 */
export async function replicaRows(_rig: Rig, { isJudged }: MemoryPlan): Promise<BenchRow[]> {
  const size = isJudged ? { sessions: 500, kills: 10, awayMs: 60_000 } : { sessions: 50, kills: 2, awayMs: 3000 };
  await using redis = await startRedis();
  await using upstream = await legacyUpstream((call, { id }) => call.reply({ jsonrpc: "2.0", id, result: {} }));
  const config: ConfigInput = {
    ...replicaConfig(redis.state, { upstream: { url: upstream.url } }),
    limits: { sessions: 2 * size.sessions, sessionsPerPrincipal: 2 * size.sessions },
    shutdown: { grace: "10s", readinessDelay: "2s" },
  };
  await using one = await startRestartable(config);
  await using two = await startRestartable(config);
  await using proxy = await startRoundRobin([one.origin, two.origin]);
  const sessions: LegacySession[] = [];
  for (let count = 0; count < size.sessions; count++) sessions.push(await openSession(proxy.url));
  const load = startCalling(sessions);
  const rows: BenchRow[] = [];
  const judge = (name: string, { answered, failed, cut, lost }: Tally): void => {
    const note = `${answered} calls of ${size.sessions} sessions were answered, ${cut} were cut`;
    rows.push({ name: `${name}: calls failed`, value: failed, unit: "calls", threshold: { max: 0 }, note });
    rows.push({ name: `${name}: sessions lost`, value: lost, unit: "sessions", threshold: { max: 0 } });
  };

  for (const gateway of [one, two]) await restart(gateway, proxy);
  judge("rolling restart", load.take());
  for (let kill = 0; kill < size.kills; kill++) {
    const gateway = kill % 2 === 0 ? one : two;
    load.killing(true);
    await gateway.stop("SIGKILL");
    load.killing(false);
    await gateway.start();
  }
  judge(`${size.kills} times kill -9`, load.take());
  await redis.stop();
  await sleep(size.awayMs, systemTimer);
  await redis.start();
  judge(`${size.awayMs / 1000} s without the store`, load.take());
  await load.stop();
  const opened = upstream.sessions.length;
  rows.push({
    name: "sessions opened upstream",
    value: opened / size.sessions,
    unit: "a session",
    threshold: { max: 1 },
  });
  return rows;
}

/** The proxy takes it out first, as a load balancer does with a gateway that says it is not ready. */
async function restart(gateway: RestartableGateway, { servers }: RoundRobin): Promise<void> {
  servers.splice(servers.indexOf(gateway.origin), 1);
  await gateway.restart("SIGTERM");
  servers.push(gateway.origin);
}

/** Lets every session call, one call after the other, until it is stopped. */
function startCalling(sessions: readonly LegacySession[]) {
  let tally = newTally();
  let isOver = false;
  let isKilling = false;
  let kills = 0;

  async function call(session: LegacySession): Promise<void> {
    const killsBefore = kills;
    const wasKilling = isKilling;
    const isCut = (): boolean => wasKilling || kills !== killsBefore;
    try {
      const { status } = await session.post(toolCall(1, "any"));
      if (status === 200) tally.answered++;
      else if (status === 404) tally.lost++;
      else if (isCut()) tally.cut++;
      else tally.failed++;
    } catch {
      if (isCut()) tally.cut++;
      else tally.failed++;
    }
  }

  const calling = sessions.map(async (session) => {
    while (!isOver) {
      await call(session);
      await sleep(pauseMs, systemTimer);
    }
  });
  return {
    take: (): Tally => {
      const taken = tally;
      tally = newTally();
      return taken;
    },
    /** Calls that begin before a killed gateway is known to be gone may reach it. */
    killing: (now: boolean): void => {
      isKilling = now;
      if (now) kills++;
    },
    stop: async (): Promise<void> => {
      isOver = true;
      await Promise.all(calling);
    },
  };
}

function newTally(): Tally {
  return { answered: 0, failed: 0, cut: 0, lost: 0 };
}
