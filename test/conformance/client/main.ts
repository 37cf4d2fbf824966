// The client that the suite's client scenarios judge: node main.ts [--gateway] URL. With --gateway it stands behind a
// gateway of its own whose upstream is the suite's server, so that what the gateway sends is judged.
import { parseArgs } from "node:util";

import { startGateway } from "../../support/gateway.ts";
import { playScenario } from "./scenario.ts";

const { values, positionals } = parseArgs({
  options: { gateway: { type: "boolean", default: false } },
  allowPositionals: true,
});
const [url] = positionals;
if (url === undefined) throw new RangeError("the suite appends the URL of its server");

if (values.gateway) {
  await using gateway = await startGateway(["run", "--upstream", url, "--port", "0"]);
  await playScenario(gateway.url);
} else {
  await playScenario(url);
}
