import { expect, it } from "vitest";

import type { SharedStore } from "../../cluster/shared-store.ts";
import { openEndedSessions } from "../../sessions/ended-sessions.ts";
import type { Logger } from "../../telemetry/log.ts";
import { createSharedEndings, type SharedEndingsDeps } from "./shared-endings.ts";

/** A gateway that could not remember all sessions that ended: those opened up to 6 are not on its list. */
function bench({ keepsEnds, ...store }: Pick<SharedEndingsDeps, "keepsEnds"> & Pick<SharedStore, "hasEnded">) {
  const own = openEndedSessions(undefined, () => 5, { max: 10 });
  for (let openedAt = 1; openedAt <= 11; openedAt++)
    own.add({ id: `s${openedAt}`, owner: "ann", openedAt, expiresAt: 100 });
  const warnings: unknown[] = [];
  const log = { warn: (fields: unknown) => warnings.push(fields) } as unknown as Logger;
  const deps = { node: "one", maxAgeMs: () => 100, store: () => store as SharedStore, keepsEnds, log, wall: () => 5 };
  const { ended } = createSharedEndings(own, deps);
  return { has: async (id: string, openedAt: number) => ended.has({ id, owner: "ann", openedAt }), warnings };
}

const answering = (keepsEnds: boolean, ...over: string[]) => ({
  keepsEnds,
  hasEnded: async (ids: readonly string[]) => ids.map((id) => over.includes(id)),
});
const away = {
  keepsEnds: true,
  hasEnded: async (): Promise<never> => Promise.reject(new Error("no answer within 250 ms")),
};

it.each([
  ["a store that keeps every end knows which old sessions go on", answering(true, "s1"), [true, false, true, false], 0],
  ["of one that does not, what the own list says counts too", answering(false), [true, true, true, false], 0],
  ["nothing is less strict while it is away", away, [true, true, true, false], 1],
] as const)("%s", async (_name, store, expected, warned) => {
  const { has, warnings } = bench(store);
  const asked = [await has("s1", 1), await has("old", 2), await has("s11", 11), await has("young", 11)];
  expect(asked).toEqual(expected);
  expect(warnings).toHaveLength(warned);
});
