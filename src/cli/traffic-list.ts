import { isTty } from "./asking.ts";
import { exitCodes } from "./exit-codes.ts";
import { usageError } from "./help.ts";
import { colorsFor } from "./paint.ts";
import { openReader } from "./recordings.ts";
import { exchangeHeads, formatExchange } from "./traffic-rows.ts";
import type { TrafficIo, TrafficRequest } from "./traffic.ts";

/** `headgate traffic [FILTER]`: a page of exchanges. */
export async function trafficList({ values, where }: TrafficRequest, io: TrafficIo): Promise<number> {
  const limit = values.limit === undefined ? 50 : Number(values.limit);
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > 1000) {
    io.err(usageError("traffic", "--limit takes a number from 1 to 1000"));
    return exitCodes.usage.code;
  }
  await using reader = await openReader(values, io);
  const page = await reader.exchanges({
    ...(where === undefined ? {} : { where }),
    ...(values.cursor === undefined ? {} : { cursor: values.cursor }),
    order: values.oldest === true ? "oldest" : "newest",
    limit,
  });
  if (values.json === true) {
    for (const exchange of page.exchanges) io.out(`${JSON.stringify(exchange)}\n`);
  } else {
    const paint = colorsFor(io);
    if (page.exchanges.length === 0) io.err(`nothing in ${reader.location} fits\n`);
    else if (isTty(io.stdout)) io.out(`${exchangeHeads(paint)}\n`);
    for (const exchange of page.exchanges) io.out(`${formatExchange(exchange, paint)}\n`);
  }
  if (page.next !== undefined) io.err(`there is more: --cursor ${page.next}\n`);
  return exitCodes.ok.code;
}

/** `headgate traffic follow [FILTER]`: exchanges as they end, until the command is told to stop. */
export async function trafficFollow({ values, where }: TrafficRequest, io: TrafficIo): Promise<number> {
  await using reader = await openReader(values, io);
  const paint = colorsFor(io);
  const over = new AbortController();
  void io.stopped?.().then(() => {
    over.abort();
  });
  if (values.json !== true && isTty(io.stdout)) io.out(`${exchangeHeads(paint)}\n`);
  for await (const exchange of reader.follow({
    signal: over.signal,
    ...(where === undefined ? {} : { where }),
  })) {
    if (values.json === true) io.out(`${JSON.stringify(exchange)}\n`);
    // A request is worth a line when it is over; until then there is nothing to say but that it began.
    else if (exchange.state !== "open") io.out(`${formatExchange(exchange, paint)}\n`);
  }
  return exitCodes.ok.code;
}
