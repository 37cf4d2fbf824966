import { type ExchangeRecord, isOfGateway } from "../../../recorder/contract.ts";
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
      /** The newest that the client began. */
      client: ExchangeRecord | undefined;
      calls: number;
      errors: number;
      refused: number;
      targets: Map<string, number>;
    }
  >();

  return {
    add: (exchange: ExchangeRecord): void => {
      const { session, principal, client, route, kind, direction, method, state, target } = exchange;
      // Refused before a client was known.
      if (kind === "http") return;
      const key = JSON.stringify([route, principal, session ?? null, session === undefined ? client : undefined]);
      let own = sessions.get(key);
      if (own === undefined) {
        if (sessions.size >= maxSessions) return;
        own = {
          first: exchange,
          last: exchange,
          client: undefined,
          calls: 0,
          errors: 0,
          refused: 0,
          targets: new Map(),
        };
        sessions.set(key, own);
      }
      own.first = exchange;
      // The client is known from what it sent itself, not from what servers sent or were asked on its behalf.
      if (direction !== "c2s" || isOfGateway(exchange)) return;
      own.client ??= exchange;
      if (kind !== "request") return;
      own.calls++;
      if (failures.has(state)) own.errors++;
      if (state === "refused") own.refused++;
      // The id of a task says nothing; the call that began it has the name.
      if (target === undefined || method.startsWith("tasks/")) return;
      if (own.targets.has(target) || own.targets.size < 100)
        own.targets.set(target, (own.targets.get(target) ?? 0) + 1);
    },
    finish: (): readonly SessionSummary[] =>
      withoutNameless([...sessions.values()]).map(
        ({ first, last, client = last, calls, errors, refused, targets }) => ({
          filter: filterOf(client),
          ...(last.session === undefined ? {} : { session: last.session }),
          principal: last.principal,
          ...(client.client === undefined ? {} : { client: client.client }),
          route: last.route,
          revision: client.revision,
          transport: client.transport,
          firstAt: first.at,
          lastAt: last.at,
          calls,
          errors,
          refused,
          targets: [...targets]
            .toSorted(([, a], [, b]) => b - a)
            .slice(0, maxTargets)
            .map(([name]) => name),
        }),
      ),
  };
}

/** Without sessions, what servers sent does not always say to which client: then it is no client of its own. */
function withoutNameless<Group extends { readonly last: ExchangeRecord; readonly client: ExchangeRecord | undefined }>(
  groups: readonly Group[],
): readonly Group[] {
  const placeOf = ({ last: { route, principal } }: Group): string => JSON.stringify([route, principal]);
  const places = new Set(groups.filter(({ client }) => client !== undefined).map(placeOf));
  return groups.filter((group) => group.client ?? group.last.session ?? !places.has(placeOf(group)));
}

function filterOf({ session, principal, client, route }: ExchangeRecord): string {
  if (session !== undefined) return `session:${quoted(session)}`;
  const named = client === undefined ? "!client:*" : `client:${quoted(client)}`;
  return `principal:${quoted(principal)} ${named} route:${quoted(route)} !session:*`;
}

/** A value of the filter language as it is, without wildcards. */
export function quoted(text: string): string {
  return `"${text.replaceAll(/["\\]/gu, String.raw`\$&`)}"`;
}
