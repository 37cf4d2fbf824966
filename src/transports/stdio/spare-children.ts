import { GatewayError } from "../../errors.ts";
import type { SetTimer } from "../../lib/clock.ts";
import type { OpenChannel } from "../channel-link.ts";
import type { Channel, ChannelEvents } from "../transport.ts";

/** Who uses a process. */
export interface ChildUser {
  readonly events: ChannelEvents;
  readonly owner: string | undefined;
}

/** A process whose user can change. */
interface Handover {
  /** The owner of the current user. */
  readonly owner: string | undefined;
  /** Reports to the current user; to nobody while the process is spare. */
  readonly events: ChannelEvents;
  /** The channel to the process, with `release`. */
  channelOf(child: Channel): Channel;
}

interface SpareChild {
  readonly mayExit: boolean;
  readonly lend: (user: ChildUser) => Channel;
}

/** Creates the collection; a process that nobody takes is closed after `keepMs`. */
export function createSpareChildren(deps: { readonly setTimer: SetTimer; readonly keepMs: number }) {
  const spares = new Set<SpareChild>();

  function createHandover(first: ChildUser, onRelease: (owner: string | undefined) => void): Handover {
    let user: ChildUser | undefined = first;
    let withdraw: (() => void) | undefined;

    function release(child: Channel, channel: Channel, mayExit: boolean): void {
      const owner = user?.owner;
      user = undefined;
      const spare: SpareChild = {
        mayExit,
        lend(next) {
          withdraw?.();
          user = next;
          return channel;
        },
      };
      const stopTimer = deps.setTimer(deps.keepMs, () => {
        withdraw?.();
        void child.close("no longer needed");
      });
      withdraw = () => {
        stopTimer();
        spares.delete(spare);
      };
      spares.add(spare);
      onRelease(owner);
    }

    return {
      get owner() {
        return user?.owner;
      },
      events: {
        message: (bytes) => user?.events.message(bytes),
        malformed: (bytes, reason, unread) => user?.events.malformed(bytes, reason, unread),
        closed(error) {
          withdraw?.();
          user?.events.closed(error);
        },
      },
      channelOf(child) {
        const channel: Channel = {
          incarnation: child.incarnation,
          send: (message) => child.send(message),
          release: (mayExit) => release(child, channel, mayExit),
          close: (reason) => child.close(reason),
        };
        return channel;
      },
    };
  }

  return {
    createHandover,
    /** Takes a process for a new user; `start` starts another if the process turns out to exit. */
    take({ events, owner }: ChildUser, start: OpenChannel): Channel | undefined {
      const [spare] = spares;
      if (spare === undefined) return undefined;
      const lend = (own: ChannelEvents): Channel => spare.lend({ events: own, owner });
      return spare.mayExit ? lendProbed(lend, start, events) : lend(events);
    },
  };
}

/**
 * Gives a process that has been probed to its next user. Some older servers exit after a request that comes before
 * `initialize`. If this one does so before its user hears from it, a new process receives what it was sent.
 */
function lendProbed(lend: (events: ChannelEvents) => Channel, start: OpenChannel, events: ChannelEvents): Channel {
  let unanswered: Buffer[] | undefined = [];
  let isClosing = false;
  let current: Channel | Promise<Channel> = lend({
    message(bytes) {
      unanswered = undefined;
      events.message(bytes);
    },
    malformed: (bytes, reason, unread) => events.malformed(bytes, reason, unread),
    closed(error) {
      const repeated = unanswered;
      unanswered = undefined;
      if (repeated === undefined || isClosing) {
        events.closed(error);
        return;
      }
      current = startAgain(repeated);
    },
  });
  let { incarnation } = current;

  async function startAgain(repeated: readonly Buffer[]): Promise<Channel> {
    try {
      const channel = await start(events);
      ({ incarnation } = channel);
      for (const message of repeated) await channel.send(message);
      return channel;
    } catch (error) {
      const failure = GatewayError.from(error);
      events.closed(failure);
      return closedChannel(failure);
    }
  }

  return {
    get incarnation() {
      return incarnation;
    },
    async send(message) {
      const channel = await current;
      if (unanswered === undefined) return channel.send(message);
      unanswered.push(message);
      try {
        return await channel.send(message);
      } catch (error) {
        // A process that exits is replaced, and its successor receives the message.
        if (isClosing) throw error;
        return undefined;
      }
    },
    release: async (mayExit) => (await current).release?.(mayExit),
    async close(reason) {
      isClosing = true;
      await (await current).close(reason);
    },
  };
}

/** The channel to a process that could not be started. */
function closedChannel(failure: GatewayError): Channel {
  return {
    incarnation: "none",
    send: async () => {
      throw failure;
    },
    close: async () => {},
  };
}
