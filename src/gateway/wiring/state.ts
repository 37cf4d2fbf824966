import { randomBytes } from "node:crypto";
import { linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import type { Config } from "../../config/config.ts";
import type { Clock } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import type { ServerFacts } from "../../federation/server-facts.ts";
import { type OpenServerFactsStore, openServerFactsStore } from "../../federation/server-facts-file.ts";
import { makePrivate, ownerOnly } from "../../lib/keys/private-file.ts";
import { createProcessSeals, createSeals, type Seals } from "../../lib/keys/sealing.ts";
import { thrownCode, thrownMessage } from "../../lib/thrown-message.ts";
import { type EndedSessions, openEndedSessions } from "../../sessions/ended-sessions.ts";
import { noJournal, openStreamJournal } from "../../sessions/stream-journal.ts";
import { type OpenTaskOwnerStore, openTaskOwnerStore } from "../../sessions/task-owner-store.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { GatewayState } from "../context.ts";

/** The file with the key of a gateway that has none configured. */
const keyFile = "state.key";

/** Opens the state as configured. `key` is for processes that share one and have none of their own. A folder that cannot be used costs durability, and the log says so. */
export function openState(
  { folder, keys }: Config["state"],
  { log, clock, key }: { readonly log: Logger; readonly clock: Clock; readonly key?: Uint8Array | undefined },
): GatewayState {
  const node = randomBytes(4).toString("hex");
  const own = keys === undefined ? sealsIn(folder, log) : createSeals(keys.map((text) => Buffer.from(text)));
  const seals = own ?? (key === undefined ? undefined : createSeals([key]));
  const kept = folder === undefined ? undefined : keptIn(folder, node, log, clock);
  const { ended, journal, taskOwners, serverFacts } = kept ?? {
    ended: openEndedSessions(undefined, clock.wall),
    journal: noJournal,
    taskOwners: undefined,
    serverFacts: undefined,
  };
  return {
    node,
    seals: seals ?? createProcessSeals(),
    isDurable: seals !== undefined,
    ended,
    journal,
    isPortable: keys !== undefined || (seals !== undefined && journal === noJournal),
    taskOwners,
    serverFacts,
    close: () => {
      ended.close();
      journal.close();
      taskOwners?.close();
      serverFacts?.close();
    },
  };
}

function sealsIn(folder: string | undefined, log: Logger): Seals | undefined {
  if (folder === undefined) return undefined;
  try {
    return createSeals([readOrCreateKey(join(folder, keyFile))]);
  } catch (error) {
    const reason = thrownMessage(error);
    log.warn({ folder, reason }, "cannot store a key in the state folder; sessions end with this process");
    return undefined;
  }
}

function keptIn(folder: string, node: string, log: Logger, { wall }: Clock): Kept | undefined {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const onDropped = (openedUntil: number): void => {
      const time = new Date(openedUntil).toISOString();
      log.warn(
        { time },
        "too many ended sessions to remember; a restart also ends sessions of the same caller opened before this time",
      );
    };
    const onLost = (reason: string): void => {
      log.error({ folder, reason }, "another program changed the state folder; what the file held is forgotten");
    };
    const ended = openEndedSessions(folder, wall, { onDropped, onLost });
    const taskOwners = openTaskOwnerStore(folder, wall, onLost);
    const serverFacts = openServerFactsStore(folder, wall, onLost);
    const journal = openStreamJournal(folder, node, wall);
    return outliving({ ended, journal, taskOwners, serverFacts }, openEndedSessions(undefined, wall), (error) => {
      const reason = thrownMessage(error);
      log.warn(
        { folder, reason },
        "cannot write to the state folder; a restart forgets the sessions that end until then",
      );
    });
  } catch (error) {
    const reason = thrownMessage(error);
    log.warn({ folder, reason }, "cannot store ended sessions in the state folder; a restart forgets them");
    return undefined;
  }
}

/** What is kept in the folder. */
type Kept = Pick<GatewayState, "ended" | "journal"> & {
  readonly taskOwners: OpenTaskOwnerStore;
  readonly serverFacts: OpenServerFactsStore;
};

/**
 * Limits the damage of a folder that can no longer be written, such as on a full disk, to durability: sessions still
 * end, and calls are still answered. Ended sessions are kept in memory meanwhile.
 */
function outliving(
  { ended, journal, taskOwners, serverFacts }: Kept,
  memory: EndedSessions,
  onFailure: (error: unknown) => void,
): Kept {
  let isFailing = false;

  /** Does something in the folder; false if that failed. The first failure of several is reported. */
  function attempt(work: () => void): boolean {
    try {
      work();
      isFailing = false;
      return true;
    } catch (error) {
      if (!isFailing) onFailure(error);
      isFailing = true;
      return false;
    }
  }

  function read<Answer>(ask: () => Answer): Answer {
    try {
      return ask();
    } catch (error) {
      // It may have ended.
      throw new GatewayError("store_failed", "the state folder cannot be read", { cause: error });
    }
  }

  return {
    ended: {
      add: (session) => {
        if (!attempt(() => ended.add(session))) memory.add(session);
      },
      has: (session) => memory.has(session) === true || read(() => ended.has(session)),
      isListed: (id) => memory.isListed(id) === true || read(() => ended.isListed(id)),
      close: () => {
        attempt(() => ended.close());
        memory.close();
      },
    },
    journal: {
      opened: (session, requests) => {
        let end = (): void => {};
        attempt(() => {
          end = journal.opened(session, requests);
        });
        return end;
      },
      lostCalls: (session, other) => journal.lostCalls(session, other),
      close: () => void attempt(() => journal.close()),
    },
    taskOwners: {
      get: (task) => {
        let owner: string | undefined;
        attempt(() => {
          owner = taskOwners.get(task);
        });
        return owner;
      },
      set: (task, owner, until) => void attempt(() => taskOwners.set(task, owner, until)),
      close: () => void attempt(() => taskOwners.close()),
    },
    serverFacts: {
      get: (server) => {
        let facts: ServerFacts | undefined;
        attempt(() => {
          facts = serverFacts.get(server);
        });
        return facts;
      },
      set: (server, facts) => void attempt(() => serverFacts.set(server, facts)),
      close: () => void attempt(() => serverFacts.close()),
    },
  };
}

const keyBytes = 32;

/**
 * The random key in a file that only its owner can read; makes the file, and its folder, if there is none. Processes that
 * start at the same time get the same key.
 */
export function readOrCreateKey(file: string): Buffer {
  const known = readKey(file);
  if (known !== undefined) return known;
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const written = `${file}.${process.pid}.new`;
  writeFileSync(written, `${randomBytes(keyBytes).toString("base64url")}\n`, { mode: ownerOnly });
  try {
    // Fails if another process was faster; the file is never seen half written.
    linkSync(written, file);
  } catch (error) {
    if (thrownCode(error) !== "EEXIST") throw error;
  } finally {
    unlinkSync(written);
  }
  const created = readKey(file);
  if (created === undefined) throw new Error(`${file}: the key file was deleted`);
  return created;
}

function readKey(file: string): Buffer | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (thrownCode(error) === "ENOENT") return undefined;
    throw error;
  }
  const key = Buffer.from(text.trim(), "base64url");
  if (key.length !== keyBytes) throw new Error(`${file}: not a key; delete the file to create a new one`);
  makePrivate([file]);
  return key;
}
