import { readFileSync } from "node:fs";

import { createDemoServer } from "../../src/demo/server.ts";
import type { ConfigInput } from "../../src/config/schema.ts";
import type { GatewayOptions } from "../../src/gateway/gateway.ts";
import { temporaryFolder } from "./capture-file.ts";
import { openGateway } from "./local-gateway.ts";
import { exchange, openStream, type RawRequest } from "./raw-http.ts";
import { connectV2 } from "./v2-client.ts";

const token = "a-token-for-tests-that-is-long-enough";

/** A recording gateway in front of the demo server, with the admin API open to its owner. */
export async function openAdmin(input: Partial<ConfigInput> = {}, options: GatewayOptions = {}) {
  const folder = temporaryFolder();
  const local = await openGateway(
    { upstream: { demo: true }, admin: { port: 0 }, record: { file: folder.at("traffic.sqlite") }, ...input },
    { adminToken: token, demo: async () => createDemoServer(), ...options },
  );
  const root = `${local.adminUrl ?? ""}/api/v1`;
  const headers = { authorization: `Bearer ${token}` };
  const ask = (path: string, sent: RawRequest = {}) =>
    exchange(`${root}${path}`, { ...sent, headers: { ...headers, ...sent.headers } });
  return {
    ...local,
    folder,
    root,
    token,
    ask,
    send: (path: string, body: unknown) =>
      ask(path, { method: "POST", headers: { "content-type": "application/json" }, body }),
    stream: (path: string) => openStream(`${root}${path}`, { headers }),
    connect: () => connectV2({ via: "http", url: local.url }, "2025-11-25"),
    [Symbol.asyncDispose]: async () => {
      await local[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}

/** The lines of an audit file about what people did. */
export function actionsIn(file: string): readonly unknown[] {
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.filter((line) => line.includes('"action"')).map((line): unknown => JSON.parse(line));
}
