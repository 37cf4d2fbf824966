import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import {
  startMockPingAuthorize,
  type MockPingAuthorizeOptions,
  type MockPingAuthorize,
} from "../mock-pingauthorize.ts";
import { createFakeKong, type FakeKong, type FakeKongOptions, type Passage, type Upstream } from "./fake-kong.ts";
import { parseGuard } from "./guard.ts";
import { packedKongCommand } from "./packed-package.ts";
import { startPluginServer, type PluginServerOptions, type PluginServerProcess } from "./plugin-server-process.ts";
import type { ClientRequest } from "./request.ts";

/** Kong, the plugin server and a decision point, wired together. */
export interface KongRig extends AsyncDisposable {
  readonly kong: FakeKong;
  readonly mock: MockPingAuthorize;
  /** Takes a request through Kong, by a plugin that no other rig has. */
  send(request?: ClientRequest, upstream?: Upstream, options?: { readonly worker?: number }): Promise<Passage>;
  /** The payloads that the decision point got, by endpoint. */
  payloads(endpoint: "request" | "response"): readonly Readonly<Record<string, unknown>>[];
  reconfigure(settings?: Readonly<Record<string, unknown>>): void;
}

/** What a rig may be asked for. */
export interface RigOptions extends Partial<Omit<FakeKongOptions, "socket" | "plugin" | "config">> {
  readonly mock?: MockPingAuthorizeOptions;
}

const examples = resolve(import.meta.dirname, "../../../examples/kong");

/** The guard as it is shipped. */
export const guards = {
  full: () => parseGuard(readFileSync(resolve(examples, "guard.yaml"), "utf8")),
  accessOnly: () => parseGuard(readFileSync(resolve(examples, "guard-access-only.yaml"), "utf8")),
};

/** Long enough to build and pack on a busy machine; the first test file that needs the package waits for it. */
export const packingMs = 180_000;

/** Starts the plugin server from the packed package. */
export async function startPackedServer(options: PluginServerOptions = {}): Promise<PluginServerProcess> {
  return startPluginServer({ bin: await packedKongCommand(), ...options });
}

/** Puts Kong and a decision point around a plugin server; settings that are left out have their defaults. */
export async function createKongRig(
  server: PluginServerProcess,
  settings: Readonly<Record<string, unknown>> = {},
  options: RigOptions = {},
): Promise<KongRig> {
  const secret = { header: "CLIENT-TOKEN", value: "s3cret-value" };
  const mock = await startMockPingAuthorize({ secret, ...options.mock });
  const pluginId = randomUUID();
  const base = { service_url: mock.url, shared_secret: secret.value, secret_header_name: secret.header };
  const kong = createFakeKong({
    ...options,
    socket: server.socket,
    plugin: server.plugin,
    config: { ...base, ...settings },
  });
  return {
    kong,
    mock,
    send: (request = {}, upstream = {}, passage = {}) => kong.send(request, upstream, { ...passage, pluginId }),
    payloads: (endpoint) =>
      mock.requests.filter((question) => question.endpoint === endpoint).map(({ payload }) => payload),
    reconfigure: (changes) =>
      kong.reconfigure(changes === undefined ? undefined : { ...base, ...settings, ...changes }, pluginId),
    [Symbol.asyncDispose]: async () => {
      kong[Symbol.dispose]();
      await mock.close();
    },
  };
}
