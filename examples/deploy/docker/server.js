// A whole server: one entity, tokens of your issuer, every transport over HTTP.
import { defineEntity, jwtVerifier, sqliteStore, startServerKit } from "headgate/server-kit";
import { z } from "zod";

const { KIT_ISSUER: issuer, KIT_PUBLIC_URL: publicUrl, KIT_PROXIES = "", KIT_DATABASE = "kit.db" } = process.env;
if (issuer === undefined) throw new Error("KIT_ISSUER must name the authorization server whose tokens are believed");

const Site = defineEntity("Site", z.object({ id: z.uuid(), name: z.string().max(200), location: z.string() }), {
  description: "Sites of the trial",
  requiredScopes: ["clinical:operations"],
});

await startServerKit({
  name: "sites",
  entities: [Site],
  store: sqliteStore(KIT_DATABASE),
  auth: { authenticator: jwtVerifier({ issuer }), authorizationServers: [issuer] },
  settings: {
    enableStdioTransport: false,
    enableHttpSseTransport: true,
    enableRateLimiting: true,
    trustedProxies: KIT_PROXIES.split(",").filter((network) => network !== ""),
    ...(publicUrl === undefined ? {} : { publicUrl }),
  },
  // All addresses, because the container's own network decides who gets here.
  listen: { host: "0.0.0.0" },
});
