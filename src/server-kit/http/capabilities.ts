import type { CapabilityTool } from "../contract.ts";
import type { KitSettings } from "../settings.ts";

/** One way to reach the server, as the capability document describes it (KO-115). */
export type CapabilityTransport =
  | {
      readonly kind: "http+sse";
      readonly streamEndpoint: string;
      readonly submitEndpoint: string;
      readonly capabilityEndpoint: string | null;
      readonly requireAuthentication: boolean;
    }
  | {
      readonly kind: "streamable-http";
      readonly endpoint: string;
      readonly capabilityEndpoint: string | null;
      readonly requireAuthentication: boolean;
    };

/** What `GET <base>/capabilities` returns; the version is that of this document's form. */
export interface CapabilityDocument {
  readonly version: "2.0";
  readonly transports: readonly CapabilityTransport[];
  readonly tools: readonly CapabilityTool[];
}

/** Describes the server to a caller: how to reach it, and the tools that this caller may call (KO-114 to KO-118). */
export function describeCapabilities(
  settings: KitSettings,
  prefix: string,
  tools: readonly CapabilityTool[],
): CapabilityDocument {
  const base = prefix + settings.httpSseRoute;
  const { requireAuthentication, publishCapabilityEndpoint } = settings;
  const shared = {
    capabilityEndpoint: publishCapabilityEndpoint ? `${base}/capabilities` : null,
    requireAuthentication,
  };
  return {
    version: "2.0",
    transports: [
      { kind: "http+sse", streamEndpoint: `${base}/sse`, submitEndpoint: `${base}/rpc`, ...shared },
      ...(settings.enableStreamableHttp
        ? [{ kind: "streamable-http" as const, endpoint: base, ...shared }]
        : []),
    ],
    tools,
  };
}
