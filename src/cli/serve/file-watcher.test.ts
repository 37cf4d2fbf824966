import { once } from "node:events";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, watch, writeFileSync } from "node:fs";
import { readFile as readBytes } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import { systemTimer } from "../../core/exchange.ts";
import { createFileWatcher, createDigestingReader } from "./file-watcher.ts";

const readFile = (path: string): Promise<string> => readBytes(path, "utf8");

/** A folder with a watcher of one file in it. */
async function watched(name = "config.yaml", prepare: (folder: string) => void = () => {}) {
  const folder = mkdtempSync(join(tmpdir(), "headgate-watch-"));
  const file = join(folder, name);
  writeFileSync(join(folder, "config.yaml"), "one");
  prepare(folder);
  let changed = Promise.withResolvers<void>();
  let changes = 0;
  const watcher = createFileWatcher({
    readFile,
    setTimer: systemTimer,
    onChange: () => {
      changes++;
      changed.resolve();
    },
    onError: (place, error) => {
      changed.reject(new Error(`${place}: ${String(error)}`));
    },
  });
  const follow = async (): Promise<void> => {
    const reader = createDigestingReader(readFile);
    await reader.readFile(file).catch(() => {});
    changed = Promise.withResolvers();
    watcher.watch(reader.digests);
  };
  await follow();
  return {
    folder,
    file,
    follow,
    changed: () => changed.promise,
    changes: () => changes,
    [Symbol.dispose]: () => {
      watcher[Symbol.dispose]();
      rmSync(folder, { recursive: true });
    },
  };
}

describe("a watched file", () => {
  it("is seen to change when it is written over", async () => {
    using at = await watched();
    writeFileSync(at.file, "two");
    await at.changed();
    expect(at.changes()).toBe(1);
  });

  it("is looked at when the system reports its name in another spelling", async () => {
    const folder = mkdtempSync(join(tmpdir(), "headgate-watch-"));
    writeFileSync(join(folder, "config.yaml"), "one");
    const { promise: looked, resolve: look } = Promise.withResolvers<void>();
    using watcher = createFileWatcher({
      readFile,
      setTimer: () => {
        look();
        return () => {};
      },
      onChange: () => {},
      onError: () => {},
    });
    watcher.watch(new Map([[join(folder, "Config.YAML"), "unreadable"]]));
    writeFileSync(join(folder, "config.yaml"), "two");
    await expect(looked).resolves.toBeUndefined();
    rmSync(folder, { recursive: true });
  });

  it("is not read again because a recording in its folder grows", async () => {
    const folder = mkdtempSync(join(tmpdir(), "headgate-watch-"));
    const [file, neighbour] = [join(folder, "config.yaml"), join(folder, "recordings.sqlite-wal")];
    for (const path of [file, neighbour]) writeFileSync(path, "one");
    const reader = createDigestingReader(readFile);
    await reader.readFile(file);
    let looks = 0;
    using watcher = createFileWatcher({
      readFile,
      setTimer: () => {
        looks++;
        return () => {};
      },
      onChange: () => {},
      onError: () => {},
    });
    watcher.watch(reader.digests);
    const seen = watch(folder);
    const event = once(seen, "change");
    writeFileSync(neighbour, "two");
    expect(await event).toEqual(["change", "recordings.sqlite-wal"]);
    expect(looks).toBe(0);
    writeFileSync(file, "two");
    await expect.poll(() => looks).toBe(1);
    seen.close();
    rmSync(folder, { recursive: true });
  });

  it("is seen to change when another takes its place, again and again", async () => {
    using at = await watched();
    for (const text of ["two", "three", "four"]) {
      writeFileSync(`${at.file}.new`, text);
      renameSync(`${at.file}.new`, at.file);
      await at.changed();
      await at.follow();
    }
    expect(at.changes()).toBe(3);
  });

  it("is seen to change when a link on the way to it is turned", async () => {
    using at = await watched("linked.yaml", (folder) => {
      mkdirSync(join(folder, "..one"));
      writeFileSync(join(folder, "..one", "linked.yaml"), "one");
      symlinkSync("..one", join(folder, "..data"));
      symlinkSync(join("..data", "linked.yaml"), join(folder, "linked.yaml"));
    });
    mkdirSync(join(at.folder, "..two"));
    writeFileSync(join(at.folder, "..two", "linked.yaml"), "two");
    symlinkSync("..two", join(at.folder, "..data_tmp"));
    renameSync(join(at.folder, "..data_tmp"), join(at.folder, "..data"));
    await at.changed();
    expect(at.changes()).toBe(1);
  });

  it("is seen to change where a link to it leads elsewhere", async () => {
    const elsewhere = mkdtempSync(join(tmpdir(), "headgate-elsewhere-"));
    try {
      writeFileSync(join(elsewhere, "real.yaml"), "one");
      using at = await watched("linked.yaml", (folder) => {
        symlinkSync(join(elsewhere, "real.yaml"), join(folder, "linked.yaml"));
      });
      writeFileSync(join(elsewhere, "real.yaml"), "two");
      await at.changed();
      expect(at.changes()).toBe(1);
    } finally {
      rmSync(elsewhere, { recursive: true });
    }
  });

  it("is seen to change when it goes and when it comes back", async () => {
    using at = await watched();
    rmSync(at.file);
    await at.changed();
    await at.follow();
    writeFileSync(at.file, "two");
    await at.changed();
    expect(at.changes()).toBe(2);
  });

  it("is seen to have changed before the watching began", async () => {
    using at = await watched();
    const reader = createDigestingReader(async () => "what stood there");
    await reader.readFile(at.file);
    const seen = Promise.withResolvers<void>();
    using late = createFileWatcher({
      readFile,
      setTimer: systemTimer,
      onChange: seen.resolve,
      onError: (place, error) => {
        seen.reject(new Error(`${place}: ${String(error)}`));
      },
    });
    late.watch(reader.digests);
    await expect(seen.promise).resolves.toBeUndefined();
  });

  it("is looked at once for many events, and not reported when its content is the same", async () => {
    const time = createFakeTime();
    const folder = mkdtempSync(join(tmpdir(), "headgate-watch-"));
    const file = join(folder, "config.yaml");
    writeFileSync(file, "one");
    const reads: string[] = [];
    let looked = Promise.withResolvers<void>();
    const reading = async (path: string): Promise<string> => {
      const text = await readFile(path);
      reads.push(text);
      looked.resolve();
      return text;
    };
    const reader = createDigestingReader(readFile);
    await reader.readFile(file);
    try {
      using watcher = createFileWatcher({
        readFile: reading,
        setTimer: time.setTimer,
        onChange: () => reads.push("changed"),
        onError: (place) => reads.push(place),
      });
      watcher.watch(reader.digests);
      await looked.promise;
      looked = Promise.withResolvers();
      for (const text of ["two", "three", "one"]) writeFileSync(file, text);
      while (time.pending() === 0) await readFile(file);
      await time.advance(100);
      await looked.promise;
      await time.advance(0);
      expect(reads).toEqual(["one", "one"]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("a file that cannot be read", () => {
  it("is remembered as such, so that it is seen when it can be", async () => {
    const reader = createDigestingReader(() => Promise.reject(new Error("gone")));
    await expect(reader.readFile("/nowhere/config.yaml")).rejects.toThrow("gone");
    expect([...reader.digests]).toEqual([["/nowhere/config.yaml", "unreadable"]]);
  });
});
