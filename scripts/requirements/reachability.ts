// Which code users can reach, and which code the tests of a requirement exercise. Both follow the names that a
// declaration mentions, through imports, from one module to the next.
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative, sep } from "node:path";

import { parseSync } from "oxc-parser";

import { citedIn } from "./citations.ts";
import {
  isNode,
  type MemberUse,
  memberUseOf,
  nameOf,
  type Node,
  nodesOf,
  type ProductMembers,
  readProductMembers,
} from "./members.ts";

/** Where users enter: the commands and the entry points of the package. */
export const entryPoints = {
  headgate: "src/cli/main.ts",
  "headgate-kong": "src/kong/main.ts",
  library: "src/index.ts",
  "server-kit": "src/server-kit/index.ts",
  "agent-kit": "src/agent-kit/index.ts",
  protocol: "src/protocol/index.ts",
  testing: "src/testing.ts",
} as const;

/** One of the entry points. */
export type EntryPoint = keyof typeof entryPoints;

/** A test that cites requirements, and what it exercises. */
export interface CitingTest {
  readonly file: string;
  readonly title: string;
  readonly ids: readonly string[];
  /** The declarations of the product that it uses itself, as `file#name`. */
  readonly uses: readonly string[];
  /** Methods of the product that it calls and options that it sets, which nothing in the product does. */
  readonly ownMembers: readonly string[];
}

/** A declaration at the top level of a module. */
interface Declaration {
  /** Names it mentions. */
  readonly mentions: ReadonlySet<string>;
  /** Modules it imports when it runs. */
  readonly loads: readonly string[];
  /** What it does with members; only of tests. */
  readonly members?: MemberUse;
}

interface Module {
  readonly declarations: ReadonlyMap<string, Declaration>;
  /** What each exported name is called inside, or where it comes from. */
  readonly exports: ReadonlyMap<string, Target>;
  readonly imports: ReadonlyMap<string, Target>;
  readonly starFrom: readonly string[];
  /** What runs when the module is loaded. */
  readonly body: Declaration;
  readonly tests: readonly { readonly title: string; readonly run: Declaration }[];
}

/** A name of a module; `*` for all its exports. */
interface Target {
  readonly file: string;
  readonly name: string;
}

/** The modules of the repository, read when they are first needed. */
export function createModuleGraph(root: string): ModuleGraph {
  const modules = new Map<string, Module>();
  const moduleOf = (file: string): Module => {
    const known = modules.get(file) ?? readModule(root, file);
    modules.set(file, known);
    return known;
  };

  /** The declarations that stand behind an exported name. */
  function resolveExport(file: string, name: string, seen = new Set<string>()): readonly string[] {
    if (seen.has(`${file}#${name}`)) return [];
    seen.add(`${file}#${name}`);
    const { exports, starFrom } = moduleOf(file);
    if (name === "*") {
      const own = [...exports.keys()].flatMap((one) => resolveExport(file, one, seen));
      return [...own, ...starFrom.flatMap((other) => resolveExport(other, "*", seen))];
    }
    const target = exports.get(name);
    if (target !== undefined) {
      return target.file === file ? [`${file}#${target.name}`] : resolveExport(target.file, target.name, seen);
    }
    return starFrom.flatMap((other) => resolveExport(other, name, seen));
  }

  /** The declarations that a declaration of a file mentions or loads. */
  function edgesOf(file: string, { mentions, loads }: Declaration): readonly string[] {
    const { declarations, imports } = moduleOf(file);
    const named = [...mentions].flatMap((name) => {
      if (declarations.has(name)) return [`${file}#${name}`];
      const target = imports.get(name);
      return target === undefined ? [] : resolveExport(target.file, target.name);
    });
    return [...named, ...loads.flatMap((loaded) => [...resolveExport(loaded, "*"), `${loaded}#`])];
  }

  /** Everything reached from some declarations, as far as `follow` lets it go. */
  function reach(from: readonly string[], follow: (id: string) => boolean): ReadonlySet<string> {
    const reached = new Set<string>();
    const open = [...from];
    for (let id = open.pop(); id !== undefined; id = open.pop()) {
      if (reached.has(id)) continue;
      reached.add(id);
      if (!follow(id)) continue;
      const [file = "", name = ""] = id.split("#");
      const module = moduleOf(file);
      const declaration = name === "" ? module.body : module.declarations.get(name);
      if (declaration !== undefined) open.push(...edgesOf(file, declaration));
      if (name !== "") open.push(`${file}#`);
    }
    return reached;
  }

  /** The methods that a test calls and the options that it sets, as far as nothing in the product does. */
  function ownMembers(file: string, { members }: Declaration): readonly string[] {
    if (members === undefined) return [];
    product ??= readProductMembers(root);
    const { isUncalled, isUnset } = product;
    const called = [...members.calls].filter(isUncalled).map((name) => `the method ${name}`);
    const set = members.options.filter(({ callee, key }) => {
      const target = moduleOf(file).imports.get(callee);
      return target !== undefined && resolveExport(target.file, target.name).some(isProduct) && isUnset(key);
    });
    return [...called, ...set.map(({ callee, key }) => `the option ${key} of ${callee}`)];
  }
  let product: ProductMembers | undefined;

  return {
    reachableFrom: (entry) => {
      const file = entryPoints[entry];
      return reach([...resolveExport(file, "*"), `${file}#`], () => true);
    },
    citingTests: (files) =>
      files.flatMap((file) =>
        moduleOf(file).tests.flatMap(({ title, run }) => {
          const { ids } = citedIn(title);
          if (ids.length === 0) return [];
          const reached = reach(edgesOf(file, run), (id) => !isProduct(id));
          const uses = [...reached].filter((id) => isProduct(id) && !id.endsWith("#"));
          const helpers = [...reached].flatMap((id) => {
            const [helper = "", name = ""] = id.split("#");
            const declaration = isProduct(id) ? undefined : moduleOf(helper).declarations.get(name);
            return declaration === undefined ? [] : ownMembers(helper, declaration);
          });
          return [{ file, title, ids, uses, ownMembers: [...ownMembers(file, run), ...helpers] }];
        }),
      ),
  };
}

/** What the modules of a repository say about each other. */
export interface ModuleGraph {
  /** Every declaration that an entry point reaches, as `file#name`. */
  reachableFrom(entry: EntryPoint): ReadonlySet<string>;
  citingTests(files: readonly string[]): readonly CitingTest[];
}

/** Where users really start something; the other entry points are libraries of helpers. */
const products: readonly EntryPoint[] = ["headgate", "headgate-kong", "library", "server-kit", "agent-kit"];

/** Where the code behind the tests of a row can be reached from. */
export interface RowReach {
  readonly id: string;
  /** The entry points that reach everything that some test of the row uses; `process` for tests that start a program. */
  readonly from: readonly (EntryPoint | "process")[];
  /** Code that only `headgate/protocol` exports and no product calls. */
  readonly libraryOnly: readonly string[];
  /** Code that nothing reaches but tests. */
  readonly unreachable: readonly string[];
  /** Methods and options that nothing uses but tests. */
  readonly ownMembers: readonly string[];
}

/** Says for each cited row where its code can be reached from. */
export function reachOfRows(graph: ModuleGraph, tests: readonly CitingTest[]): ReadonlyMap<string, RowReach> {
  const reached = new Map(
    Object.keys(entryPoints).map((entry) => [entry as EntryPoint, graph.reachableFrom(entry as EntryPoint)] as const),
  );
  const entriesOf = (id: string): readonly EntryPoint[] =>
    [...reached].filter(([, ids]) => ids.has(id)).map(([entry]) => entry);
  const rows = new Map<
    string,
    { from: Set<EntryPoint | "process">; library: Set<string>; none: Set<string>; members: Set<string> }
  >();
  for (const { ids, uses, ownMembers } of tests) {
    const used = uses.map((id) => ({ id, entries: entriesOf(id) }));
    const none = used.filter(({ entries }) => entries.length === 0);
    const library = used.filter(({ entries }) => entries.length === 1 && entries[0] === "protocol");
    // What only helps to test is no product.
    const own = used.filter(({ entries }) => entries.some((entry) => products.includes(entry)));
    const isClean = none.length === 0 && library.length === 0;
    const shared = isClean ? products.filter((entry) => own.every(({ entries }) => entries.includes(entry))) : [];
    for (const row of ids) {
      const found = rows.get(row) ?? { from: new Set(), library: new Set(), none: new Set(), members: new Set() };
      rows.set(row, found);
      for (const entry of own.length === 0 && isClean ? (["process"] as const) : shared) found.from.add(entry);
      for (const { id } of none) found.none.add(id);
      for (const name of ownMembers) found.members.add(name);
      for (const { id } of library) found.library.add(id);
    }
  }
  return new Map(
    [...rows].map(([id, { from, library, none, members }]) => [
      id,
      { id, from: [...from], libraryOnly: [...library], unreachable: [...none], ownMembers: [...members] },
    ]),
  );
}

/** The test files that may cite requirements. */
export function citingFiles(root: string): readonly string[] {
  return globSync(["src/**/*.test.ts", "test/**/*.test.ts"], { cwd: root }).map((file) => file.split(sep).join("/"));
}

function isEntryPoint(file: string): boolean {
  return Object.values<string>(entryPoints).includes(file);
}

function isProduct(id: string): boolean {
  return id.startsWith("src/") && !/\.test\.ts#/u.test(id);
}

function readModule(root: string, file: string): Module {
  const { program } = parseSync(file, readFileSync(join(root, file), "utf8"));
  const declarations = new Map<string, Declaration>();
  const exports = new Map<string, Target>();
  const imports = new Map<string, Target>();
  const starFrom: string[] = [];
  const loose: Node[] = [];
  const tests: { title: string; run: Declaration }[] = [];
  const resolveFrom = (specifier: unknown): string | undefined => resolveModule(root, file, specifier);
  const declare = (name: string, node: Node): void => {
    const before = declarations.get(name);
    const made = toDeclaration(node, resolveFrom);
    declarations.set(name, {
      mentions: new Set([...(before?.mentions ?? []), ...made.mentions]),
      loads: [...(before?.loads ?? []), ...made.loads],
      ...(isProduct(`${file}#${name}`) ? {} : { members: memberUseOf(node) }),
    });
  };

  for (const statement of program.body as unknown as readonly Node[]) {
    const source = isNode(statement["source"]) ? resolveFrom(statement["source"]["value"]) : undefined;
    switch (statement.type) {
      case "ImportDeclaration":
        if (statement["importKind"] === "type" || source === undefined) break;
        for (const specifier of nodesOf(statement["specifiers"])) {
          if (specifier["importKind"] === "type") continue;
          const name = specifier.type === "ImportNamespaceSpecifier" ? "*" : nameOf(specifier["imported"], "default");
          imports.set(nameOf(specifier["local"]), { file: source, name });
        }
        break;
      case "ExportAllDeclaration":
        if (source !== undefined) starFrom.push(source);
        break;
      case "ExportNamedDeclaration": {
        if (statement["exportKind"] === "type") break;
        for (const specifier of nodesOf(statement["specifiers"])) {
          const target = { file: source ?? file, name: nameOf(specifier["local"]) };
          const renamed = source === undefined ? imports.get(target.name) : undefined;
          exports.set(nameOf(specifier["exported"]), renamed ?? target);
        }
        const declared = statement["declaration"];
        if (isNode(declared)) for (const name of declareAll(declared, declare)) exports.set(name, { file, name });
        break;
      }
      case "ExportDefaultDeclaration":
        declare("default", statement);
        exports.set("default", { file, name: "default" });
        break;
      default:
        if (declareAll(statement, declare).length === 0) loose.push(statement);
    }
  }
  const all: Node = { type: "Program", body: loose };
  collectTests(all, "", (title, node) => {
    tests.push({ title, run: { ...toDeclaration(node, resolveFrom), members: memberUseOf(node) } });
  });
  const isTest = file.endsWith(".test.ts");
  return {
    declarations,
    exports,
    imports,
    starFrom,
    // The body of a test file is its tests, which count one by one; set-up counts for each of them.
    body: isTest ? { mentions: new Set(), loads: [] } : toDeclaration(all, resolveFrom),
    tests,
  };
}

/** Declares everything that a statement declares at the top level; returns the names. */
function declareAll(statement: Node, declare: (name: string, node: Node) => void): readonly string[] {
  switch (statement.type) {
    case "FunctionDeclaration":
    case "ClassDeclaration": {
      const name = nameOf(statement["id"]);
      declare(name, statement);
      return [name];
    }
    case "VariableDeclaration":
      return nodesOf(statement["declarations"]).flatMap((one) => {
        const names = boundNames(one["id"]);
        for (const name of names) declare(name, one);
        return names;
      });
    case "TSInterfaceDeclaration":
    case "TSTypeAliasDeclaration":
      return [nameOf(statement["id"])];
    default:
      return [];
  }
}

function boundNames(pattern: unknown): readonly string[] {
  if (!isNode(pattern)) return [];
  if (pattern.type === "Identifier") return [nameOf(pattern)];
  return Object.entries(pattern)
    .filter(([key]) => key !== "key")
    .flatMap(([, value]) => (Array.isArray(value) ? value.flatMap(boundNames) : boundNames(value)));
}

/** Finds `it`, `test` and `describe` whose title is known; the tests inside a group share its citations. */
function collectTests(node: unknown, group: string, found: (title: string, node: Node) => void): void {
  if (Array.isArray(node)) {
    for (const one of node) collectTests(one, group, found);
    return;
  }
  if (!isNode(node)) return;
  if (node.type === "CallExpression") {
    const callee = calleeName(node["callee"]);
    const [first] = nodesOf(node["arguments"]);
    const title = first === undefined ? undefined : textOf(first);
    if (title !== undefined && (callee === "it" || callee === "test"))
      for (const whole of titlesOf(title, node["callee"])) found(joinTitles(group, whole), node);
    if (title !== undefined && callee === "describe") {
      collectTests(node["arguments"], joinTitles(group, title), found);
      return;
    }
  }
  for (const [key, value] of Object.entries(node)) {
    if (key !== "type") collectTests(value, group, found);
  }
}

/** The titles that a test has: of a table, those whose rows cite something. */
function titlesOf(title: string, callee: unknown): readonly string[] {
  if (citedIn(title).ids.length > 0 || !/^\[?[%$]/u.test(title)) return [title];
  const texts = textsIn(callee).map((text) =>
    /^[A-Z]{2}-\d/u.test(text) && title.startsWith("[") ? `[${text}]` : text,
  );
  const cited = texts.filter((text) => citedIn(text).ids.length > 0);
  return cited.length === 0 ? [title] : [...new Set(cited)];
}

/** Every text in a piece of code. */
function textsIn(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(textsIn);
  if (!isNode(value)) return [];
  const own = value.type === "Literal" && typeof value["value"] === "string" ? [value["value"]] : [];
  return [...own, ...Object.values(value).flatMap(textsIn)];
}

/** The citations of a group, then the title of its member. */
function joinTitles(group: string, title: string): string {
  const { ids } = citedIn(group);
  return ids.length === 0 ? title : `[${ids.join(", ")}] ${title}`;
}

/** The name at the root of a callee: `it` of `it.each([…])`. */
function calleeName(callee: unknown): string {
  if (!isNode(callee)) return "";
  if (callee.type === "Identifier") return nameOf(callee);
  return calleeName(callee["object"] ?? callee["callee"] ?? callee["tag"]);
}

function textOf(node: Node): string | undefined {
  if (node.type === "Literal" && typeof node["value"] === "string") return node["value"];
  if (node.type !== "TemplateLiteral") return undefined;
  const [head] = nodesOf(node["quasis"]);
  const value: unknown = head?.["value"];
  const text: unknown = typeof value === "object" && value !== null ? Reflect.get(value, "cooked") : undefined;
  return typeof text === "string" ? text : undefined;
}

function toDeclaration(node: Node, resolveFrom: (specifier: unknown) => string | undefined): Declaration {
  const mentions = new Set<string>();
  const loads: string[] = [];
  visit(node);
  return { mentions, loads };

  function visit(value: unknown): void {
    if (Array.isArray(value)) {
      for (const one of value) visit(one);
      return;
    }
    if (!isNode(value)) return;
    if (value.type === "Identifier" || value.type === "JSXIdentifier") mentions.add(nameOf(value));
    const loaded = resolveFrom(loadedBy(value));
    // Where code names an entry point, it hands the library to users and calls nothing of it.
    if (loaded !== undefined && !isEntryPoint(loaded)) loads.push(loaded);
    for (const [key, inner] of Object.entries(value)) {
      // Types run nothing, and the name of a member is not a name in scope.
      if (key === "typeAnnotation" || key === "typeArguments" || key === "returnType" || key === "typeParameters")
        continue;
      if (key === "property" && value["computed"] !== true) continue;
      if (key === "key" && value["computed"] !== true && value["shorthand"] !== true) continue;
      visit(inner);
    }
  }
}

/** The module that an expression loads: `import("./x.ts")`, or `new URL("./x.ts", …)` for a worker. */
function loadedBy(node: Node): unknown {
  const [first] =
    node.type === "NewExpression" && calleeName(node["callee"]) === "URL" ? nodesOf(node["arguments"]) : [];
  const source = node.type === "ImportExpression" ? node["source"] : first;
  if (!isNode(source)) return undefined;
  // A worker is loaded with the extension of the module that starts it.
  return source.type === "TemplateLiteral" ? `${textOf(source) ?? ""}.ts` : source["value"];
}

function resolveModule(root: string, from: string, specifier: unknown): string | undefined {
  if (typeof specifier !== "string") return undefined;
  if (specifier === "headgate" || specifier.startsWith("headgate/")) {
    const entry = specifier === "headgate" ? "library" : specifier.slice("headgate/".length);
    return entryPoints[entry as EntryPoint];
  }
  if (!specifier.startsWith(".")) return undefined;
  const path = normalize(join(dirname(from), specifier))
    .split(sep)
    .join("/");
  return /\.tsx?$/u.test(path) && existsSync(join(root, path)) ? relative("", path) : undefined;
}
