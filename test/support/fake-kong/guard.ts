import { resolve } from "node:path";
import { parse } from "yaml";
import { LuaError } from "./kit.ts";
import { runLua, toLua } from "./luajit.ts";
import type { ClientResponse, RequestContext } from "./request.ts";

/** The functions of Kong's `post-function` plugin, as its configuration has them: Lua, run by LuaJIT. */
export interface Guard {
  /** Runs the functions of a phase; answers what they exit with, if they do. */
  run(phase: "access" | "header_filter", context: RequestContext, answer?: ClientResponse): GuardExit | undefined;
}

/** What a function exits with. */
export interface GuardExit {
  readonly status: number;
  readonly body: Buffer;
  /** Headers of the answer that the functions cleared before. */
  readonly cleared: ReadonlySet<string>;
}

const script = resolve(import.meta.dirname, "guard.lua");

/** Reads the guard from its file. */
export function parseGuard(yaml: string): Guard {
  const config = at(parse(yaml), "config");
  return {
    run(phase, context, answer) {
      const functions = listOf(at(config, phase));
      if (functions.length === 0) return undefined;
      const state = {
        phase,
        functions,
        shared: Object.fromEntries(context.shared),
        method: context.client.method,
        source: answer?.source,
        status: answer?.status,
        headers: answer?.headers ?? {},
      };
      return effectsOf(runLua(script, `return ${toLua(state)}`), context);
    },
  };
}

function effectsOf(printed: string, context: RequestContext): GuardExit | undefined {
  const cleared = new Set<string>();
  for (const line of printed.split("\n").filter((each) => each !== "")) {
    const [effect = "", ...args] = line.split(" ");
    const text = Buffer.from(args.at(-1) ?? "", "hex").toString();
    if (effect === "log") context.log.push({ level: "err", text });
    else if (effect === "clear") cleared.add(text);
    else if (effect === "exit") return { status: Number(args[0]), body: Buffer.from(text), cleared };
    else throw new LuaError(text);
  }
  return undefined;
}

function at(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

function listOf(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}
