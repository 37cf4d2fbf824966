import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";

import { exportJWK, generateKeyPair, jwtVerify, type CryptoKey } from "jose";
import { Provider } from "oidc-provider";
import type { Adapter, AdapterPayload, Configuration, KoaContextWithOIDC } from "oidc-provider";

/** A real authorization server, on loopback. */
export interface OAuthServer extends AsyncDisposable {
  readonly issuer: string;
  /** Asks for a token with the credentials of a registered client. */
  readonly token: (fields: Readonly<Record<string, string>>, client?: OAuthClient) => Promise<string>;
  /** Takes a token back. */
  readonly revoke: (token: string) => Promise<void>;
  /** Plays the browser of a user who agrees to everything; answers with the URL that the client is sent back to. */
  readonly approve: (authorizationUrl: URL) => Promise<URL>;
  /** Where the console may be sent back to. */
  readonly consoleRedirects: string[];
  /** The forms that came to the token endpoint, in order. */
  readonly tokenRequests: readonly Readonly<Record<string, unknown>>[];
}

/** A client that the server knows. */
export interface OAuthClient {
  readonly id: string;
  readonly secret: string;
}

/** An agent of its own, the gateway as a client, and its console. */
export const agentClient: OAuthClient = { id: "agent", secret: "agent-secret-of-some-length" };
export const gatewayClient: OAuthClient = { id: "gateway", secret: "gateway-secret-of-some-length" };
export const consoleClient: OAuthClient = { id: "console", secret: "console-secret: 100% sure+" };

const tokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange";
const scopes = "files:read files:write upstream:call";

/** What kind of tokens the server issues. */
export interface OAuthServerOptions {
  readonly format?: "jwt" | "opaque";
  /** Who signs in at the browser; a function if others do later. */
  readonly user?: string | (() => string);
  /** Claims of people besides their subject. */
  readonly people?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** Starts oidc-provider with resource indicators, introspection, registration, and a grant for token exchange. */
export async function startOAuthServer({
  format = "jwt",
  user = "alice",
  people = {},
}: OAuthServerOptions = {}): Promise<OAuthServer> {
  const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
  const jwk = { ...(await exportJWK(privateKey)), kid: "es", alg: "ES256", use: "sig" };
  const http = createServer();
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  // Only a server on a pipe has another kind of address.
  const issuer = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const consoleRedirects: string[] = [];
  const provider = new Provider(issuer, {
    ...configurationOf(format, jwk),
    adapter: (kind: string) => storeFor(kind, consoleRedirects),
    findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id, ...people[id] }) }),
    claims: { profile: ["preferred_username", "groups"], email: ["email", "email_verified"] },
  });
  const tokenRequests: Readonly<Record<string, unknown>>[] = [];
  provider.registerGrantType(tokenExchange, (ctx) => exchangeToken(provider, ctx, publicKey), [
    "subject_token",
    "subject_token_type",
    "requested_token_type",
    "audience",
    "scope",
    "resource",
  ]);
  provider.use(async (ctx, next) => {
    await next();
    if (ctx.path === "/token") tokenRequests.push({ ...ctx.oidc.params });
  });
  provider.on("server_error", (_ctx, error) => {
    console.error(error);
  });
  const handle = provider.callback();
  http.on("request", (request, response) => {
    if (request.url?.startsWith("/interaction/") === true) {
      void agree(provider, request, response, typeof user === "string" ? user : user());
    } else {
      void handle(request, response);
    }
  });
  return {
    issuer,
    tokenRequests,
    consoleRedirects,
    token: async (fields, client = agentClient) => {
      const basic = Buffer.from(`${client.id}:${client.secret}`).toString("base64");
      const answer = await fetch(`${issuer}/token`, {
        method: "POST",
        headers: { authorization: `Basic ${basic}` },
        body: new URLSearchParams(fields),
      });
      const { access_token: token } = (await answer.json()) as { readonly access_token?: string };
      if (token === undefined) throw new Error(`no token was issued (${answer.status})`);
      return token;
    },
    revoke: async (token) => {
      const basic = Buffer.from(`${agentClient.id}:${agentClient.secret}`).toString("base64");
      const answer = await fetch(`${issuer}/token/revocation`, {
        method: "POST",
        headers: { authorization: `Basic ${basic}` },
        body: new URLSearchParams({ token }),
      });
      if (answer.status !== 200) throw new Error(`the token was not taken back (${answer.status})`);
    },
    approve,
    [Symbol.asyncDispose]: async () => {
      const closed = once(http, "close");
      http.close();
      http.closeAllConnections();
      await closed;
    },
  };
}

/** Keeps what the server has issued, for as long as the server is there. */
function storeFor(kind: string, consoleRedirects: readonly string[]): Adapter {
  const entries = new Map<string, AdapterPayload>();
  const findBy = async (name: "uid" | "userCode", value: string): Promise<AdapterPayload | undefined> =>
    [...entries.values()].find((entry) => entry[name] === value);
  return {
    upsert: async (id, payload) => void entries.set(id, payload),
    // The port of a gateway is known when it listens, which is after it was told its client.
    find: async (id) =>
      kind === "Client" && id === consoleClient.id
        ? { client_id: id, client_secret: consoleClient.secret, redirect_uris: [...consoleRedirects] }
        : entries.get(id),
    findByUid: (uid) => findBy("uid", uid),
    findByUserCode: (code) => findBy("userCode", code),
    consume: async (id) => void Object.assign(entries.get(id) ?? {}, { consumed: Math.floor(Date.now() / 1000) }),
    destroy: async (id) => void entries.delete(id),
    revokeByGrantId: async (grantId) => {
      for (const [id, entry] of entries) if (entry.grantId === grantId) entries.delete(id);
    },
  };
}

function configurationOf(format: "jwt" | "opaque", jwk: object): Configuration {
  return {
    jwks: { keys: [jwk] },
    clients: [
      {
        client_id: agentClient.id,
        client_secret: agentClient.secret,
        grant_types: ["client_credentials"],
        redirect_uris: [],
        response_types: [],
      },
      {
        client_id: gatewayClient.id,
        client_secret: gatewayClient.secret,
        grant_types: ["client_credentials", tokenExchange],
        redirect_uris: [],
        response_types: [],
      },
    ],
    scopes: scopes.split(" "),
    cookies: { keys: ["cookies of a test"] },
    interactions: { url: (_ctx, { uid }) => `/interaction/${uid}` },
    ttl: {
      AccessToken: 600,
      ClientCredentials: 600,
      Grant: 600,
      Interaction: 600,
      Session: 600,
      IdToken: 600,
    },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      registration: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      revocation: { enabled: true, allowedPolicy: () => true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => [],
        useGrantedResource: () => true,
        getResourceServerInfo: (_ctx, resource) => ({
          scope: scopes,
          audience: resource,
          accessTokenFormat: format,
          ...(format === "jwt" ? { jwt: { sign: { alg: "ES256" } } } : {}),
        }),
      },
    },
    clientDefaults: { id_token_signed_response_alg: "ES256" },
    enabledJWA: { idTokenSigningAlgValues: ["ES256"] },
  };
}

/** RFC 8693 as far as the gateway uses it: a token of a user in, a token of the same user for another resource out. */
async function exchangeToken(provider: Provider, ctx: KoaContextWithOIDC, key: CryptoKey): Promise<void> {
  const { params, client } = ctx.oidc;
  const { subject_token: subject, resource, scope } = params as Readonly<Record<string, string | undefined>>;
  const { payload } = await jwtVerify(subject ?? "", key, {
    issuer: provider.issuer,
  });
  if (client === undefined || typeof payload.sub !== "string") throw new Error("there is nobody to issue for");
  const grant = new provider.Grant({ accountId: payload.sub, clientId: client.clientId });
  grant.addResourceScope(resource ?? "", scope ?? "");
  const grantId = await grant.save();
  const token = new provider.AccessToken({
    accountId: payload.sub,
    client,
    grantId,
    expiresWithSession: false,
    gty: "token_exchange",
    scope: scope ?? "",
  });
  token.resourceServer = new provider.ResourceServer(resource ?? "", {
    scope: scopes,
    audience: resource ?? "",
    accessTokenFormat: "jwt",
    jwt: { sign: { alg: "ES256" } },
  });
  ctx.body = {
    access_token: await token.save(),
    issued_token_type: "urn:ietf:params:oauth:token-type:access_token",
    token_type: "Bearer",
    expires_in: 600,
  };
}

/** The page on which a user signs in and agrees, without the page. */
async function agree(
  provider: Provider,
  request: IncomingMessage,
  response: ServerResponse,
  user: string,
): Promise<void> {
  const { prompt, params, session } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") {
    await provider.interactionFinished(request, response, { login: { accountId: user } });
    return;
  }
  const grant = new provider.Grant({
    accountId: session?.accountId ?? user,
    clientId: String(params["client_id"]),
  });
  const { scope } = params;
  if (typeof scope === "string") grant.addOIDCScope(scope);
  for (const resource of [params["resource"]].flat())
    if (typeof resource === "string") grant.addResourceScope(resource, scopes);
  const grantId = await grant.save();
  await provider.interactionFinished(request, response, { consent: { grantId } }, { mergeWithLastSubmission: true });
}

async function approve(authorizationUrl: URL): Promise<URL> {
  const cookies = new Map<string, string>();
  const callback = authorizationUrl.searchParams.get("redirect_uri") ?? "";
  let url = authorizationUrl;
  for (let hop = 0; hop < 10; hop += 1) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const answer = await fetch(url, { redirect: "manual", headers: { cookie } });
    for (const line of answer.headers.getSetCookie()) {
      const [pair = ""] = line.split(";");
      const at = pair.indexOf("=");
      cookies.set(pair.slice(0, at), pair.slice(at + 1));
    }
    const location = answer.headers.get("location");
    if (location === null) throw new Error(`${url.href} answered ${answer.status}: ${await answer.text()}`);
    url = new URL(location, url);
    if (url.href.startsWith(callback)) return url;
  }
  throw new Error("the browser was sent around in circles");
}
