import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";

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

/** A client of SDK v1; what the common face does not have is done on `sdk`. */
export interface V1Client extends PeerClient {
  readonly sdk: Client;
}

type V1Transport = StreamableHTTPClientTransport | SSEClientTransport | StdioClientTransport;

/** Connects as programs on the old SDK do: always with `initialize`, at the newest legacy revision it knows. */
export async function connectV1(peer: Peer): Promise<V1Client> {
  const sdk = new Client(clientIdentity, { capabilities: clientCapabilities });
  const asked: string[] = [];
  sdk.setRequestHandler(ElicitRequestSchema, ({ method, params }) => {
    asked.push(method);
    return clientAnswers.elicitation(params);
  });
  sdk.setRequestHandler(CreateMessageRequestSchema, ({ method }) => {
    asked.push(method);
    return clientAnswers.sampling();
  });
  sdk.setRequestHandler(ListRootsRequestSchema, ({ method }) => {
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
  let revision: string | undefined;
  // This SDK tells the agreed revision to its transport only.
  const connected = Object.assign(transport, {
    setProtocolVersion: chained(transport, (agreed) => {
      revision = agreed;
    }),
  });
  await sdk.connect(connected);
  return {
    sdk,
    revision,
    asked,
    notified,
    listTools: async () => (await sdk.listTools()).tools.map(({ name }) => name),
    callTool: async (name, { args = {}, onProgress, signal } = {}) =>
      toolOutcome(
        await reports.during(onProgress, async () =>
          sdk.callTool({ name, arguments: args }, undefined, {
            ...(onProgress === undefined ? {} : { onprogress: () => {} }),
            ...(signal === undefined ? {} : { signal }),
          }),
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

function chained(transport: V1Transport, listen: (revision: string) => void): (revision: string) => void {
  const set = "setProtocolVersion" in transport ? transport.setProtocolVersion.bind(transport) : undefined;
  return (revision) => {
    set?.(revision);
    listen(revision);
  };
}

function transportTo(peer: Peer): V1Transport {
  switch (peer.via) {
    case "http":
      return new StreamableHTTPClientTransport(new URL(peer.url));
    case "sse":
      return new SSEClientTransport(new URL(peer.url));
    case "stdio": {
      const [command, ...args] = peer.command;
      return new StdioClientTransport({ command, args, stderr: "ignore" });
    }
  }
}
