import * as sdk from "@modelcontextprotocol/core";
import * as z from "zod";

import { anyObject, integer } from "./blocks.ts";

const taskBase = {
  taskId: z.string(),
  status: sdk.TaskStatusSchema,
  statusMessage: z.string().optional(),
  createdAt: z.string(),
  lastUpdatedAt: z.string(),
};

/** A task of the core protocol (MCP 2025-11-25, Tasks). */
export const coreTask: z.ZodRawShape = {
  ...taskBase,
  ttl: integer.nullable(),
  pollInterval: integer.optional(),
};

/** A task as the extension creates it: flat, with times in milliseconds named so. */
export const extensionTask: z.ZodRawShape = {
  ...taskBase,
  ttlMs: integer.nullable(),
  pollIntervalMs: integer.optional(),
};

/**
 * A task as the extension reports it, with what its state has led to (Tasks extension, `DetailedTask`); the base
 * members are those of the message that carries it.
 */
export function detailedTask(base: z.ZodRawShape, inputRequests: z.ZodType): z.ZodType {
  const error = z.object({ code: integer, message: z.string() });
  const state = (status: string, shape: z.ZodRawShape = {}) =>
    z.object({ ...base, ...extensionTask, status: z.literal(status), ...shape });
  return z.discriminatedUnion("status", [
    state("working"),
    state("cancelled"),
    state("input_required", { inputRequests }),
    state("completed", { result: anyObject }),
    state("failed", { error }),
  ]);
}
