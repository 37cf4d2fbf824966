import { newestLegacy } from "../protocol/revisions.ts";
import type { ControlBridge } from "./bridge.ts";
import { isJsonObject, type JsonObject } from "./json-object.ts";

/**
 * Makes the handshake with each server beforehand and returns the results as the CLI takes them, by key. A server that
 * fails is left out; the CLI then asks it itself.
 */
export async function captureManifests(bridge: ControlBridge, keys: Iterable<string>): Promise<JsonObject> {
  const captured = await Promise.all(
    [...keys].map(async (key) => [key, await capture(bridge, key)] as const),
  );
  return Object.fromEntries(captured.filter(([, manifest]) => manifest !== undefined));
}

async function capture(bridge: ControlBridge, key: string): Promise<JsonObject | undefined> {
  const ask = async (message: JsonObject): Promise<JsonObject | undefined> => {
    const reply: unknown = JSON.parse(
      await bridge.answerText(key, JSON.stringify({ jsonrpc: "2.0", ...message })),
    );
    const result = isJsonObject(reply) ? reply["result"] : undefined;
    return isJsonObject(result) ? result : undefined;
  };
  const initializeResult = await ask({
    id: "manifest-1",
    method: "initialize",
    // The revision that the CLI asks for; another one makes it ignore the manifest.
    params: {
      protocolVersion: newestLegacy,
      capabilities: {},
      clientInfo: { name: "headgate", version: "1" },
    },
  });
  if (initializeResult === undefined) return undefined;
  await ask({ method: "notifications/initialized" });
  const { capabilities } = initializeResult;
  const hasTools = isJsonObject(capabilities) && capabilities["tools"] !== undefined;
  const toolsListResult = hasTools ? await ask({ id: "manifest-2", method: "tools/list" }) : undefined;
  // A list of several pages would hide the tools of the others.
  const isWhole = toolsListResult !== undefined && toolsListResult["nextCursor"] === undefined;
  return { initializeResult, ...(isWhole && { toolsListResult }) };
}
