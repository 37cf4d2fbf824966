import { GatewayError } from "../../errors.ts";
import type { LegacySession } from "./legacy-peer.ts";

/** Resources that somebody listens to; the server is asked once for each, however many listen. */
export interface ResourceSubscriptions {
  /** Begins to listen; resolves with those of them that the server agreed to watch. */
  join(uris: readonly string[]): Promise<readonly string[]>;
  /** Ends listening; the server is told of what nobody listens to any more. */
  leave(uris: readonly string[]): void;
  /** Asks for everything again, because the server has forgotten it. */
  renew(): void;
  /** Forgets everything, because there is no server any more that could be told. */
  forget(): void;
}

interface ResourceSubscription {
  listeners: number;
  isAgreed: Promise<boolean>;
}

/** Makes the subscriptions of one legacy session. */
export function createResourceSubscriptions(
  peer: LegacySession,
  onTrouble: (error: GatewayError) => void,
): ResourceSubscriptions {
  const byUri = new Map<string, ResourceSubscription>();

  function tell(method: string, uri: string): Promise<boolean> {
    return peer.sendRequest(method, JSON.stringify({ uri })).then(
      () => true,
      (error: unknown) => {
        onTrouble(GatewayError.from(error));
        return false;
      },
    );
  }

  function leave(uri: string): void {
    const subscription = byUri.get(uri);
    if (subscription === undefined || --subscription.listeners > 0) return;
    byUri.delete(uri);
    // After the server has agreed, or it could hear the two in the wrong order; then somebody may listen again.
    void subscription.isAgreed.then(async (isAgreed) => {
      if (isAgreed && !byUri.has(uri)) await tell("resources/unsubscribe", uri);
    });
  }

  async function join(uri: string): Promise<boolean> {
    let subscription = byUri.get(uri);
    if (subscription === undefined) {
      subscription = { listeners: 0, isAgreed: tell("resources/subscribe", uri) };
      byUri.set(uri, subscription);
    }
    subscription.listeners++;
    const isAgreed = await subscription.isAgreed;
    if (!isAgreed) leave(uri);
    return isAgreed;
  }

  return {
    join: async (uris) => {
      const agreed = await Promise.all(uris.map((uri) => join(uri)));
      return uris.filter((_, index) => agreed[index]);
    },
    leave: (uris) => {
      for (const uri of uris) leave(uri);
    },
    renew: () => {
      for (const [uri, subscription] of byUri) subscription.isAgreed = tell("resources/subscribe", uri);
    },
    forget: () => {
      byUri.clear();
    },
  };
}
