// Needed by bench load: "150 B call, one log line each".
import type { LogDestination } from "./log.ts";

const flushAtLength = 8 * 1024;
const flushAfterMs = 100;

/**
 * Buffers lines and writes several at a time. pino's own buffer measures everything it holds with each line, which
 * costs several times as much as the line.
 */
export class BufferedDestination implements LogDestination {
  readonly #destination: LogDestination;
  #lines = "";
  #timer: NodeJS.Timeout | undefined;

  constructor(destination: LogDestination) {
    this.#destination = destination;
    flushAtExit(this);
  }

  write(line: string): void {
    this.#lines += line;
    if (this.#lines.length >= flushAtLength) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), flushAfterMs).unref();
  }

  /** Writes what is buffered. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const lines = this.#lines;
    this.#lines = "";
    if (lines !== "") this.#destination.write(lines);
  }
}

/** All of a process, which has one logger or a few; their last lines are written when it exits. */
const open = new Set<BufferedDestination>();

function flushAtExit(destination: BufferedDestination): void {
  if (open.size === 0) {
    process.on("exit", () => {
      for (const one of open) one.flush();
    });
  }
  open.add(destination);
}
