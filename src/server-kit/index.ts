// The public surface of the server kit, exported as headgate/server-kit.
export { toExpress } from "./adapters/express.ts";
export { toFastify } from "./adapters/fastify.ts";
export { toHono } from "./adapters/hono.ts";
export { listen, toNodeListener } from "./adapters/node.ts";
export type { ListeningServer, KitListenOptions } from "./adapters/node.ts";
export type {
  KitCaller,
  CallEvent,
  CapabilityTool,
  Failure,
  FailureCode,
  FieldIssue,
  HttpEdge,
  KitCore,
  KitEnvironment,
  KitHealth,
  PeerDetails,
  TransportName,
} from "./contract.ts";
export { createServerKit } from "./create.ts";
export type { KitAuth, ServerKit, ServerKitOptions } from "./create.ts";
export { defineTool } from "./custom-tool.ts";
export type { ContentTool, KitTool, ToolRunContext, TypedTool } from "./custom-tool.ts";
export { entityFromTable } from "./drizzle.ts";
export { defineEntity } from "./entity.ts";
export type { Entity, EntityHooks, EntityOptions } from "./entity.ts";
export { detectEnvironment } from "./environment.ts";
export { kitFailure } from "./failure.ts";
export type { FilterOf } from "./filter.ts";
export type { OperationName } from "./operations.ts";
export type { KitSettings, KitSettingsInput } from "./settings.ts";
export { startServerKit } from "./start.ts";
export type { RunningServerKit, StartServerKitOptions } from "./start.ts";
export { memoryStore } from "./stores/memory.ts";
export { postgresStore } from "./stores/postgres.ts";
export type { PostgresClient, PostgresPool } from "./stores/postgres.ts";
export { sqliteStore } from "./stores/sqlite.ts";
export type { EntityStore } from "./stores/store.ts";
export type { TypedRecords } from "./typed-records.ts";
export type { Authenticator } from "../auth/authenticator.ts";
export { createTestIssuer } from "./http/test-issuer.ts";
export type { TestIssuer, TestIssuerOptions } from "./http/test-issuer.ts";
export { introspectionVerifier, jwtVerifier } from "./http/token-verifiers.ts";
export type { IntrospectionVerifierOptions, JwtVerifierOptions } from "./http/token-verifiers.ts";
