// Needed by bench load: "150 B call, one log line each".
import { writeSync } from "node:fs";

import type { LogDestination } from "./log.ts";

/** Options of a buffered destination. */
export interface BufferedDestinationOptions {
  /** Characters after which lines are written at once; 0 writes every line at once. */
  readonly flushAtLength?: number;
  /** Most characters that wait for a reader; lines beyond that are dropped. */
  readonly maxLength?: number;
  /** Whether other processes write to it too: lines are then written whole, as far as a pipe allows it. */
  readonly isShared?: boolean;
  /** Lines are written again after some were dropped. */
  readonly onResumed?: (dropped: number) => void;
  /** Writes bytes and says how many; throws as `writeSync` does. */
  readonly write?: (bytes: Buffer) => number;
}

const defaultFlushAtLength = 32 * 1024;
const defaultMaxLength = 1024 * 1024;
const flushAfterMs = 100;
/** What a pipe takes at once or not at all: PIPE_BUF of Linux. */
const wholeBytes = 4096;
/** How long the end of the process waits for a reader that takes nothing, and for one that takes something now and then. */
const lastFlushMs = { idle: 1000, all: 5000 };
const pauseMs = 10;

/** Nobody will ever read again. Any other error, such as a full disk or a full pipe, may pass. */
const finalErrors: ReadonlySet<unknown> = new Set(["EPIPE", "EBADF", "ECONNRESET", "ENOTCONN"]);

/**
 * Writes lines to a file descriptor, several at a time, and never waits for its reader. What cannot be written is kept
 * up to a bound and tried again; lines beyond that are dropped and counted.
 */
export class BufferedDestination implements LogDestination {
  readonly #write: (bytes: Buffer) => number;
  readonly #flushAtLength: number;
  readonly #maxLength: number;
  readonly #onResumed: ((dropped: number) => void) | undefined;
  readonly #isShared: boolean;
  #lines = "";
  /** What is being written; the rest of it after a part was accepted. */
  #rest: Buffer | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isBlocked = false;
  #isGone = false;
  /** When a reader that had stopped took something again. */
  #tookAt = 0;
  #droppedNow = 0;
  /** Lines dropped so far. */
  dropped = 0;

  constructor(descriptor: number, options: BufferedDestinationOptions = {}) {
    this.#write = options.write ?? ((bytes) => writeSync(descriptor, bytes));
    this.#flushAtLength = options.flushAtLength ?? defaultFlushAtLength;
    this.#maxLength = options.maxLength ?? defaultMaxLength;
    this.#onResumed = options.onResumed;
    this.#isShared = options.isShared ?? false;
    flushAtExit(this);
  }

  write(line: string): void {
    if (this.#isBlocked && this.#lines.length + line.length > this.#maxLength) {
      this.dropped++;
      this.#droppedNow++;
      return;
    }
    if (this.#isGone) return;
    this.#lines += line;
    if (!this.#isBlocked && this.#lines.length >= this.#flushAtLength) this.flush();
    else this.#schedule();
  }

  /** Writes what is buffered, as far as that is possible without waiting. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const wasBlocked = this.#isBlocked;
    this.#isBlocked = !this.#writeAll();
    if (this.#isBlocked) {
      this.#schedule();
    } else if (wasBlocked && this.#droppedNow > 0) {
      const dropped = this.#droppedNow;
      this.#droppedNow = 0;
      this.#onResumed?.(dropped);
    }
  }

  /** Writes what is buffered and waits a moment for a slow reader, because the process ends. */
  end(): void {
    const deadline = performance.now() + lastFlushMs.all;
    this.#tookAt = performance.now();
    this.flush();
    while (this.#isBlocked && performance.now() < Math.min(deadline, this.#tookAt + lastFlushMs.idle)) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pauseMs);
      this.flush();
    }
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => {
      this.flush();
    }, flushAfterMs).unref();
  }

  /** Whether everything could be written. */
  #writeAll(): boolean {
    for (;;) {
      if (this.#rest === undefined) {
        if (this.#lines === "") return true;
        this.#rest = Buffer.from(this.#lines);
        this.#lines = "";
      }
      try {
        const written = this.#write(this.#isShared ? wholeLines(this.#rest) : this.#rest);
        if (this.#isBlocked) this.#tookAt = performance.now();
        this.#rest = written < this.#rest.length ? this.#rest.subarray(written) : undefined;
      } catch (error) {
        const code = error instanceof Error && "code" in error ? error.code : undefined;
        if (!finalErrors.has(code)) return false;
        this.#isGone = true;
        this.#rest = undefined;
        this.#lines = "";
        return true;
      }
    }
  }
}

/** The lines at the beginning that a pipe takes at once; at least one. */
function wholeLines(bytes: Buffer): Buffer {
  if (bytes.length <= wholeBytes) return bytes;
  const fitting = bytes.lastIndexOf("\n", wholeBytes - 1);
  const end = fitting < 0 ? bytes.indexOf("\n") : fitting;
  return end < 0 ? bytes : bytes.subarray(0, end + 1);
}

/** All of a process, which has one logger or a few; their last lines are written when it exits. */
const open = new Set<BufferedDestination>();

function flushAtExit(destination: BufferedDestination): void {
  if (open.size === 0) {
    process.on("exit", () => {
      for (const one of open) one.end();
    });
  }
  open.add(destination);
}
