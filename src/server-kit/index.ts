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
} from "./contract/contract.ts";
export { createServerKit } from "./create-server-kit.ts";
export type { KitAuth, ServerKit, ServerKitOptions } from "./create-server-kit.ts";
export { defineTool } from "./tools/define-tool.ts";
export type { ContentTool, KitTool, ToolRunContext, TypedTool } from "./tools/define-tool.ts";
export { entityFromTable } from "./entity/drizzle.ts";
export { defineEntity } from "./entity/entity.ts";
export type { Entity, EntityHooks, EntityOptions } from "./entity/entity.ts";
export { detectEnvironment } from "./contract/settings.ts";
export { kitFailure } from "./contract/failure.ts";
export type { FilterOf } from "./entity/filter.ts";
export type { OperationName } from "./contract/operations.ts";
export type { KitSettings, KitSettingsInput } from "./contract/settings.ts";
export { startServerKit } from "./create-server-kit.ts";
export type { RunningServerKit, StartServerKitOptions } from "./create-server-kit.ts";
export { memoryStore } from "./stores/memory.ts";
export { postgresStore } from "./stores/postgres.ts";
export type { PostgresClient, PostgresPool } from "./stores/postgres.ts";
export { sqliteStore } from "./stores/sqlite.ts";
export type { EntityStore } from "./stores/store.ts";
export type { TypedRecords } from "./entity/records.ts";
export type { Authenticator } from "../auth/authenticator.ts";
export { createTestIssuer } from "./auth/test-issuer.ts";
export type { TestIssuer, TestIssuerOptions } from "./auth/test-issuer.ts";
export { introspectionVerifier, jwtVerifier } from "./auth/token-verifiers.ts";
export type { IntrospectionVerifierOptions, JwtVerifierOptions } from "./auth/token-verifiers.ts";
