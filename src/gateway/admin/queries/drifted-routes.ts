import { hash } from "node:crypto";

import { canonicalText } from "../../../lib/canonical-json.ts";
import {
  type ApprovedDefinition,
  definingExchanges,
  type Definition,
  definitionKey,
  type DefinitionLock,
  type Drift,
  driftsOf,
  offeredDefinitions,
} from "../../../recorder/drift/compare.ts";
import { readRecordedTraffic } from "../../../recorder/replay/recorded-call.ts";
import type { RecordReader } from "../../../recorder/store/store-contract.ts";

/** A definition that differs from the approved one, with both. */
export interface DriftedDefinition extends Drift {
  /** A digest of what is offered; an approval names it, so that only a definition that was seen can be approved. */
  readonly digest: string;
  readonly offered?: Definition;
  readonly approved?: ApprovedDefinition;
}

/** What differs on one route. */
export interface DriftedRoute {
  readonly route: string;
  readonly definitions: number;
  readonly drifts: readonly DriftedDefinition[];
}

/** Compares what servers offered, as recorded, with a lock. */
export async function findDriftedRoutes(reader: RecordReader, lock: DefinitionLock): Promise<readonly DriftedRoute[]> {
  const lines = reader.export({ where: definingExchanges, wholeOperations: true });
  const { calls } = await readRecordedTraffic(lines, { leg: "upstream" });
  return [...offeredDefinitions(calls)].map(([route, own]) => {
    const approved = lock.routes[route] ?? {};
    return {
      route,
      definitions: own.definitions.length,
      drifts: driftsOf(own, approved).map((drift) => {
        const offered = own.definitions.find((one) => definitionKey(one) === drift.key);
        const before = approved[drift.key];
        return {
          ...drift,
          digest: hash("sha256", canonicalText(offered?.fields ?? null), "base64url"),
          ...(offered === undefined ? {} : { offered }),
          ...(before === undefined ? {} : { approved: before }),
        };
      }),
    };
  });
}
