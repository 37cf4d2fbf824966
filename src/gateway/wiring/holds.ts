import { pause } from "../../core/interceptors/action.ts";
import type { HeldMessages } from "../../core/interceptors/held-messages.ts";
import { defineInterceptor, type MessageInterceptor } from "../../core/interceptors/interceptor.ts";
import type { LiveMessage } from "../../recorder/filter/live.ts";

/** Which messages to hold, and what happens to those that are not decided in time. */
export interface HoldOptions {
  /** A filter of `headgate traffic`, with terms that are known while a message is in transit. */
  readonly filter: string;
  readonly timeoutMs: number;
  readonly onTimeout: "block" | "continue";
}

/** An open hold, or why it was not opened. */
export type OpenedHold =
  | {
      readonly ok: true;
      /** The interceptor under whose name the messages are held. */
      readonly name: string;
      /** Releases its messages and holds no more. */
      readonly close: () => void;
    }
  | { readonly ok: false; readonly problem: string };

/** The holds that people have opened while the gateway runs. */
export interface Holds {
  open(options: HoldOptions): Promise<OpenedHold>;
  readonly interceptors: readonly MessageInterceptor[];
}

/** How many holds may be open at once. */
const maxHolds = 16;

/**
 * Creates the holds of a gateway. They come after all other interceptors and before policy and validation, which check
 * what a person releases. Without a hold there is no step, and no cost.
 */
export function createHolds(heldMessages: HeldMessages, onChange: () => void): Holds {
  const open = new Map<string, MessageInterceptor>();
  let opened = 0;
  return {
    get interceptors() {
      return [...open.values()];
    },
    open: async ({ filter, timeoutMs, onTimeout }) => {
      // Imported only when needed, because patterns bring a large library.
      const { createLiveFilter } = await import("../../recorder/filter/live.ts");
      const live = createLiveFilter(filter);
      if (!live.ok) return live;
      if (open.size >= maxHolds) return { ok: false, problem: `${maxHolds} holds are already open; close one` };
      opened++;
      const name = `hold-${opened}`;
      const onMessage = () => pause({ timeoutMs, onTimeout, reason: filter });
      // A message that was already in the pipeline when the hold closed still passes its step.
      const when = (message: LiveMessage): boolean => open.has(name) && live.matches(message);
      open.set(name, defineInterceptor({ name, priority: Infinity, when, onMessage }));
      onChange();
      return {
        ok: true,
        name,
        close: () => {
          if (!open.delete(name)) return;
          onChange();
          heldMessages.releaseOf(name, "the filter that held it has ended");
        },
      };
    },
  };
}
