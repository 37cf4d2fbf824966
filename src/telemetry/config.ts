import * as z from "zod";

/** Log levels; each includes those after it. */
export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

/** One of the log levels; `silent` logs nothing. */
export type LogLevel = (typeof logLevels)[number];

/** The `log` part of the configuration. */
export const logConfig = z.strictObject({
  level: z
    .enum(logLevels)
    .default("info")
    .describe("The least severe level to log. `info` logs one line per exchange."),
  format: z
    .enum(["auto", "json", "text"])
    .default("auto")
    .describe("JSON lines or readable text. `auto` is text on a terminal and JSON elsewhere."),
});
