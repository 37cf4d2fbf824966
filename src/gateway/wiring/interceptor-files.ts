import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import * as nodeModule from "node:module";
import { basename, extname } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import type { Config } from "../../config/config.ts";
import type { InterceptorConfig } from "../../config/interceptors.ts";
import type { Problem } from "../../config/issues.ts";
import {
  defineInterceptor,
  type InterceptorOptions,
  type MessageInterceptor,
} from "../../core/interceptors/interceptor.ts";
import { GatewayError } from "../../errors.ts";
import { isObject } from "../../lib/is-object.ts";

/** The interceptors of a configuration, or everything that is wrong with them. */
export type LoadedInterceptors =
  | {
      readonly ok: true;
      readonly interceptors: readonly MessageInterceptor[];
      /** Whether files were loaded for this, because they are new or have changed. */
      readonly isFresh: boolean;
    }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** Loads the interceptors that configurations name. */
export interface InterceptorLoader {
  /** Loads the files again only if one of them has changed, so that what they keep in memory stays. */
  load(config: Pick<Config, "interceptors">): Promise<LoadedInterceptors>;
  /** The files of the last load and those that they import by relative paths. */
  readonly files: ReadonlySet<string>;
}

/** The member of a module's URL that tells versions apart; modules are never unloaded. */
const versionKey = "headgate";
const versionText = /\?headgate=\d+/gu;
let versions = 0;

/** The package as interceptors import it: the one that runs, also where none is installed beside them. */
const ownModules: Readonly<Record<string, URL>> = {
  headgate: new URL(`../../index${extname(import.meta.url)}`, import.meta.url),
  "headgate/protocol": new URL(`../../protocol/index${extname(import.meta.url)}`, import.meta.url),
};

/** Files that modules of the running load import. */
let imported = new Set<string>();
let hasHooks = false;

/** Gives relative imports of interceptors the version of their importer, so that they are loaded again with it. */
function hookImports(): void {
  if (hasHooks) return;
  hasHooks = true;
  nodeModule.registerHooks({
    resolve: (specifier, context, nextResolve) => {
      const version = URL.parse(context.parentURL ?? "")?.searchParams.get(versionKey) ?? undefined;
      if (version === undefined) return nextResolve(specifier, context);
      const own = ownModules[specifier];
      if (own !== undefined) return nextResolve(own.href, context);
      const resolved = nextResolve(specifier, context);
      if (!/^\.{1,2}\//u.test(specifier)) return resolved;
      imported.add(fileURLToPath(resolved.url));
      return { ...resolved, url: `${resolved.url}?${versionKey}=${version}` };
    },
  });
}

/** Creates a loader. Node runs TypeScript as it is, by stripping its types. */
export function createInterceptorLoader(): InterceptorLoader {
  let files = new Set<string>();
  let digest = "";
  let modules = new Map<string, unknown>();

  async function importAll(wanted: ReadonlySet<string>): Promise<readonly Problem[]> {
    const next = new Map<string, unknown>();
    const problems: Problem[] = [];
    imported = new Set();
    versions++;
    for (const file of wanted) {
      try {
        next.set(file, await import(`${pathToFileURL(file).href}?${versionKey}=${versions}`));
      } catch (error) {
        problems.push({ path: file, message: `${file}: ${describeFailure(error)}` });
      }
    }
    files = new Set([...wanted, ...imported]);
    if (problems.length > 0) return problems;
    modules = next;
    digest = digestOf(files);
    return [];
  }

  return {
    get files() {
      return files;
    },
    load: async ({ interceptors }) => {
      const wanted = new Set(interceptors.map(({ file }) => file));
      if (wanted.size === 0) {
        files = wanted;
        return { ok: true, interceptors: [], isFresh: false };
      }
      hookImports();
      const isKnown = [...wanted].every((file) => modules.has(file)) && digest === digestOf(files);
      const failed = isKnown ? [] : await importAll(wanted);
      if (failed.length > 0) {
        const placed = failed.map(({ path, message }) => ({ path: placeOf(interceptors, path), message }));
        return { ok: false, problems: placed };
      }
      const made = await Promise.all(interceptors.map((entry) => interceptorsOf(entry, modules.get(entry.file))));
      const problems = made.flatMap((one) => (one.ok ? [] : one.problems));
      if (problems.length > 0) return { ok: false, problems };
      return { ok: true, interceptors: made.flatMap((one) => (one.ok ? one.interceptors : [])), isFresh: !isKnown };
    },
  };
}

async function interceptorsOf(entry: InterceptorConfig, module: unknown): Promise<LoadedInterceptors> {
  const { file, match, place, route, onFailure, mode, timeout } = entry;
  const exported = isObject(module) ? module["default"] : undefined;
  const given: readonly unknown[] = Array.isArray(exported) ? exported : [exported];
  const refuse = (key: string, message: string): LoadedInterceptors => ({
    ok: false,
    problems: [{ path: `${place}.${key}`, message }],
  });
  const options = given.map((one, index) => toOptions(one, file, index));
  const known = options.filter((one) => one !== undefined);
  if (known.length < options.length || known.length === 0) {
    return refuse("file", `${file}: the default export must be a function, an object with \`onMessage\`, or a list`);
  }
  // Imported only when needed, because patterns bring a large library.
  const filter =
    match === undefined ? undefined : (await import("../../recorder/filter/live.ts")).createLiveFilter(match);
  if (filter?.ok === false) return refuse("match", filter.problem);
  try {
    const interceptors = known.map((one) =>
      defineInterceptor({
        ...one,
        ...(route === undefined ? {} : { routes: [route] }),
        ...(filter === undefined ? {} : { when: bothOf(one.when, filter.matches) }),
        ...(onFailure === undefined ? {} : { failOpen: onFailure === "continue" }),
        ...(mode === undefined ? {} : { mode }),
        ...(timeout === undefined ? {} : { timeoutMs: timeout }),
      }),
    );
    return { ok: true, interceptors, isFresh: true };
  } catch (error) {
    return refuse("file", `${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

type Selecting = NonNullable<InterceptorOptions["when"]>;

function bothOf(own: InterceptorOptions["when"], configured: Selecting): Selecting {
  return own === undefined ? configured : (view) => own(view) && configured(view);
}

/** What a module exports, as options; its file names an interceptor that has no name. */
function toOptions(exported: unknown, file: string, index: number): InterceptorOptions | undefined {
  const name = basename(file, extname(file)) + (index === 0 ? "" : `-${index + 1}`);
  // Whether the function takes a message and returns an action is checked with every call.
  if (typeof exported === "function") return { name, onMessage: exported as InterceptorOptions["onMessage"] };
  if (!isObject(exported) || typeof exported["onMessage"] !== "function") return undefined;
  return { name, ...(exported as Omit<InterceptorOptions, "name">) };
}

function placeOf(interceptors: readonly InterceptorConfig[], file: string): string {
  return `${interceptors.find((entry) => entry.file === file)?.place ?? ""}.file`;
}

/** What went wrong and where; for a file that cannot be read or parsed, the engine's own words. */
function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return `threw ${String(error)}`;
  if ("code" in error && error.code === "ERR_MODULE_NOT_FOUND") return error.message.replaceAll(versionText, "");
  const { file, line } = /(?<file>file:\/\/[^\s?]+?)(?:\?[^\s:]*)?:(?<line>\d+)/u.exec(error.stack ?? "")?.groups ?? {};
  const place = file === undefined || line === undefined ? "" : ` (${fileURLToPath(file)}:${line})`;
  return `${error.name}: ${error.message.replaceAll(versionText, "")}${place}`;
}

function digestOf(files: ReadonlySet<string>): string {
  const hash = createHash("sha256");
  for (const file of files) {
    try {
      hash.update(file).update(readFileSync(file));
    } catch {
      hash.update("unreadable");
    }
  }
  return hash.digest("hex");
}

/**
 * Loads the interceptors that a configuration names, for `createGateway`; throws with the first problem.
 *
 * @example
 * const gateway = createGateway(config, { interceptors: await loadInterceptors(config) });
 */
export async function loadInterceptors(config: Pick<Config, "interceptors">): Promise<readonly MessageInterceptor[]> {
  const loaded = await createInterceptorLoader().load(config);
  if (loaded.ok) return loaded.interceptors;
  const problems = loaded.problems.map(({ path, message }) => `${path}: ${message}`);
  throw new GatewayError("config_invalid", problems.join("\n"));
}
