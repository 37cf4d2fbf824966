import { describe, expect, it } from "vitest";

import { BufferedDestination } from "./buffered-destination.ts";

function failing(code: string): Error {
  return Object.assign(new Error(code), { code });
}

/** A destination whose writes a test blocks and lets go. */
function blockable(maxLength: number) {
  const state = { code: "", taken: "", most: Number.POSITIVE_INFINITY };
  const resumed: number[] = [];
  const destination = new BufferedDestination(2, {
    flushAtLength: 0,
    maxLength,
    onResumed: (dropped) => resumed.push(dropped),
    write: (bytes) => {
      if (state.code !== "") throw failing(state.code);
      const part = bytes.subarray(0, state.most);
      state.taken += part.toString();
      return part.length;
    },
  });
  return { state, resumed, destination };
}

describe("a log that cannot be written", () => {
  it.each(["EAGAIN", "ENOSPC", "EDQUOT", "EIO"])(
    "after %s keeps lines up to its bound, drops and counts the others, and goes on",
    (code) => {
      const { state, resumed, destination } = blockable(40);
      destination.write("before\n");
      state.code = code;
      for (let line = 0; line < 1000; line++) destination.write(`line ${line}\n`);
      expect(destination.dropped).toBeGreaterThan(900);
      state.code = "";
      destination.flush();
      expect(resumed).toEqual([destination.dropped]);
      destination.write("after\n");
      expect(state.taken).toMatch(/^before\nline 0\n(?:line \d+\n)+after\n$/u);
      destination.flush();
      expect(resumed).toHaveLength(1);
    },
  );

  it("continues a line where the reader stopped taking it", () => {
    const { state, destination } = blockable(1000);
    state.most = 3;
    destination.write("one line\n");
    destination.write("another\n");
    expect(state.taken).toBe("one line\nanother\n");
  });

  it.each(["EPIPE", "EBADF"])("is silent after %s, because nobody reads any more", (code) => {
    const { state, destination } = blockable(40);
    state.code = code;
    for (let line = 0; line < 1000; line++) destination.write(`line ${line}\n`);
    destination.end();
    state.code = "";
    destination.write("after\n");
    expect(state.taken).toBe("");
  });

  it("holds up the end of the process for a moment only", () => {
    const { state, destination } = blockable(40);
    state.code = "EAGAIN";
    destination.write("never read\n");
    // Returns although nobody reads: the limit of the test is the bound.
    destination.end();
    expect(state.taken).toBe("");
    // The exit of the test's own process must not wait for it again.
    state.code = "EPIPE";
  });

  it("waits at the end of the process for a reader that takes little at a time", () => {
    const turns = 20;
    let taken = 0;
    let isFull = false;
    const destination = new BufferedDestination(2, {
      write: () => {
        // As a pipe that is full whenever its reader has not had its turn.
        isFull = !isFull;
        if (isFull) throw failing("EAGAIN");
        taken++;
        return 1;
      },
    });
    destination.write("x".repeat(turns));
    destination.end();
    expect(taken).toBe(turns);
  });
});
