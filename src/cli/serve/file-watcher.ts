import { createHash } from "node:crypto";
import { type FSWatcher, realpathSync, statSync, watch } from "node:fs";
import { dirname, resolve } from "node:path";
import type { SetTimer } from "../../core/exchange.ts";

/** What stood in files when they were read, by path: enough to tell whether it is still the same. */
export type FileDigests = ReadonlyMap<string, string>;

/** Reads files and remembers what was in them. */
export interface DigestingReader {
  readonly readFile: (path: string) => Promise<string>;
  readonly digests: FileDigests;
}

/** Makes a reader that remembers; a file that cannot be read is remembered as such. */
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

/** What a watcher needs. */
export interface FileWatcherOptions {
  readonly readFile: (path: string) => Promise<string>;
  readonly setTimer: SetTimer;
  /** What stands in the files is not what stood there when they were read. */
  readonly onChange: () => void;
  /** Changes at this place will not be seen. */
  readonly onError: (place: string, error: unknown) => void;
}

/** Tells when files change. */
export interface FileWatcher extends Disposable {
  /** Watches these files instead of those before. */
  watch(digests: FileDigests): void;
}

/** Writers need a moment to be done, and one change comes as many events. */
const settleMs = 100;

/**
 * Makes a watcher. Folders are watched, not only files: editors put a new file in the place of the old one, and
 * Kubernetes turns a link to a folder beside it. What counts is what stands in the files, whatever happened to them.
 */
export function createFileWatcher(options: FileWatcherOptions): FileWatcher {
  const { readFile, setTimer, onChange, onError: onTrouble } = options;
  const watchers = new Map<string, FSWatcher>();
  let followed: FileDigests = new Map();
  let stopTimer: (() => void) | undefined;
  let isClosed = false;

  /** Events that keep coming do not put the look at the files off. */
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
    // Whoever has asked to follow others meanwhile has read them anew.
    if (!isClosed && followed === before && same.includes(false)) onChange();
  }

  /** Watches every place where a change can show, each as long as it is the same file or folder. */
  function watchPlaces(): void {
    const wanted = new Map([...followed.keys()].flatMap(watchedPaths));
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
      const watcher = watch(place, { persistent: false }, noticed);
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
      // What has changed since the files were read came before the watching.
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

/** The file, the folder it is in, and the same for where links lead; with keys that change when they are replaced. */
function watchedPaths(path: string): (readonly [key: string, place: string])[] {
  const real = realPath(path);
  const places = new Set([dirname(path), ...(real === undefined ? [] : [real, dirname(real)])]);
  return [...places].flatMap((place) => {
    const stats = statSync(place, { throwIfNoEntry: false });
    return stats === undefined ? [] : [[`${place} ${stats.dev} ${stats.ino}`, place] as const];
  });
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
