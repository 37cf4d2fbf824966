import {
  Client,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
  type VersionNegotiationMode,
} from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { revisions, type Revision } from "../../src/protocol/revisions.ts";
import {
  clientAnswers,
  clientCapabilities,
  clientIdentity,
  ProgressReports,
  promptTexts,
  resourceTexts,
  toolOutcome,
  type Peer,
  type PeerClient,
  type ReceivedNotification,
} from "./peer-client.ts";

/** A client of SDK v2; what the common face does not have is done on `sdk`. */
export interface V2Client extends PeerClient {
  readonly sdk: Client;
}

/** Connects at exactly one revision, or, with `auto`, asks the server for its era first. */
export async function connectV2(peer: Peer, revision: Revision | "auto"): Promise<V2Client> {
  const sdk = new Client(clientIdentity, {
    capabilities: clientCapabilities,
    versionNegotiation: { mode: modeFor(revision) },
    ...(revision === "auto" ? {} : { supportedProtocolVersions: [revision] }),
  });
  const asked: string[] = [];
  sdk.setRequestHandler("elicitation/create", ({ method, params }) => {
    asked.push(method);
    return clientAnswers.elicitation(params);
  });
  sdk.setRequestHandler("sampling/createMessage", ({ method }) => {
    asked.push(method);
    return clientAnswers.sampling();
  });
  sdk.setRequestHandler("roots/list", ({ method }) => {
    asked.push(method);
    return clientAnswers.roots();
  });
  const notified: ReceivedNotification[] = [];
  sdk.fallbackNotificationHandler = async ({ method, params }) => {
    notified.push({ method, params });
  };

  const transport = transportTo(peer);
  const reports = new ProgressReports();
  transport.onmessage = reports.onMessage;
  await sdk.connect(transport);
  return {
    sdk,
    revision: sdk.getNegotiatedProtocolVersion(),
    asked,
    notified,
    listTools: async () => (await sdk.listTools()).tools.map(({ name }) => name),
    callTool: async (name, { args = {}, onProgress, signal } = {}) =>
      toolOutcome(
        await reports.during(onProgress, async () =>
          sdk.callTool(
            { name, arguments: args },
            {
              ...(onProgress === undefined ? {} : { onprogress: () => {} }),
              ...(signal === undefined ? {} : { signal }),
            },
          ),
        ),
      ),
    readResource: async (uri) => resourceTexts(await sdk.readResource({ uri })),
    getPrompt: async (name, args = {}) => promptTexts(await sdk.getPrompt({ name, arguments: args })),
    [Symbol.asyncDispose]: async () => {
      if (transport instanceof StreamableHTTPClientTransport) await transport.terminateSession();
      await sdk.close();
    },
  };
}

function modeFor(revision: Revision | "auto"): VersionNegotiationMode {
  if (revision === "auto") return "auto";
  return revisions[revision].era === "modern" ? { pin: revision } : "legacy";
}

function transportTo(peer: Peer): Transport {
  switch (peer.via) {
    case "http":
      return new StreamableHTTPClientTransport(new URL(peer.url), { requestInit: { headers: peer.headers ?? {} } });
    case "sse":
      return new SSEClientTransport(new URL(peer.url));
    case "stdio": {
      const [command, ...args] = peer.command;
      return new StdioClientTransport({ command, args, stderr: "ignore" });
    }
  }
}
