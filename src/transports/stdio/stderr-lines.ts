/** Takes what a child writes to its standard error and gives it on as lines of text. */
export interface StderrLines {
  push(chunk: Buffer): void;
  /** Gives the unfinished last line. */
  end(): void;
  /** The last lines, oldest first. */
  tail(): readonly string[];
}

const maxLineBytes = 8 * 1024;
const tailLength = 10;
const LF = 0x0a;
const CR = 0x0d;

/**
 * Makes a splitter of log text. A lone CR ends a line as well, for progress bars write nothing else; a line over
 * 8 KiB is given in pieces, so that whatever a child writes, little is held.
 */
export function createStderrLines(onLine: (line: string) => void): StderrLines {
  const held = Buffer.alloc(maxLineBytes);
  let used = 0;
  const recent: string[] = [];

  function give(line: Buffer): void {
    const text = line.toString("utf8").trimEnd();
    if (text === "") return;
    recent.push(text);
    if (recent.length > tailLength) recent.shift();
    onLine(text);
  }

  function flush(): void {
    if (used === 0) return;
    const line = held.subarray(0, used);
    used = 0;
    give(line);
  }

  function hold(chunk: Buffer, from: number, to: number): void {
    let at = from;
    while (at < to) {
      const copied = chunk.copy(held, used, at, Math.min(to, at + maxLineBytes - used));
      used += copied;
      at += copied;
      if (used === maxLineBytes) flush();
    }
  }

  return {
    push(chunk) {
      let at = 0;
      for (let i = 0; i < chunk.length; i += 1) {
        if (chunk[i] !== LF && chunk[i] !== CR) continue;
        hold(chunk, at, i);
        flush();
        at = i + 1;
      }
      hold(chunk, at, chunk.length);
    },
    end: flush,
    tail: () => [...recent],
  };
}
