import { randomInt } from "node:crypto";
import {
  closeSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from "node:fs";
import { endianness } from "node:os";
import type { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";

import { openDatabase } from "../lazy-modules.ts";
import { ownerOnly } from "./private-file.ts";

/** What others did to the files of an open database. */
export type FileDamage =
  /** Its file is no longer at its path. What is written to it, nobody finds. */
  | "moved"
  /** Its file has no bytes. */
  | "emptied"
  /** Its file has the content of another program. */
  | "overwritten"
  /** Its file has older content, only a part of it, or pages that SQLite cannot read. */
  | "damaged"
  /** A neighbour of its file is no longer at its path. */
  | "log moved"
  /** The write-ahead log has other content. */
  | "log overwritten";

/** What happened, for a log line. */
export const describeDamage = (file: string, damage: FileDamage): string => descriptions[damage](file);

const descriptions: Readonly<Record<FileDamage, (file: string) => string>> = {
  moved: (file) => `${file} was deleted or moved`,
  emptied: (file) => `${file} was emptied`,
  overwritten: (file) => `${file} was overwritten by another program`,
  damaged: (file) => `${file} was damaged, and is renamed to end in ".damaged-" and a number`,
  "log moved": (file) => `${file}-wal or ${file}-shm was deleted or moved`,
  "log overwritten": (file) => `${file}-wal was overwritten by another program`,
};

/** The files of a SQLite database in WAL mode, and whether they are as SQLite left them. */
export interface DatabaseFiles {
  /** What happened to them; what was found once is found from then on. */
  damage(): FileDamage | undefined;
  /** Takes note of an error of SQLite: where it could not read its own pages, the file is set aside when it is closed. */
  failed(error: unknown): void;
  /** How many frames the write-ahead log holds, which SQLite copies into the file when it is told to. */
  logFrames(): number;
  /** Closes the database. Nothing is written to a file of another program, and none is deleted. */
  close(): void;
}

/** "HdGt" in the header of a file says that Headgate wrote it (sqlite.org/fileformat.html#application_id). */
const applicationId = 0x48644774;
const magic = Buffer.from("SQLite format 3\0");
const headerBytes = 100;
const [stampOffset, idOffset] = [60, 68];
const maxStamp = 2 ** 31 - 1;
/** Both copies of the header of the wal-index, and how far checkpoints are (sqlite.org/walformat.html#the_wal_index_file_format). */
const indexBytes = 136;
const logHeaderBytes = 32;
const frameHeaderBytes = 24;

/** A file that is open beside its database. */
export interface OpenDatabaseFile {
  readonly file: string;
  /** Closing it, the process loses its locks on the file, so it stays open until the database is closed. */
  readonly handle: number;
  readonly isNew: boolean;
  /** One of its tables: a file without a stamp is known by it. */
  readonly table: string;
}

/**
 * Opens the file of a database that Headgate alone uses, and creates it if needed. Throws without having written a byte if
 * another program wrote it.
 */
export function openDatabaseFile(file: string, table: string): OpenDatabaseFile {
  const handle = openSync(file, "a+", ownerOnly);
  try {
    const header = readAt(handle, headerBytes, 0);
    const isNew = header.length === 0;
    if (!isNew && !isSqlite(header)) throw foreign(file);
    const id = isNew ? 0 : header.readInt32BE(idOffset);
    if (id !== 0 && id !== applicationId) throw foreign(file);
    // Read without its log and its locks, which may be of another program too.
    if (!isNew && id === 0) withImmutable(file, (database) => refuseForeign(file, database, table));
    return { file, handle, isNew, table };
  } catch (error) {
    closeSync(handle);
    throw error;
  }
}

const foreign = (file: string): Error =>
  new Error(`${file} was written by another program; move it away, or choose another path`);

function refuseForeign(file: string, database: DatabaseSync, table: string): void {
  const names = database.prepare("SELECT name FROM sqlite_schema").all();
  if (names.length > 0 && !names.some(({ name }) => name === table)) throw foreign(file);
}

function withImmutable(file: string, work: (database: DatabaseSync) => void): void {
  const url = pathToFileURL(file);
  url.searchParams.set("immutable", "1");
  const database = openDatabase(url, { readOnly: true });
  try {
    work(database);
  } finally {
    database.close();
  }
}

/** Stamps a database before its first table, so that its file is known again when others write to it. */
export function watchDatabaseFiles({ file, handle, table }: OpenDatabaseFile, database: DatabaseSync): DatabaseFiles {
  const [walFile, indexFile] = [`${file}-wal`, `${file}-shm`];
  const { dev, ino } = fstatSync(handle, { bigint: true });
  const identity = `${dev} ${ino}`;
  // Where a reader holds the log, a new stamp stays in it for a while.
  const stamps = [stampDatabase(file, database, table), stampOf(readAt(handle, headerBytes, 0))];
  let walIdentity: string | undefined;
  let index: { readonly handle: number; readonly identity: string | undefined } | undefined;
  let largestIndex = 0;
  let settled: ReturnType<typeof readSettled>;
  let found: FileDamage | undefined;

  function look(): FileDamage | undefined {
    openIndex();
    restoreIndex();
    if (identityOf(file) !== identity) return "moved";
    const header = readAt(handle, headerBytes, 0);
    if (header.length === 0) return "emptied";
    if (!isOwn(header)) return "overwritten";
    const wal = identityOf(walFile);
    // Both exist from the first transaction on, as long as this connection is open.
    walIdentity ??= wal;
    if (wal !== walIdentity || (index !== undefined && identityOf(indexFile) !== index.identity)) return "log moved";
    if (isTruncated() || isHeaderChanged()) return "damaged";
    if (!isLogForeign()) return undefined;
    dropIndex();
    return "log overwritten";
  }

  const isOwn = (header: Buffer): boolean => isSqlite(header) && stamps.includes(stampOf(header));

  function openIndex(): void {
    if (index !== undefined || !existsSync(indexFile)) return;
    // As with the file: closing it early, the process would lose its locks.
    index = { handle: openSync(indexFile, "r+"), identity: identityOf(indexFile) };
  }

  /**
   * SQLite maps the wal-index into memory, and the process dies of SIGBUS when it reads what somebody cut off. Of an
   * index of zeros, SQLite makes a new one from the log.
   */
  function restoreIndex(): void {
    if (index === undefined) return;
    const { size } = fstatSync(index.handle);
    largestIndex = Math.max(largestIndex, size);
    if (size < largestIndex) ftruncateSync(index.handle, largestIndex);
  }

  /** The header of the wal-index; undefined if SQLite has yet to make one. */
  function readIndex(): LogIndex | undefined {
    return index === undefined ? undefined : parseIndex(readAt(index.handle, indexBytes, 0));
  }

  /** The header of the file, and the wal-index; undefined while frames are being copied into the file. */
  function readSettled(): { readonly header: Buffer; readonly size: number; readonly index: LogIndex } | undefined {
    const before = readIndex();
    const header = readAt(handle, headerBytes, 0);
    const { size } = fstatSync(handle);
    const after = readIndex();
    if (before === undefined || after === undefined || header.length < headerBytes) return undefined;
    if (before.isCopying || !before.state.equals(after.state)) return undefined;
    return { header, size, index: after };
  }

  /** Whether the file ends before the last page that its header counts. */
  function isTruncated(): boolean {
    const present = readSettled();
    if (present === undefined) return false;
    const { header, size } = present;
    // The count is valid if the change counter is that of its version.
    if (header.readUInt32BE(24) !== header.readUInt32BE(92)) return false;
    return size < header.readUInt32BE(28) * pageSizeOf(header);
  }

  /** Whether the header changed although SQLite copied nothing into the file: an older copy was put back, for example. */
  function isHeaderChanged(): boolean {
    const before = settled;
    settled = readSettled();
    if (before === undefined || settled === undefined || !before.index.state.equals(settled.index.state)) return false;
    return !before.header.equals(settled.header);
  }

  /** Whether the write-ahead log is not the one of the wal-index. */
  function isLogForeign(): boolean {
    const present = readIndex();
    if (present === undefined || present.frames === 0) return false;
    const pageSize = pageSizeOf(readAt(handle, headerBytes, 0));
    const { header, size } = readLog(walFile) ?? nothing;
    const isWhole = size >= logHeaderBytes + present.frames * (pageSize + frameHeaderBytes);
    if (isWhole && header.subarray(16, 24).equals(present.salts)) return false;
    // Another process may have begun the log again between the two looks.
    const later = readIndex();
    return later !== undefined && later.frames === present.frames && later.salts.equals(present.salts);
  }

  /** Makes SQLite read the log again, and take from it only what is whole and its own. */
  function dropIndex(): void {
    if (index !== undefined) writeSync(index.handle, Buffer.alloc(indexBytes), 0, indexBytes, 0);
  }

  /** Leaves everything as it must be found later, before SQLite ends its work on the files. */
  function settle(): void {
    const isLogOwn = walIdentity !== undefined && identityOf(walFile) === walIdentity;
    if (found === "emptied") {
      // Another database could not be opened over half of this one.
      for (const path of [file, walFile, indexFile]) rmSync(path, { force: true });
    } else if (!isOwn(readAt(handle, headerBytes, 0))) {
      // SQLite would copy the log into the file of another program.
      if (isLogOwn) truncateSync(walFile);
      dropIndex();
    } else if (found === "damaged") {
      const aside = freeName(file);
      renameSync(file, aside);
      if (isLogOwn) renameSync(walFile, `${aside}-wal`);
    } else if (found === "log overwritten") {
      if (statSync(walFile).size > 0) renameSync(walFile, freeName(walFile));
    } else if (found !== undefined) {
      // SQLite itself does not do this for a file that was moved, which then lacks what is in the log.
      emptyLog(database);
    }
  }

  /** Another database at this path must not find our neighbours, and they are of no more use. */
  function removeNeighbours(): void {
    const isLogOwn = walIdentity !== undefined && identityOf(walFile) === walIdentity;
    if (isLogOwn && statSync(walFile).size === 0) rmSync(walFile);
    if (index !== undefined && identityOf(indexFile) === index.identity) rmSync(indexFile);
  }

  return {
    damage: () => (found ??= look()),
    failed: (error) => {
      if (isCorrupt(error)) found ??= look() ?? "damaged";
    },
    logFrames: () => readIndex()?.frames ?? 0,
    close: () => {
      if (!database.isOpen) return;
      try {
        found ??= look();
        settle();
      } catch {
        // What is lost has been said already, and the files can be left as they are.
      }
      database.close();
      if (found !== undefined && found !== "log moved") removeNeighbours();
      // Closing it, the process loses its locks on the index, and the next process to open it would cut it off under the
      // connections that this process still has. So it stays open where others can open it.
      if (index !== undefined && identityOf(indexFile) !== index.identity) closeSync(index.handle);
      closeSync(handle);
    },
  };
}

/** Gives a database its stamp, unless it has one, and returns it. */
function stampDatabase(file: string, database: DatabaseSync, table: string): number {
  const read = (name: string): number => Number(Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0]);
  let isNew = false;
  database.exec("BEGIN IMMEDIATE");
  try {
    isNew = read("application_id") !== applicationId;
    if (isNew) {
      refuseForeign(file, database, table);
      database.exec(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${randomInt(1, maxStamp)}`);
    }
    database.exec("COMMIT");
  } catch (error) {
    if (database.isTransaction) database.exec("ROLLBACK");
    throw error;
  }
  if (isNew) database.exec("PRAGMA wal_checkpoint(PASSIVE)");
  return read("user_version");
}

/** Empties the write-ahead log, without waiting for readers. */
export function emptyLog(database: DatabaseSync): void {
  const wait = Number(Object.values(database.prepare("PRAGMA busy_timeout").get() ?? {})[0]);
  database.exec("PRAGMA busy_timeout = 0");
  try {
    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    database.exec(`PRAGMA busy_timeout = ${wait}`);
  }
}

const isSqlite = (header: Buffer): boolean =>
  header.length === headerBytes && header.subarray(0, magic.length).equals(magic);

/** The user version of a file, which is random in ours. */
const stampOf = (header: Buffer): number => (header.length === headerBytes ? header.readInt32BE(stampOffset) : 0);

/** Whether SQLite found that pages are not its own (sqlite.org/rescode.html: SQLITE_CORRUPT, SQLITE_NOTADB). */
function isCorrupt(error: unknown): boolean {
  const code = error instanceof Error && "errcode" in error ? Number(error.errcode) & 0xff : 0;
  return code === 11 || code === 26;
}

/** 1 stands for 65,536. */
function pageSizeOf(header: Buffer): number {
  const size = header.readUInt16BE(16);
  return size === 1 ? 65_536 : size;
}

/** The wal-index is in the byte order of the machine. */
const readNative = (bytes: Buffer, offset: number): number =>
  endianness() === "LE" ? bytes.readUInt32LE(offset) : bytes.readUInt32BE(offset);

function readAt(handle: number, length: number, position: number): Buffer {
  const bytes = Buffer.alloc(length);
  return bytes.subarray(0, readSync(handle, bytes, 0, length, position));
}

/** What the wal-index says about the log. */
interface LogIndex {
  readonly frames: number;
  readonly salts: Buffer;
  /** Differs after frames were copied into the file, and when the log begins again. */
  readonly state: Buffer;
  /** Frames are being copied into the file. */
  readonly isCopying: boolean;
}

/** Undefined if the header is not valid: SQLite then makes another. */
function parseIndex(bytes: Buffer): LogIndex | undefined {
  if (bytes.length < indexBytes || bytes[12] === 0) return undefined;
  let [first, second] = [0, 0];
  for (let at = 0; at < 40; at += 8) {
    first = (first + readNative(bytes, at) + second) >>> 0;
    second = (second + readNative(bytes, at + 4) + first) >>> 0;
  }
  if (first !== readNative(bytes, 40) || second !== readNative(bytes, 44)) return undefined;
  const [copied, copying] = [bytes.subarray(96, 100), bytes.subarray(128, 132)];
  const salts = bytes.subarray(32, 40);
  const state = Buffer.concat([salts, copied, copying]);
  return { frames: readNative(bytes, 16), salts, state, isCopying: !copied.equals(copying) };
}

const nothing: { readonly header: Buffer; readonly size: number } = { header: Buffer.alloc(0), size: 0 };

/** The log of a database; SQLite has no locks on it, so it may be closed again. */
function readLog(file: string): typeof nothing | undefined {
  if (!existsSync(file)) return undefined;
  const handle = openSync(file, "r");
  try {
    return { header: readAt(handle, logHeaderBytes, 0), size: fstatSync(handle).size };
  } finally {
    closeSync(handle);
  }
}

/** A name for a file that is set aside. */
function freeName(file: string): string {
  let number = 1;
  while (existsSync(`${file}.damaged-${number}`)) number++;
  return `${file}.damaged-${number}`;
}

/** Device and inode of a file; undefined if there is none. */
function identityOf(file: string): string | undefined {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? undefined : `${found.dev} ${found.ino}`;
}
