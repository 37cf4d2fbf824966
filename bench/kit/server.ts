// The server of the kit's benchmark: 12 entities of five operations each, so 60 tools, on every HTTP transport.
import { z } from "zod";

import { createServerKit, defineEntity, listen, memoryStore } from "../../src/server-kit/index.ts";
import { createLogger } from "../../src/telemetry/log.ts";

const fields = Object.fromEntries(
  Array.from({ length: 8 }, (_, index) => [`field${index}`, z.string().max(200).describe(`Field number ${index}`)]),
);
const entities = Array.from({ length: 12 }, (_, index) =>
  defineEntity(`Entity${index}`, z.object({ id: z.uuid(), ...fields }), {
    description: `Records of kind ${index}, as a benchmark needs them`,
  }),
);
const kit = await createServerKit({
  name: "bench",
  entities,
  store: memoryStore(),
  environment: { deployed: false, name: "development" },
  settings: { enableHttpSseTransport: true, maxConcurrentConnections: 0 },
  env: {},
  log: createLogger({ level: "warn", pretty: false }),
});
const { url } = await listen(kit, { port: 0 });
console.error(`listening on ${url}/mcp`);
