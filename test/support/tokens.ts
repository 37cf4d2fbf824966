import { text } from "node:stream/consumers";

import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK } from "jose";

import type { HttpClient, HttpClientRequest } from "../../src/auth/http-client.ts";
import { listenOnLoopback } from "./demo-http.ts";

/** What a token says, beside what every one of the issuer says. */
export interface TokenFacts {
  readonly subject?: string;
  readonly audience?: string | readonly string[];
  readonly scope?: string;
  /** Seconds from now; may have passed. */
  readonly expiresIn?: number;
  readonly claims?: Readonly<Record<string, unknown>>;
  /** The `typ` header; null for none. */
  readonly type?: string | null;
  readonly algorithm?: string;
  readonly keyId?: string;
}

/** The keys of an issuer and the tokens that it signs with them. */
export interface Keyring {
  /** Signs a token. */
  readonly token: (facts: TokenFacts) => Promise<string>;
  /** Signs header and claims as these texts. */
  readonly signed: (header: string, claims: string) => Promise<string>;
  /** Signs with another key from now on; the old one is withdrawn unless it is kept. */
  readonly rotate: (options?: { readonly keepsOld?: boolean }) => Promise<void>;
  /** The public keys, as an issuer publishes them. */
  readonly published: () => { readonly keys: readonly JWK[] };
}

/** Makes the keys of an issuer. Times are taken from the clock of this machine unless another is given. */
export async function createKeyring(issuer: string, wall: () => number = Date.now): Promise<Keyring> {
  let keys = [await newKey("key-1")];
  let made = 1;
  return {
    token: (facts) => sign(issuer, keys[0], facts, wall),
    signed: async (header, claims) => {
      const [key] = keys;
      if (key === undefined) throw new Error("the issuer has no key");
      const [head, payload] = [header, claims].map((part) => Buffer.from(part).toString("base64url"));
      const signature = await crypto.subtle.sign(
        { name: "ECDSA", hash: "SHA-256" },
        key.private,
        Buffer.from(`${head}.${payload}`),
      );
      return `${head}.${payload}.${Buffer.from(signature).toString("base64url")}`;
    },
    rotate: async ({ keepsOld = false } = {}) => {
      made += 1;
      const next = await newKey(`key-${made}`);
      keys = keepsOld ? [next, ...keys] : [next];
    },
    published: () => ({ keys: keys.map(({ public: key }) => key) }),
  };
}

/** An authorization server that answers in this process, for tests without a network. */
export interface FakeAsk {
  readonly ask: HttpClient;
  /** What was asked so far. */
  readonly questions: readonly HttpClientRequest[];
  /** How often a URL was asked for. */
  readonly asked: (url: string) => number;
}

/** Answers by URL; what is thrown is a server that cannot be reached, and a URL that is not there is 404. */
export function fakeAsk(
  answers: Readonly<Record<string, (question: HttpClientRequest) => FakeAnswer | Promise<FakeAnswer>>>,
): FakeAsk {
  const questions: HttpClientRequest[] = [];
  return {
    questions,
    asked: (url) => questions.filter((question) => question.url === url).length,
    ask: async (question) => {
      questions.push(question);
      const { status = 200, json, headers = {} } = (await answers[question.url]?.(question)) ?? { status: 404 };
      return { status, json, header: (name) => headers[name] };
    },
  };
}

/** What a fake authorization server answers. */
export interface FakeAnswer {
  readonly status?: number;
  readonly json?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An issuer of tokens as far as a resource server sees it: metadata, keys and introspection. */
export interface TestIssuer extends AsyncDisposable, Keyring {
  readonly url: string;
  /** How often each path was asked for. */
  readonly asked: (path: string) => number;
  /** Answers every request with this status; undefined for normal again. */
  readonly fail: (status: number | undefined) => void;
  /** What introspection says of a token. */
  readonly introspections: Map<string, Readonly<Record<string, unknown>>>;
}

interface SigningKey {
  readonly id: string;
  readonly private: CryptoKey;
  readonly public: JWK;
}

/** Starts an issuer on a free port of this machine. */
export async function startIssuer(): Promise<TestIssuer> {
  const counts = new Map<string, number>();
  const introspections = new Map<string, Readonly<Record<string, unknown>>>();
  let failing: number | undefined;
  const server = await listenOnLoopback((request, response) => {
    const path = request.url ?? "";
    counts.set(path, (counts.get(path) ?? 0) + 1);
    const reply = (body: unknown): void => {
      response.writeHead(failing ?? 200, { "content-type": "application/json" }).end(JSON.stringify(body));
    };
    if (path === "/.well-known/oauth-authorization-server") {
      reply({
        issuer: url,
        jwks_uri: `${url}/jwks`,
        introspection_endpoint: `${url}/introspect`,
        token_endpoint: `${url}/token`,
      });
    } else if (path === "/jwks") {
      reply(keyring.published());
    } else if (path === "/introspect") {
      void text(request).then((body) => {
        const token = new URLSearchParams(body).get("token") ?? "";
        reply(introspections.get(token) ?? { active: false });
      });
    } else {
      response.writeHead(404).end();
    }
  });
  const url = server.origin;
  const keyring = await createKeyring(url);
  return {
    ...keyring,
    url,
    introspections,
    asked: (path) => counts.get(path) ?? 0,
    fail: (status) => {
      failing = status;
    },
    [Symbol.asyncDispose]: server[Symbol.asyncDispose],
  };
}

async function newKey(id: string): Promise<SigningKey> {
  const pair = await generateKeyPair("ES256", { extractable: true });
  return {
    id,
    private: pair.privateKey,
    public: { ...(await exportJWK(pair.publicKey)), kid: id, alg: "ES256" },
  };
}

async function sign(
  issuer: string,
  key: SigningKey | undefined,
  facts: TokenFacts,
  wall: () => number,
): Promise<string> {
  if (key === undefined) throw new Error("the issuer has no key");
  const { subject = "alice", audience, scope, expiresIn = 300, claims = {}, type = "at+jwt" } = facts;
  const now = Math.floor(wall() / 1000);
  const token = new SignJWT({ ...(scope === undefined ? {} : { scope }), ...claims })
    .setProtectedHeader({
      alg: facts.algorithm ?? "ES256",
      kid: facts.keyId ?? key.id,
      ...(type === null ? {} : { typ: type }),
    })
    .setIssuer(issuer)
    .setSubject(subject)
    .setIssuedAt(now)
    .setExpirationTime(now + expiresIn);
  if (audience !== undefined) token.setAudience(typeof audience === "string" ? audience : [...audience]);
  return token.sign(key.private);
}

/** The header with which a caller shows a token. */
export function bearer(token: string): { readonly authorization: string } {
  return { authorization: `Bearer ${token}` };
}
