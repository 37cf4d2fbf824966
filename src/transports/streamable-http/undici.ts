import { createRequire } from "node:module";

import type * as Undici from "undici";

const load: (path: string) => unknown = createRequire(import.meta.url);

/**
 * The parts of undici that every gateway needs. Its main file loads all of it, Node's own `fetch` besides, which takes
 * longer than half of our own modules. Needed by bench load: "listens after the start of the process".
 */
export const Client = load("undici/lib/dispatcher/client.js") as typeof Undici.Client;
export const ProxyAgent = load("undici/lib/dispatcher/proxy-agent.js") as typeof Undici.ProxyAgent;
export const buildConnector = load("undici/lib/core/connect.js") as typeof Undici.buildConnector;
export const errors = load("undici/lib/core/errors.js") as typeof Undici.errors;
