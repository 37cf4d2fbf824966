/** The events that a stream of the document's profile has. */
export type SseEventName =
  | "endpoint"
  | "connected"
  | "ack"
  | "result"
  | "error"
  | "message"
  | "heartbeat"
  | "end";

type JsonEventName = Exclude<SseEventName, "endpoint">;

/**
 * The bytes of one event whose data is JSON: two lines and an empty one, never an `id:` line (KO-059). JSON has no raw
 * line breaks, so the data is always one line.
 */
export function jsonEvent(name: JsonEventName, data: unknown): Uint8Array {
  return Buffer.from(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
}

/** The bytes of the event that tells standard clients where to post (MCP 2024-11-05, HTTP with SSE): a plain URI. */
export function endpointEvent(uri: string): Uint8Array {
  return Buffer.from(`event: endpoint\ndata: ${uri}\n\n`);
}

const comma = Buffer.from(",");

/**
 * Makes frames of messages as `jsonEvent` does, but remembers the bytes of each tool definition: a catalogue gives the
 * same objects to everybody, and writing sixty of them anew for each list is what makes lists slow (KO-028).
 */
export function createMessageEncoder(): (name: JsonEventName, message: object) => Uint8Array {
  const known = new WeakMap<object, Buffer>();

  function bytesOf(tool: object): Buffer {
    let bytes = known.get(tool);
    if (bytes === undefined) {
      bytes = Buffer.from(JSON.stringify(tool));
      known.set(tool, bytes);
    }
    return bytes;
  }

  return (name, message) => {
    const list = toolListOf(message);
    if (list === undefined) return jsonEvent(name, message);
    const { tools, result } = list;
    const empty = JSON.stringify({ ...message, result: { tools: [], ...result } });
    // Whatever else the message has, the first empty list in it that is called tools is ours: the id is no object.
    const at = empty.indexOf('"tools":[') + '"tools":['.length;
    return Buffer.concat([
      Buffer.from(`event: ${name}\ndata: ${empty.slice(0, at)}`),
      ...tools.flatMap((tool, index) => (index === 0 ? [bytesOf(tool)] : [comma, bytesOf(tool)])),
      Buffer.from(`${empty.slice(at)}\n\n`),
    ]);
  };
}

/** The tools of a message that answers tools/list, and what else its result has. */
function toolListOf(
  message: object,
): { readonly tools: readonly object[]; readonly result: object } | undefined {
  if (!("result" in message) || typeof message.result !== "object" || message.result === null)
    return undefined;
  if (!("tools" in message.result) || !Array.isArray(message.result.tools)) return undefined;
  const { tools, ...result } = message.result;
  const given: readonly unknown[] = tools;
  const objects = given.filter((tool) => typeof tool === "object" && tool !== null);
  return objects.length === given.length ? { tools: objects, result } : undefined;
}
