import type { Config } from "../../src/config/config.ts";
import { parseConfig } from "../../src/config/load.ts";
import type { ConfigInput } from "../../src/config/schema.ts";
import { createGateway, type Gateway, type GatewayOptions } from "../../src/gateway/gateway.ts";

/** A gateway in this process, made as programs that use the library make it. */
export interface LocalGateway extends AsyncDisposable {
  readonly gateway: Gateway;
  /** Where it listens, without a path. */
  readonly origin: string;
  /** The endpoint of its only route. */
  readonly url: string;
  readonly adminUrl: string | undefined;
}

/** A checked configuration for a free port of this machine, silent, and with a second listener only where asked for. */
export function localConfig(input: ConfigInput): Config {
  const checked = parseConfig({
    admin: false,
    log: { level: "silent" },
    // What a test leaves running is not waited for.
    shutdown: { grace: 0 },
    ...input,
    ...(input.routes === undefined ? {} : { routes: withPatience(input.routes) }),
    listen: { port: 0, ...input.listen },
  });
  if (!checked.ok) throw new Error(checked.problems.map(({ path, message }) => `${path}: ${message}`).join("\n"));
  return checked.config;
}

/** Routes of several servers that wait for them as long as they take on a busy machine, unless a test says how long. */
function withPatience(routes: NonNullable<ConfigInput["routes"]>): NonNullable<ConfigInput["routes"]> {
  return Object.fromEntries(
    Object.entries(routes).map(([name, route]) => {
      if (route.upstreams === undefined) return [name, route];
      const { federation } = route;
      return [name, { ...route, federation: { ...federation, listing: { wait: "30s", ...federation?.listing } } }];
    }),
  );
}

/** Opens a gateway with such a configuration. */
export async function openGateway(input: ConfigInput, options: GatewayOptions = {}): Promise<LocalGateway> {
  const gateway = createGateway(localConfig(input), { environment: process.env, ...options });
  const { url, adminUrl } = await gateway.listen();
  return {
    gateway,
    origin: url,
    url: `${url}/mcp`,
    adminUrl,
    [Symbol.asyncDispose]: async () => gateway.close(),
  };
}
