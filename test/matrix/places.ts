import type { Era } from "../../src/protocol/revisions.ts";

/** The ways in which a client comes to the gateway. */
export const clientTransports = ["Streamable HTTP", "HTTP+SSE", "stdio"] as const;
export type ClientTransport = (typeof clientTransports)[number];

/** The ways in which the gateway comes to a server. */
export const serverTransports = ["Streamable HTTP", "HTTP+SSE", "stdio", "in-process"] as const;
export type ServerTransport = (typeof serverTransports)[number];

/** A client and a server, each of one era and one transport, with the gateway between them. */
export interface Meeting {
  readonly client: { readonly era: Era; readonly transport: ClientTransport };
  readonly server: { readonly era: Era; readonly transport: ServerTransport };
}

const eras: readonly Era[] = ["legacy", "modern"];

/**
 * HTTP+SSE is of the first revision alone, a command cannot be handed a server object, and a server in this process
 * speaks the era of its client.
 */
export const meetings: readonly Meeting[] = eras.flatMap((clientEra) =>
  clientTransports
    .filter((transport) => clientEra === "legacy" || transport !== "HTTP+SSE")
    .flatMap((clientTransport) =>
      eras.flatMap((serverEra) =>
        serverTransports
          .filter((transport) => serverEra === "legacy" || transport !== "HTTP+SSE")
          .filter((transport) => transport !== "in-process" || (clientTransport !== "stdio" && clientEra === serverEra))
          .map((serverTransport) => ({
            client: { era: clientEra, transport: clientTransport },
            server: { era: serverEra, transport: serverTransport },
          })),
      ),
    ),
);

/** How a meeting is called in a title. */
export function nameOf({ client, server }: Meeting): string {
  return `a ${client.era} client over ${client.transport}, a ${server.era} server over ${server.transport}`;
}
