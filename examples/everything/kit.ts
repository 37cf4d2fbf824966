import { SUPPORTED_PROTOCOL_VERSIONS } from "@modelcontextprotocol/server";
import { z } from "zod";

import { createServerKit, defineEntity, type ServerKit } from "../../src/server-kit/index.ts";
import { registerAskingTools } from "../../test/fixtures/everything/asking-tools.ts";
import {
  notifierOf,
  registerChangeTools,
  registerPromptChangeTool,
} from "../../test/fixtures/everything/change-tools.ts";
import { registerContentTools } from "../../test/fixtures/everything/content-tools.ts";
import { registerHoldingTools } from "../../test/fixtures/everything/holding-tools.ts";
import { registerMultiRoundTools } from "../../test/fixtures/everything/multi-round-tools.ts";
import { registerPrompts } from "../../test/fixtures/everything/prompts.ts";
import { roundStates } from "../../test/fixtures/everything/request-state.ts";
import { acceptSubscriptions, registerResources } from "../../test/fixtures/everything/resources.ts";
import { registerSchemaTools } from "../../test/fixtures/everything/schema-tools.ts";
import { registerStreamingTools } from "../../test/fixtures/everything/streaming-tools.ts";

const Thing = defineEntity("Thing", z.object({ id: z.uuid(), name: z.string() }), {
  description: "So that there is an entity among everything.",
});

/** A kit with an entity, and everything else added by the hook that gets each fresh server. */
export async function createEverythingKit(newestLegacy?: string): Promise<ServerKit> {
  return createServerKit({
    name: "everything",
    version: "1.0.0",
    entities: [Thing],
    settings: {
      environment: "development",
      enableHttpSseTransport: true,
      maxConcurrentConnections: 0,
    },
    serverOptions: {
      capabilities: {
        resources: { subscribe: true, listChanged: true },
        prompts: { listChanged: true },
        logging: {},
        completions: {},
      },
      instructions: "Has one of everything.",
      requestState: { verify: async (state, context) => roundStates.verify(state, context) },
      ...(newestLegacy === undefined ? {} : { supportedProtocolVersions: upTo(newestLegacy) }),
    },
    extend: (server, { notify }) => {
      const isSubscribed = acceptSubscriptions(server);
      registerContentTools(server);
      registerStreamingTools(server);
      registerHoldingTools(server);
      registerAskingTools(server);
      registerMultiRoundTools(server);
      registerSchemaTools(server);
      const changes = notify ?? notifierOf(server, isSubscribed);
      registerChangeTools(server, changes);
      registerPromptChangeTool(server, changes);
      registerResources(server);
      registerPrompts(server);
    },
  });
}

/** The revisions to agree on in an `initialize` handshake, newest first. */
function upTo(newest: string): string[] {
  const newestAt = SUPPORTED_PROTOCOL_VERSIONS.indexOf(newest);
  if (newestAt === -1) throw new RangeError(`the SDK does not know the legacy revision ${newest}`);
  return SUPPORTED_PROTOCOL_VERSIONS.slice(newestAt);
}
