import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
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
import { thrownMessage } from "../../lib/thrown-message.ts";

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
  /** Whether one of them has changed since it was loaded, or could not be. */
  hasChanged(): boolean;
}

const { cache: requireCache } = nodeModule.createRequire(import.meta.url);

/** The member of a module's URL that tells versions apart; modules are never unloaded. */
const versionKey = "headgate";
const versionText = /\?headgate=\d+/gu;
let versions = 0;

/** The package as interceptors import it: the one that runs, also where none is installed beside them. */
const ownModules: Readonly<Record<string, URL>> = {
  headgate: new URL(`../../index${extname(import.meta.url)}`, import.meta.url),
  "headgate/protocol": new URL(`../../protocol/index${extname(import.meta.url)}`, import.meta.url),
};

/** Files that modules of the running load import, with their digests from before they were read. */
let imported: Digests = new Map();
type Digests = Map<string, string>;
/** The versions of files that `require` others: those are distinguished by path only. */
const requiring = new Map<string, string>();
let hasHooks = false;

/** Gives relative imports of interceptors the version of their importer, so that they are loaded again with it. */
function hookImports(): void {
  if (hasHooks) return;
  hasHooks = true;
  nodeModule.registerHooks({
    resolve: (specifier, context, nextResolve) => {
      const parent = URL.parse(context.parentURL ?? "");
      const isRequired = context.conditions.includes("require");
      const version = isRequired ? requiring.get(parent?.pathname ?? "") : parent?.searchParams.get(versionKey);
      if (version === undefined || version === null) return nextResolve(specifier, context);
      const own = ownModules[specifier];
      if (own !== undefined) return nextResolve(isRequired ? fileURLToPath(own) : own.href, context);
      if (!/^\.{1,2}\//u.test(specifier)) return nextResolve(specifier, context);
      const resolved = resolveRelative(() => nextResolve(specifier, context), specifier, context.parentURL);
      const { pathname } = new URL(resolved.url);
      const file = fileURLToPath(resolved.url);
      imported.set(file, digestOf(file));
      requiring.set(pathname, version);
      return isRequired ? resolved : { ...resolved, url: `${resolved.url}?${versionKey}=${version}` };
    },
  });
}

/** Resolves an import; a missing file is watched too, because it may be created. */
function resolveRelative<Resolved>(resolve: () => Resolved, specifier: string, parent: string | undefined): Resolved {
  try {
    return resolve();
  } catch (error) {
    const url = URL.parse(specifier, parent);
    if (url?.protocol === "file:") imported.set(fileURLToPath(new URL(url.pathname, url)), unreadable);
    throw error;
  }
}

/** Creates a loader. Node runs TypeScript as it is, by stripping its types. */
export function createInterceptorLoader(): InterceptorLoader {
  let tried: Digests = new Map();
  let loaded: Digests = new Map();
  let modules = new Map<string, unknown>();

  async function importAll(wanted: ReadonlySet<string>): Promise<readonly Problem[]> {
    const next = new Map<string, unknown>();
    const problems: Problem[] = [];
    // Digests from before: a change while a file is loaded is noticed afterwards.
    const own = [...wanted].map((file) => [file, digestOf(file)] as const);
    imported = new Map();
    versions++;
    // CommonJS modules are kept by path.
    for (const file of tried.keys()) delete requireCache[file];
    for (const file of wanted) {
      const url = pathToFileURL(file);
      requiring.set(url.pathname, String(versions));
      try {
        next.set(file, await import(`${url.href}?${versionKey}=${versions}`));
      } catch (error) {
        const reason = existsSync(file) ? describeFailure(error) : "no such file";
        problems.push({ path: file, message: `${file}: ${reason}` });
      }
    }
    tried = new Map([...imported, ...own]);
    if (problems.length > 0) return problems;
    modules = next;
    loaded = tried;
    return [];
  }

  return {
    get files() {
      return new Set(tried.keys());
    },
    hasChanged: () => isChanged(tried),
    load: async ({ interceptors }) => {
      const wanted = new Set(interceptors.map(({ file }) => file));
      if (wanted.size === 0) {
        tried = new Map();
        return { ok: true, interceptors: [], isFresh: false };
      }
      hookImports();
      const isKnown = [...wanted].every((file) => modules.has(file)) && !isChanged(loaded);
      const failed = isKnown ? [] : await importAll(wanted);
      if (failed.length > 0) {
        const placed = interceptors.flatMap((entry) =>
          failed.flatMap(({ path, message }) =>
            path === entry.file ? [{ path: placeOf(entry, "file"), message }] : [],
          ),
        );
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
  const { file, match, route, onFailure, mode, timeout } = entry;
  const exported = isObject(module) ? module["default"] : undefined;
  const given: readonly unknown[] = Array.isArray(exported) ? exported : [exported];
  const refuse = (key: "file" | "match", message: string): LoadedInterceptors => ({
    ok: false,
    problems: [{ path: placeOf(entry, key), message }],
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
    return refuse("file", `${file}: ${thrownMessage(error)}`);
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

/** The path of a key of an entry; files named on the command line have no keys. */
function placeOf({ place }: InterceptorConfig, key: string): string {
  return place.startsWith("--") ? place : `${place}.${key}`;
}

/** What went wrong and where; for a file that cannot be read or parsed, the engine's own message. */
function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return `threw ${String(error)}`;
  if ("code" in error && error.code === "ERR_MODULE_NOT_FOUND") return error.message.replaceAll(versionText, "");
  if ("code" in error && error.code === "ERR_UNKNOWN_FILE_EXTENSION")
    return "is not TypeScript or JavaScript by its name: expected .ts, .mts, .js or .mjs";
  const { file, line } = /(?<file>file:\/\/[^\s?]+?)(?:\?[^\s:]*)?:(?<line>\d+)/u.exec(error.stack ?? "")?.groups ?? {};
  const place = file === undefined || line === undefined ? "" : ` (${fileURLToPath(file)}:${line})`;
  const hint =
    "code" in error && error.code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX"
      ? "; types are only taken out: write it without enums, namespaces and parameter properties, or compile it to JavaScript"
      : "";
  const [words = ""] = error.message.replaceAll(versionText, "").split("\nRequire stack:");
  return `${error.name}: ${words}${place}${hint}`;
}

function isChanged(digests: Digests): boolean {
  return [...digests].some(([file, digest]) => digestOf(file) !== digest);
}

/** The digest of a file that is missing or cannot be read. */
const unreadable = "unreadable";

function digestOf(file: string): string {
  try {
    return createHash("sha256").update(readFileSync(file)).digest("hex");
  } catch {
    return unreadable;
  }
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
