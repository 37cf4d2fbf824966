import type { KitCore } from "../contract.ts";
import type { KitSettings } from "../settings.ts";

/** The section of the start-up report about MCP, one `name: value` a line (KO-122). */
export function formatBootReport(settings: KitSettings, counts: ReturnType<KitCore["counts"]>): string {
  const onOff = (value: boolean): string => (value ? "enabled" : "disabled");
  const { enableHttpSseTransport, enableStreamableHttp, httpSseRoute, requireAuthentication } = settings;
  const isOn = enableHttpSseTransport || enableStreamableHttp;
  const rows: (readonly [string, string])[] = [
    ["STDIO", onOff(settings.enableStdioTransport)],
    ["HTTP+SSE", onOff(enableHttpSseTransport)],
    ["Streamable HTTP", onOff(enableStreamableHttp)],
    ...(isOn
      ? ([
          ["Route", httpSseRoute],
          ["Requires Authentication", String(requireAuthentication)],
          ["Capability Endpoint", String(enableHttpSseTransport && settings.publishCapabilityEndpoint)],
        ] as const)
      : []),
    ["REST", settings.enableRest ? settings.restRoute : "disabled"],
    ["Environment", settings.environmentName],
    ["Entities", String(counts.entities)],
    ["Tools", String(counts.tools)],
  ];
  return ["Model Context Protocol", ...rows.map(([name, value]) => `  ${name}: ${value}`)].join("\n");
}
