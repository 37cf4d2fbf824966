import { hash, timingSafeEqual } from "node:crypto";
import type { Principal } from "../core/exchange.ts";
import {
  type Authentication,
  authenticationFailure,
  type Authenticator,
  malformedCredentials,
  missingCredentials,
  readBearer,
} from "./authenticator.ts";
import { expandScopes, type ImpliedScopes } from "./token-principal.ts";

/** A configured key; only its hash is known. */
export interface ApiKeyEntry {
  /** `sha256:` and the hash in base64url, see `hashApiKey`. */
  readonly hash: string;
  readonly scopes: readonly string[];
  /** Facts about its owner, for policies and records. */
  readonly labels: Readonly<Record<string, string>>;
  /** Expiry, in milliseconds since 1970. */
  readonly expiresAt?: number | undefined;
}

export interface ApiKeyOptions {
  /** The name of this authenticator; part of the ids of its principals. */
  readonly name: string;
  /** Lower-case name of the header with the key; undefined for a bearer token. */
  readonly header: string | undefined;
  readonly keys: Readonly<Record<string, ApiKeyEntry>>;
  readonly impliedScopes: ImpliedScopes;
  readonly wall: () => number;
}

const keyPrefix = "hgk_";
const hashPrefix = "sha256:";
const hashForm = /^sha256:[\w-]{43}$/u;

interface KnownApiKey {
  readonly digest: Buffer;
  readonly outcome: Authentication;
  readonly expiresAt: number;
}

/**
 * Authenticates with configured keys. Only hashes are kept. Keys are looked up by the first bytes of their hash, which a
 * caller cannot choose, and a whole hash is always compared, in constant time.
 */
export function createApiKeys(options: ApiKeyOptions): Authenticator {
  const known = new Map<string, KnownApiKey>();
  for (const [id, entry] of Object.entries(options.keys)) {
    const digest = Buffer.from(entry.hash.slice(hashPrefix.length), "base64url");
    const expiresAt = entry.expiresAt ?? Number.POSITIVE_INFINITY;
    const outcome: Authentication = { ok: true, principal: principalOf(options, id, entry) };
    known.set(bucketOf(digest), { digest, outcome, expiresAt });
  }
  const unknown: KnownApiKey = { digest: Buffer.alloc(32), outcome: refused, expiresAt: 0 };

  return {
    authenticate: (credentials) => {
      const bearer = options.header === undefined ? readBearer(credentials) : undefined;
      if (bearer?.kind === "malformed") return malformedCredentials;
      const key =
        options.header === undefined
          ? bearer?.kind === "token"
            ? bearer.token
            : undefined
          : credentials.header(options.header);
      if (key === undefined) return missingCredentials;
      const digest = hash("sha256", key, "buffer");
      const found = known.get(bucketOf(digest)) ?? unknown;
      const isSame = timingSafeEqual(found.digest, digest);
      if (isSame && found !== unknown) return options.wall() < found.expiresAt ? found.outcome : expired;
      // A bearer token without our prefix may be for another authenticator.
      return options.header !== undefined || key.startsWith(keyPrefix) ? refused : foreign;
    },
  };
}

const refused: Authentication = authenticationFailure("invalid_token", "the key is not valid");
const expired: Authentication = authenticationFailure("invalid_token", "the key has expired");
const foreign: Authentication = authenticationFailure("invalid_token", "the key is not valid", { isForeign: true });

/** Formats random bytes as a key, with a prefix that distinguishes it from other tokens. */
export function formatApiKey(random: Uint8Array): string {
  return keyPrefix + Buffer.from(random).toString("base64url");
}

/** Hashes a key for the configuration. A single hash is enough: keys are random and long, unlike passwords. */
export function hashApiKey(key: string): string {
  return hashPrefix + hash("sha256", key, "base64url");
}

export function isApiKeyHash(text: string): boolean {
  return hashForm.test(text);
}

/** The prefix of the principal ids of an authenticator's keys. */
export function keyIdPrefix(authenticator: string): string {
  return `key:${authenticator}/`;
}

function principalOf({ name, impliedScopes }: ApiKeyOptions, id: string, entry: ApiKeyEntry): Principal {
  const { scopes, labels, expiresAt } = entry;
  return {
    id: `${keyIdPrefix(name)}${id}`,
    kind: "key",
    scopes: expandScopes(scopes, impliedScopes),
    claims: { sub: id, ...labels },
    ...(expiresAt === undefined ? {} : { expiresAt }),
  };
}

function bucketOf(digest: Buffer): string {
  return digest.toString("latin1", 0, 8);
}
