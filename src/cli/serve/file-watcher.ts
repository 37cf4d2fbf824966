import { createHash } from "node:crypto";
import { type FSWatcher, realpathSync, statSync, watch } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import type { SetTimer } from "../../core/exchange.ts";

/** Digests of files when they were read, by path. */
export type FileDigests = ReadonlyMap<string, string>;

/** Reads files and keeps their digests. */
export interface DigestingReader {
  readonly readFile: (path: string) => Promise<string>;
  readonly digests: FileDigests;
}

/** Creates a reader that keeps digests, also of unreadable files. */
export function createDigestingReader(readFile: (path: string) => Promise<string>): DigestingReader {
  const digests = new Map<string, string>();
  return {
    digests,
    readFile: async (path) => {
      const text = readFile(path);
      digests.set(resolve(path), await digestOf(text));
      return text;
    },
  };
}

/** What a file watcher needs. */
export interface FileWatcherOptions {
  readonly readFile: (path: string) => Promise<string>;
  readonly setTimer: SetTimer;
  /** The content of a file changed since it was read. */
  readonly onChange: () => void;
  /** This path cannot be watched. */
  readonly onError: (place: string, error: unknown) => void;
}

/** Watches files for changes. */
export interface FileWatcher extends Disposable {
  /** Watches these files instead of the previous ones. */
  watch(digests: FileDigests): void;
}

/** One change causes many events, and writers need a moment to finish. */
const settleMs = 100;

/**
 * Watches folders as well as files: editors replace files, and Kubernetes repoints a link to another folder. Only a
 * change of content counts.
 */
export function createFileWatcher(options: FileWatcherOptions): FileWatcher {
  const { readFile, setTimer, onChange, onError: onTrouble } = options;
  const watchers = new Map<string, FSWatcher>();
  let followed: FileDigests = new Map();
  /**
   * The names that events about these files may have. Computed once, because a recording in the same folder causes
   * thousands of events.
   */
  let names: ReadonlySet<string> = new Set();
  let stopTimer: (() => void) | undefined;
  let isClosed = false;

  /** Further events do not postpone the check. */
  function noticed(): void {
    stopTimer ??= setTimer(settleMs, () => {
      stopTimer = undefined;
      void look();
    });
  }

  async function look(): Promise<void> {
    if (isClosed) return;
    const before = followed;
    watchPlaces();
    const same = await Promise.all(
      [...before].map(async ([path, digest]) => (await digestOf(readFile(path))) === digest),
    );
    // If other files are watched meanwhile, they have just been read.
    if (!isClosed && followed === before && same.includes(false)) onChange();
  }

  /** Watches every path where a change can appear, as long as it is the same file or folder. */
  function watchPlaces(): void {
    const wanted = new Map([...followed.keys()].flatMap(watchedPaths));
    names = new Set([...followed.keys()].flatMap((path) => [foldedName(path), foldedName(realPath(path) ?? path)]));
    for (const [key, watcher] of watchers) {
      if (wanted.has(key)) continue;
      watchers.delete(key);
      watcher.close();
    }
    for (const [key, place] of wanted) {
      if (!watchers.has(key)) open(key, place);
    }
  }

  function open(key: string, place: string): void {
    try {
      const watcher = watch(place, { persistent: false }, (event, name) => {
        // A recording or a log in the same folder changes all the time; what replaces a file or a link is a rename.
        if (event === "rename" || name === null || names.has(foldedName(name))) noticed();
      });
      watcher.on("error", (error) => {
        onTrouble(place, error);
      });
      watchers.set(key, watcher);
    } catch (error) {
      onTrouble(place, error);
    }
  }

  return {
    watch: (digests) => {
      followed = digests;
      // A file may have changed between reading and watching.
      void look();
    },
    [Symbol.dispose]: () => {
      isClosed = true;
      stopTimer?.();
      for (const watcher of watchers.values()) watcher.close();
      watchers.clear();
    },
  };
}

/** The file, its folder, and the same behind links; with keys that change when they are replaced. */
function watchedPaths(path: string): (readonly [key: string, place: string])[] {
  const real = realPath(path);
  const places = new Set([dirname(path), ...(real === undefined ? [] : [real, dirname(real)])]);
  return [...places].flatMap((place) => {
    const stats = statSync(place, { throwIfNoEntry: false });
    return stats === undefined ? [] : [[`${place} ${stats.dev} ${stats.ino}`, place] as const];
  });
}

/** macOS and Windows find a file under other spellings than the one they report. */
function foldedName(path: string): string {
  return basename(path).normalize("NFC").toLowerCase();
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

async function digestOf(text: Promise<string>): Promise<string> {
  try {
    return createHash("sha256")
      .update(await text)
      .digest("hex");
  } catch {
    return "unreadable";
  }
}
