import { createHmac } from "node:crypto";
import { readFileSync, statSync } from "node:fs";

import { type Peer, unreadableConfig } from "../../cluster/peer-list.ts";
import type { Config } from "../../config/config.ts";
import { canonicalText } from "../../lib/canonical-json.ts";
import type { Logger } from "../../telemetry/log.ts";

/** A digest of the configuration that all gateways should share. */
export interface ConfigDigest {
  /** Another configuration is in use. */
  readonly follow: (config: Config) => void;
  /** The age limit of sessions as of now. */
  readonly sessionAge: () => number;
  /** The digest as of now: approved definitions change without a reload. */
  readonly read: () => string;
}

/**
 * Creates the digest of routes with their rules, authenticators, interceptors, limits, and approved definitions. It is
 * keyed, so that other users of the store cannot guess what is configured.
 */
export function createConfigDigest(first: Config): ConfigDigest {
  let config = first;
  let text: string | undefined;
  let digest = "";
  let lockChangedAt: number | undefined;
  return {
    follow: (next) => {
      config = next;
      text = undefined;
    },
    sessionAge: () => config.sessions.maxAge,
    read: () => {
      const { routes, auth, interceptors, limits, sessions, drift, cluster, state } = config;
      const changedAt = drift && statSync(drift.lock, { throwIfNoEntry: false })?.mtimeMs;
      if (text !== undefined && changedAt === lockChangedAt) return digest;
      lockChangedAt = changedAt;
      text ??= canonicalText([routes, auth, interceptors, limits, sessions, drift?.mode]);
      digest = createHmac("sha256", cluster?.secret ?? state.keys?.at(-1) ?? "")
        .update(text)
        .update(drift === undefined || changedAt === undefined ? "" : readFileSync(drift.lock))
        .digest("base64url")
        .slice(0, 16);
      return digest;
    },
  };
}

/** Compares the configuration of this gateway with those of others. */
export interface ConfigComparison {
  /** How many of the others have another one. */
  readonly count: number;
  compare(own: string, peers: ReadonlyMap<string, Pick<Peer, "config">>): void;
}

/** Creates the comparison; each difference is logged once. */
export function createConfigComparison(log: Logger): ConfigComparison {
  let known = "";
  let count = 0;
  return {
    get count() {
      return count;
    },
    compare: (own, peers) => {
      const others = [...peers].filter(([, { config }]) => config !== own).map(([node]) => node);
      const unreadable = others.filter((node) => peers.get(node)?.config === unreadableConfig).join(" ");
      count = others.length;
      const text = `${others.join(" ")} ${unreadable}`.trim();
      if (text === known) return;
      known = text;
      if (unreadable !== "") {
        const advice = "give all gateways the same `cluster.secret`, or the same `state.keys`";
        log.error(
          { gateways: unreadable, advice },
          "cannot read what other gateways announce; nothing is forwarded to them",
        );
      } else if (count > 0) log.warn({ gateways: others.join(" ") }, "other gateways have a different configuration");
      else log.info({}, "all gateways have the same configuration");
    },
  };
}
