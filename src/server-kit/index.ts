/**
 * Public API of the server kit: serve your data and tools over MCP and REST.
 *
 * @example
 * import { defineEntity, startServerKit } from "headgate/server-kit";
 * import { z } from "zod";
 *
 * const Note = defineEntity("Note", z.object({ id: z.uuid(), text: z.string() }));
 * await startServerKit({ name: "notes", entities: [Note], settings: { enableHttpSseTransport: true } });
 */
import "../lib/node-version.ts";

// Create and run a kit.
export { createServerKit, startServerKit } from "./create-server-kit.ts";
export type {
  KitAuth,
  RecordsOf,
  RunningServerKit,
  ServerKit,
  ServerKitOptions,
  StartServerKitOptions,
} from "./create-server-kit.ts";
export type { ExtendContext } from "./mcp/mcp-server.ts";
export type { AnonymousNames } from "./mcp/extension-access.ts";
export type { StdioSession, StdioStreams } from "./mcp/mcp-server.ts";
export type { HttpEdge, IdentifyRequest, KitHealth, PeerDetails } from "./http/contract.ts";
export { detectEnvironment } from "./settings/settings.ts";
export type { EnvironmentVariables } from "./settings/settings.ts";
export type { KitEnvironment, KitSettings, KitSettingsInput } from "./settings/settings.ts";

// Mount it in a host.
export { toExpress, toFastify, toHono } from "./adapters/frameworks.ts";
export type { FastifyHost } from "./adapters/frameworks.ts";
export { listen, toNodeListener } from "./adapters/node.ts";
export type { KitListenOptions, ListeningServer } from "./adapters/node.ts";

// Declare entities.
export { defineEntity } from "./entity/entity.ts";
export type {
  Entity,
  EntityHooks,
  EntityOptions,
  FieldGenerator,
  FieldName,
  HookContext,
  TransportName,
} from "./entity/entity.ts";
export { entityFromTable } from "./entity/drizzle.ts";
export type { DrizzleSchema, DrizzleTable, DrizzleValue } from "./entity/drizzle.ts";
export type { FieldTests, FilterOf } from "./entity/filter.ts";
export type { OperationName } from "./entity/entity.ts";
export type { ExpectedVersion, TypedRecords } from "./entity/typed-records.ts";

// Declare tools.
export { defineTool } from "./tools/define-tool.ts";
export type {
  ContentOutput,
  ContentTool,
  KitTool,
  ToolOptions,
  ToolRunContext,
  TypedTool,
} from "./tools/define-tool.ts";
export { kitFailure } from "./entity/failure.ts";
export type { FailureCode, FieldIssue } from "./entity/failure.ts";

// Store records.
export { memoryStore } from "./stores/memory.ts";
export { postgresStore } from "./stores/postgres.ts";
export type { PostgresClient, PostgresPool, PostgresStoreOptions } from "./stores/postgres.ts";
export { sqliteStore } from "./stores/sqlite.ts";
export type { JsonObject, JsonValue, Row, Scalar } from "./stores/store.ts";
export type {
  ApplyResult,
  ColumnMapping,
  ComparisonOperator,
  EntityStore,
  EntityTable,
  FieldKind,
  RowChange,
  RowCondition,
  RowQuery,
  SortKey,
  TableField,
  TableMapping,
} from "./stores/store.ts";

// Authenticate callers.
export { apiKeyVerifier, introspectionVerifier, jwtVerifier } from "./auth/token-verifiers.ts";
export type {
  ApiKey,
  ApiKeyVerifierOptions,
  IntrospectionVerifierOptions,
  JwtVerifierOptions,
  VerifierOptions,
} from "./auth/token-verifiers.ts";
export { createTestIssuer } from "./auth/test-issuer.ts";
export type { TestIssuer, TestIssuerOptions } from "./auth/test-issuer.ts";
export type { Authentication, AuthenticationFailure, Authenticator, Credentials } from "../auth/authenticator.ts";
