import { parseSize, parseTime } from "../recorder/filter/units.ts";
import { exitCodes } from "./exit-codes.ts";
import { usageError } from "./help.ts";
import { createProgressBar } from "./progress-bar.ts";
import { openStore } from "./recordings.ts";
import { formatBytes } from "./traffic-rows.ts";
import type { TrafficIo, TrafficRequest } from "./traffic.ts";

/** `headgate traffic prune`: takes the oldest recordings out, or those that fit a filter. */
export async function trafficPrune({ values, where }: TrafficRequest, io: TrafficIo): Promise<number> {
  const before = values.before === undefined ? undefined : parseTime(values.before, Date.now());
  const maxBytes = values["max-size"] === undefined ? undefined : parseSize(values["max-size"]);
  const problem =
    values.before !== undefined && before === undefined
      ? "--before takes a time such as 7d or 2026-11-01"
      : values["max-size"] !== undefined && maxBytes === undefined
        ? "--max-size takes a size such as 500MB"
        : before === undefined && maxBytes === undefined
          ? "prune needs --before TIME or --max-size SIZE; --before 0s takes out all that fits the filter"
          : undefined;
  if (problem !== undefined) {
    io.err(usageError("traffic", problem));
    return exitCodes.usage.code;
  }
  await using store = await openStore(values, io, false);
  using bar = createProgressBar("pruning", io);
  const rules = {
    ...(before === undefined ? {} : { before }),
    ...(maxBytes === undefined ? {} : { maxBytes }),
    ...(where === undefined ? {} : { where }),
  };
  const pruned = await store.prune(rules, bar.show);
  if (values.json === true) io.out(`${JSON.stringify(pruned)}\n`);
  else {
    const { exchanges, frames, bytes } = pruned;
    io.out(`${exchanges} exchanges with ${frames} frames are gone, ${formatBytes(bytes)}\n`);
  }
  return exitCodes.ok.code;
}
