import { isObject } from "../../lib/is-object.ts";
import { newestLegacy } from "../../protocol/revisions.ts";
import type { ControlBridge } from "./control-bridge.ts";
import type { JsonObject } from "../json-rpc.ts";

/**
 * Initializes each server and returns the results by key, in the form of `sdkMcpServerManifests`. A server that fails
 * is left out; the CLI then initializes it itself.
 */
export async function captureManifests(bridge: ControlBridge, keys: Iterable<string>): Promise<JsonObject> {
  const captured = await Promise.all([...keys].map(async (key) => [key, await capture(bridge, key)] as const));
  return Object.fromEntries(captured.filter(([, manifest]) => manifest !== undefined));
}

async function capture(bridge: ControlBridge, key: string): Promise<JsonObject | undefined> {
  const send = async (message: JsonObject): Promise<JsonObject | undefined> => {
    const reply: unknown = JSON.parse(await bridge.answerText(key, JSON.stringify({ jsonrpc: "2.0", ...message })));
    const result = isObject(reply) ? reply["result"] : undefined;
    return isObject(result) ? result : undefined;
  };
  const initializeResult = await send({
    id: "manifest-1",
    method: "initialize",
    // The revision that the CLI uses; it ignores a manifest of another one.
    params: { protocolVersion: newestLegacy, capabilities: {}, clientInfo: { name: "headgate", version: "1" } },
  });
  if (initializeResult === undefined) return undefined;
  await send({ method: "notifications/initialized" });
  const { capabilities } = initializeResult;
  const hasTools = isObject(capabilities) && capabilities["tools"] !== undefined;
  const toolsListResult = hasTools ? await send({ id: "manifest-2", method: "tools/list" }) : undefined;
  // With only the first of several pages, the CLI would not see the tools of the others.
  const isComplete = toolsListResult !== undefined && toolsListResult["nextCursor"] === undefined;
  return { initializeResult, ...(isComplete && { toolsListResult }) };
}
