import type { LogDestination } from "./log.ts";

/** A write for each line would cost more than making it. */
const flushAtLength = 8 * 1024;
/** How long a line may wait for others. */
const flushAfterMs = 100;

/**
 * Gathers lines and hands them on some at a time. Not left to the destination: it measures all that it holds anew with
 * every line, which costs several times as much as the line.
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

  /** Hands on what has been gathered. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const lines = this.#lines;
    this.#lines = "";
    if (lines !== "") this.#destination.write(lines);
  }
}

/** Weakly held: whoever drops a log has said all that it wanted to. */
const open = new Set<WeakRef<BufferedDestination>>();

/** However a process ends, short of being killed, its last lines are written. */
function flushAtExit(gathering: BufferedDestination): void {
  if (open.size === 0) {
    process.on("exit", () => {
      for (const reference of open) reference.deref()?.flush();
    });
  }
  for (const reference of open) {
    // The first stays, so that the listener above is added only once.
    if (reference.deref() === undefined && open.size > 1) open.delete(reference);
  }
  open.add(new WeakRef(gathering));
}
