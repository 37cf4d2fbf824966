import { exitCodes } from "./exit-codes.ts";
import { colorsFor } from "./paint.ts";
import { openReader } from "./recordings.ts";
import { formatConversation, type ShownExchange } from "./traffic-conversation.ts";
import type { TrafficIo, TrafficRequest } from "./traffic.ts";

/** Longer bodies are cut unless somebody wants them whole. */
const maxBody = 4000;

/** `headgate traffic show ID`: an exchange with all that belongs to it. */
export async function trafficShow(id: string, { values }: TrafficRequest, io: TrafficIo): Promise<number> {
  await using reader = await openReader(values, io);
  const operation = await reader.operation(id);
  if (operation === undefined) {
    io.err(`headgate traffic: ${reader.location} has no exchange that is the only one to begin with ${id}\n`);
    return exitCodes.refused.code;
  }
  const exchanges: ShownExchange[] = [];
  for (const record of operation.exchanges) {
    exchanges.push({ record, frames: await reader.frames(record.capture, record.id) });
  }
  if (values.json === true) {
    io.out(
      `${JSON.stringify({ ...operation, exchanges: exchanges.map(({ record, frames }) => ({ ...record, frames })) })}\n`,
    );
  } else {
    const options = {
      paint: colorsFor(io),
      maxBody: values.full === true ? Number.POSITIVE_INFINITY : maxBody,
    };
    io.out(formatConversation(operation, exchanges, options));
  }
  return exitCodes.ok.code;
}
