// How many gateways a load needs, from measured costs: npm run -s simulate -- --sessions 100000 --calls 10000.
//   [--hours 24] [--held 0.5] [--sticky] [--gateways N]
import { parseArgs } from "node:util";

import { type ClusterLoad, fewestGateways, measuredCosts, sizeOf } from "./simulate/model.ts";

const { values } = parseArgs({
  options: {
    sessions: { type: "string", default: "10000" },
    calls: { type: "string", default: "1000" },
    hours: { type: "string", default: "24" },
    held: { type: "string", default: "0" },
    sticky: { type: "boolean", default: false },
    gateways: { type: "string" },
  },
});
const load: ClusterLoad = {
  sessions: positive("sessions"),
  callsPerSecond: positive("calls"),
  sessionHours: positive("hours"),
  heldPart: part(values.held),
  isSticky: values.sticky,
};
const size = values.gateways === undefined ? fewestGateways(load) : sizeOf(load, positive("gateways"));
const number = (value: number, digits = 0): string => value.toLocaleString("en", { maximumFractionDigits: digits });
const rows: readonly (readonly [string, string])[] = [
  ["gateways", number(size.gateways)],
  ["calls a second, each", number(size.callsEach)],
  ["part of full load", `${number(size.load * 100)} % (${number(measuredCosts.use * 100)} % is planned for)`],
  ["calls handed over a second", number(size.handedOverPerSecond)],
  ["memory for sessions, each", `${number(size.memoryEach / 1e9, 1)} GB`],
  ["store commands a second", number(size.storeCommandsPerSecond)],
];
for (const [name, value] of rows) console.log(`${name.padEnd(28)}${value}`);

function positive(name: "sessions" | "calls" | "hours" | "gateways"): number {
  const value = Number(values[name]);
  if (value > 0 && Number.isFinite(value) && (name === "hours" || Number.isInteger(value))) return value;
  return refuse(`--${name} takes a positive number, not ${values[name]}`);
}

function part(text: string): number {
  const value = Number(text);
  return value >= 0 && value <= 1 ? value : refuse(`--held takes a part of the calls from 0 to 1, not ${text}`);
}

function refuse(problem: string): never {
  console.error(`simulate: ${problem}`);
  process.exit(2);
}
