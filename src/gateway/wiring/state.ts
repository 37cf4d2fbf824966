import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

import type { Config } from "../../config/config.ts";
import { GatewayError } from "../../errors.ts";
import type { Clock } from "../../core/exchange.ts";
import { readOrCreateKey } from "../../lib/keys/key-file.ts";
import { createProcessSeals, createSeals, type Seals } from "../../lib/keys/sealing.ts";
import { openEndedSessions } from "../../sessions/ended-sessions.ts";
import { noJournal, openStreamJournal } from "../../sessions/stream-journal.ts";
import { type OpenTaskOwnerStore, openTaskOwnerStore } from "../../sessions/task-owner-store.ts";
import { errorFields, type Logger } from "../../telemetry/log.ts";
import type { GatewayState } from "../context.ts";

/** The file with the key of a gateway that has none configured. */
const keyFile = "state.key";

/** Opens the state as configured. A folder that cannot be used costs durability, and the log says so. */
export function openState(
  { folder, keys }: Config["state"],
  { log, clock }: { readonly log: Logger; readonly clock: Clock },
): GatewayState {
  const node = randomBytes(4).toString("hex");
  const seals = keys === undefined ? sealsIn(folder, log) : createSeals(keys.map((key) => Buffer.from(key)));
  const kept = folder === undefined ? undefined : keptIn(folder, node, log, clock);
  const { ended, journal, taskOwners } = kept ?? {
    ended: openEndedSessions(undefined, clock.wall),
    journal: noJournal,
    taskOwners: undefined,
  };
  return {
    node,
    seals: seals ?? createProcessSeals(),
    isDurable: seals !== undefined,
    ended,
    journal,
    taskOwners,
    close: () => {
      ended.close();
      journal.close();
      taskOwners?.close();
    },
  };
}

function sealsIn(folder: string | undefined, log: Logger): Seals | undefined {
  if (folder === undefined) return undefined;
  try {
    return createSeals([readOrCreateKey(join(folder, keyFile))]);
  } catch (error) {
    const fields = errorFields(GatewayError.from(error));
    log.warn({ folder, ...fields }, "cannot store a key in the state folder; sessions end with this process");
    return undefined;
  }
}

function keptIn(
  folder: string,
  node: string,
  log: Logger,
  { wall }: Clock,
): (Pick<GatewayState, "ended" | "journal"> & { readonly taskOwners: OpenTaskOwnerStore }) | undefined {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const ended = openEndedSessions(folder, wall);
    const taskOwners = openTaskOwnerStore(folder, wall);
    return { ended, journal: openStreamJournal(folder, node, wall), taskOwners };
  } catch (error) {
    const fields = errorFields(GatewayError.from(error));
    log.warn({ folder, ...fields }, "cannot store ended sessions in the state folder; a restart forgets them");
    return undefined;
  }
}
