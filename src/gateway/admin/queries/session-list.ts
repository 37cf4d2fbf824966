import type { ExchangeRecord } from "../../../recorder/contract.ts";
import type { SessionSummary } from "../wire.ts";

const maxSessions = 500;
const maxTargets = 6;
const failures: ReadonlySet<string> = new Set(["tool_error", "error", "failed", "abandoned"]);

/** Groups exchanges into sessions; takes the newest first. */
export function createSessionList() {
  const sessions = new Map<
    string,
    {
      first: ExchangeRecord;
      last: ExchangeRecord;
      calls: number;
      errors: number;
      refused: number;
      targets: Map<string, number>;
    }
  >();

  return {
    add: (exchange: ExchangeRecord): void => {
      const { session, principal, route, kind, direction, state, target } = exchange;
      const key = JSON.stringify([route, principal, session]);
      let own = sessions.get(key);
      if (own === undefined) {
        if (sessions.size >= maxSessions) return;
        own = { first: exchange, last: exchange, calls: 0, errors: 0, refused: 0, targets: new Map() };
        sessions.set(key, own);
      }
      own.first = exchange;
      if (kind !== "request" || direction !== "c2s") return;
      own.calls++;
      if (failures.has(state)) own.errors++;
      if (state === "refused") own.refused++;
      if (target !== undefined && (own.targets.has(target) || own.targets.size < 100))
        own.targets.set(target, (own.targets.get(target) ?? 0) + 1);
    },
    finish: (): readonly SessionSummary[] =>
      [...sessions.values()].map(({ first, last, calls, errors, refused, targets }) => ({
        filter: filterOf(last),
        ...(last.session === undefined ? {} : { session: last.session }),
        principal: last.principal,
        route: last.route,
        revision: last.revision,
        transport: last.transport,
        firstAt: first.at,
        lastAt: last.at,
        calls,
        errors,
        refused,
        targets: [...targets]
          .toSorted(([, a], [, b]) => b - a)
          .slice(0, maxTargets)
          .map(([name]) => name),
      })),
  };
}

function filterOf({ session, principal, route }: ExchangeRecord): string {
  if (session !== undefined) return `session:${quoted(session)}`;
  return `principal:${quoted(principal)} route:${quoted(route)}`;
}

/** A value of the filter language as it is, without wildcards. */
function quoted(text: string): string {
  return `"${text.replaceAll(/["\\]/gu, String.raw`\$&`)}"`;
}
