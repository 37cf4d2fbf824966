import { z } from "zod";

import {
  createServerKit,
  createTestIssuer,
  defineEntity,
  defineTool,
  listen,
  memoryStore,
  type EntityStore,
  type KitAuth,
  type KitSettingsInput,
  type ServerKit,
} from "../../src/server-kit/index.ts";
import { createRememberingLog, type RememberingLog } from "./fake-kit.ts";

/** A real kit with one entity, some tools to put it under strain, and a token issuer. */
export interface TestKit {
  readonly kit: ServerKit;
  readonly log: RememberingLog;
  /** What hosts mount: the kit, and the issuer's token endpoint. */
  readonly app: Pick<ServerKit, "handle" | "shutdown">;
  /** Lets one waiting `Probe_Wait` finish. */
  readonly release: () => void;
  /** Calls of `Probe_Wait` that wait now, and those whose signal fired. */
  readonly waits: { waiting: number; aborted: number };
  /** Logs in at the issuer; the same client, with other scopes. */
  readonly token: (scope?: string) => Promise<string>;
}

/** What a test may change of it. */
export interface TestKitOptions {
  readonly settings?: KitSettingsInput;
  readonly store?: EntityStore;
  readonly auth?: KitAuth;
  /** Milliseconds that a token of the issuer lives. */
  readonly tokenLifetimeMs?: number;
  readonly environment?: { readonly deployed: boolean; readonly name: string };
}

/** The entity of the kit; its scope is that of the document's sample. */
export const site = defineEntity(
  "TrialSite",
  z.object({ id: z.uuid(), name: z.string().max(200), location: z.string() }),
  { description: "Clinical trial site operations", requiredScopes: ["clinical:operations"] },
);

/** Makes such a kit; three sites are there already. */
export async function createTestKit(options: TestKitOptions = {}): Promise<TestKit> {
  const waits = { waiting: 0, aborted: 0 };
  const gates: (() => void)[] = [];
  /** Waits until it is let go or nobody waits any more. */
  async function hold(signal: AbortSignal): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<void>();
    waits.waiting += 1;
    gates.push(resolve);
    signal.addEventListener("abort", () => {
      waits.aborted += 1;
      resolve();
    });
    await promise;
    waits.waiting -= 1;
    return "done";
  }
  const wait = defineTool({
    name: "Probe_Wait",
    description: "Waits until it is let go or nobody waits for it any more.",
    input: z.object({}),
    requireAuthentication: false,
    run: async (_given, { signal }) => hold(signal),
  });
  const big = defineTool({
    name: "Probe_Big",
    description: "Answers with a text of so many bytes.",
    input: z.object({ bytes: z.int() }),
    requireAuthentication: false,
    run: ({ bytes }) => "x".repeat(bytes),
  });
  const progress = defineTool({
    name: "Probe_Progress",
    description: "Tells its progress, and then waits like the other one.",
    input: z.object({}),
    requireAuthentication: false,
    run: async (_given, { context, signal }) => {
      const progressToken = context?.mcpReq._meta?.progressToken;
      if (progressToken !== undefined) {
        await context?.mcpReq.notify({
          method: "notifications/progress",
          params: { progressToken, progress: 1, total: 2 },
        });
      }
      return hold(signal);
    },
  });
  const log = createRememberingLog();
  const issuer = createTestIssuer({ deployed: false, lifetimeMs: options.tokenLifetimeMs ?? 3_600_000 });
  const kit = await createServerKit({
    name: "test kit",
    version: "1.0.0",
    entities: [site],
    tools: [wait, big, progress],
    store: options.store ?? memoryStore(),
    auth: options.auth ?? { authenticator: issuer.authenticator },
    environment: options.environment ?? { deployed: false, name: "test" },
    settings: { enableHttpSseTransport: true, ...options.settings },
    env: {},
    log,
  });
  if (options.store === undefined) {
    for (const name of ["Oslo", "Bergen", "Tromsø"]) await kit.records(site).create({ name, location: "Norway" });
  }
  return {
    kit,
    log,
    app: {
      handle: async (request, peer) => (await issuer.handle(request)) ?? kit.handle(request, peer),
      shutdown: async () => kit.shutdown(),
    },
    release: () => gates.shift()?.(),
    waits,
    token: async (scope = "clinical:operations") => {
      const body = new URLSearchParams({
        grant_type: "client_credentials",
        client_id: "mcp-client",
        client_secret: "dev-secret",
        scope,
      });
      const response = await issuer.handle(new Request("http://localhost/.testoauth/token", { method: "POST", body }));
      const { access_token } = (await (response ?? Response.error()).json()) as { access_token: string };
      return access_token;
    },
  };
}

/** A kit that listens on a free port of loopback until it is disposed of. */
export interface ServedKit extends TestKit, AsyncDisposable {
  /** Without a path. */
  readonly origin: string;
  /** Of the transport. */
  readonly url: string;
}

/** Serves such a kit by plain `node:http`. */
export async function serveTestKit(options: TestKitOptions = {}): Promise<ServedKit> {
  const made = await createTestKit(options);
  const listening = await listen(made.app, { port: 0 });
  return {
    ...made,
    origin: listening.url,
    url: `${listening.url}/mcp`,
    [Symbol.asyncDispose]: async () => listening.close(),
  };
}
