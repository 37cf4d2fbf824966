import type { Frame } from "./contract.ts";
import { maxPackSpan } from "./pack.ts";
import type { PackBufferWriter } from "./pack-wire.ts";

/** Frames of an exchange that goes on; kept with the exchange, since a map of all would outlive its frames in memory. */
export interface FrameGroup {
  readonly frames: Frame[];
  /** Where it stands among those that go on; -1 where it does not. */
  index: number;
}

/** Makes the group of a new exchange. */
export function createFrameGroup(): FrameGroup {
  return { frames: [], index: -1 };
}

/** Puts frames together by their exchanges, and packs those of an exchange when it has ended. */
export interface ExchangeBatcher {
  add(frame: Frame, group: FrameGroup | undefined): void;
  /** Packs what goes on too. */
  packOpen(): void;
}

/** Makes the gathering of what goes to a writer of packs. */
export function createExchangeBatcher(wire: Pick<PackBufferWriter, "add">): ExchangeBatcher {
  const going: FrameGroup[] = [];

  function pack(group: FrameGroup): void {
    wire.add(group.frames);
    group.frames.length = 0;
  }

  function leave(group: FrameGroup): void {
    const last = going.pop();
    if (last !== undefined && last !== group) {
      going[group.index] = last;
      last.index = group.index;
    }
    group.index = -1;
  }

  return {
    add: (frame, group) => {
      if (group === undefined) {
        wire.add([frame]);
        return;
      }
      const { frames } = group;
      const [first] = frames;
      if (first !== undefined && frame.seq - first.seq >= maxPackSpan) pack(group);
      frames.push(frame);
      // An answer or a notification that goes out is the last that is heard of an exchange.
      const isLast = frame.passing === "sent" && frame.kind !== "request" && frame.kind !== "decision";
      if (isLast) {
        pack(group);
        if (group.index >= 0) leave(group);
      } else if (group.index < 0) group.index = going.push(group) - 1;
    },
    packOpen: () => {
      for (const group of going) {
        pack(group);
        group.index = -1;
      }
      going.length = 0;
    },
  };
}
