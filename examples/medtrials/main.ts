// Clinical trials served to agents: trial sites, visits and adverse events.
//   node examples/medtrials/main.ts [--config development|production|hybrid] [--port N] [--host H] [--database FILE]
// Deployed, it needs to know whose tokens to believe: MEDTRIALS_ISSUER and MEDTRIALS_AUDIENCE.
import { parseArgs } from "node:util";

import { jwtVerifier, listen } from "../../src/server-kit/index.ts";
import { configurations, createMedTrials } from "./kit.ts";

const { values } = parseArgs({
  options: {
    config: { type: "string", default: "development" },
    port: { type: "string", default: "5110" },
    host: { type: "string", default: "127.0.0.1" },
    database: { type: "string" },
  },
});
const configuration = configurations.find((name) => name === values.config);
if (configuration === undefined) {
  throw new RangeError(`there is no configuration ${values.config}; there are ${configurations.join(", ")}`);
}
const { MEDTRIALS_ISSUER: issuer, MEDTRIALS_AUDIENCE: audience = "medtrials" } = process.env;
const { kit, app } = await createMedTrials({
  configuration,
  ...(values.database === undefined ? {} : { database: values.database }),
  ...(issuer === undefined ? {} : { authenticator: jwtVerifier({ issuer, audience: [audience] }) }),
});
const { enableStdioTransport } = kit.settings();
const listening = await listen(app, { port: Number(values.port), host: values.host });
// Standard output belongs to the protocol, so this goes to standard error (KO-137).
process.stderr.write(`${kit.bootReport()}\n  Address: ${listening.url}\n`);
if (enableStdioTransport) kit.serveStdio();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => void listening.close().then(() => process.exit(0)));
}
