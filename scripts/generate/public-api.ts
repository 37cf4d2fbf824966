// The public surface of the package, read from the declarations that the build ships.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize, resolve } from "node:path";

const root = resolve(import.meta.dirname, "../..");

/** An entry point of the package. */
export interface EntryPoint {
  /** What users import. */
  readonly specifier: string;
  /** Its source, from the root of the repository. */
  readonly source: string;
  /** The guide that introduces it, from the root of the repository. */
  readonly guide: string;
}

/** Every entry point in package.json. */
export const entryPoints: readonly EntryPoint[] = [
  { specifier: "headgate", source: "src/index.ts", guide: "docs/guides/interceptors.md" },
  { specifier: "headgate/protocol", source: "src/protocol/index.ts", guide: "docs/guides/protocol.md" },
  { specifier: "headgate/server-kit", source: "src/server-kit/index.ts", guide: "docs/guides/server-kit.md" },
  { specifier: "headgate/agent-kit", source: "src/agent-kit/index.ts", guide: "docs/guides/agent-kit.md" },
  { specifier: "headgate/testing", source: "src/testing.ts", guide: "docs/guides/replay.md" },
];

/** One export of an entry point. */
export interface PublicName {
  readonly name: string;
  readonly kind: "function" | "class" | "const" | "type";
  /** The first sentence of its doc comment. */
  readonly summary: string;
  /** Its doc comment in Markdown, without the examples. */
  readonly description: string;
  /** The examples of its doc comment. */
  readonly examples: readonly string[];
  /** Its declaration, with the comments on its members; all overloads of a function. */
  readonly signature: string;
  /** Types of ours in its declaration that no entry point exports. */
  readonly unnameable: readonly string[];
}

/** The exports of each entry point, in the order of its source. */
export function readPublicApi(): ReadonlyMap<string, readonly PublicName[]> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-api-"));
  try {
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    const args = [tsc, "-p", "tsconfig.build.json", "--emitDeclarationOnly", "--outDir", folder];
    execFileSync(process.execPath, args, { cwd: root });
    const load = createLoader(folder);
    const exports = entryPoints.map(({ specifier, source }) => [specifier, exportsOf(load, source)] as const);
    const nameable = new Set(exports.flatMap(([, all]) => all.map(({ declaration }) => keyOf(declaration))));
    return new Map(
      exports.map(([specifier, all]) => [
        specifier,
        all.map(({ name, declaration }) => ({
          name,
          kind: declaration.kind,
          ...readDoc(declaration.doc),
          signature: declaration.signature,
          unnameable: referencesOf(load, declaration)
            .filter((reference) => !nameable.has(keyOf(reference)))
            .map((reference) => `${reference.name} (${reference.file})`),
        })),
      ]),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A declaration in a file. */
interface Declaration {
  readonly file: string;
  readonly name: string;
  readonly kind: PublicName["kind"];
  readonly doc: string;
  /** All of its text without comments; several statements if it has overloads. */
  readonly text: string;
  /** The same as a reader wants it. */
  readonly signature: string;
}

/** What stands in a declaration file. */
interface Declarations {
  readonly file: string;
  readonly declared: ReadonlyMap<string, Declaration>;
  /** Names from other files of ours, imported or exported again: the file and the name there. */
  readonly imported: ReadonlyMap<string, readonly [file: string, name: string]>;
  /** In order: the exported name and the local one. */
  readonly exported: readonly (readonly [name: string, local: string])[];
}

type Load = (file: string) => Declarations;

function toDeclarationFile(source: string): string {
  return source.replace(/^src\//u, "").replace(/\.(?:ts|js)$/u, ".d.ts");
}

function createLoader(folder: string): Load {
  const loaded = new Map<string, Declarations>();
  return (file) => {
    const known = loaded.get(file) ?? readDeclarations(file, readFileSync(join(folder, file), "utf8"));
    loaded.set(file, known);
    return known;
  };
}

/** The declarations that an entry point exports. */
function exportsOf(
  load: Load,
  source: string,
): readonly { readonly name: string; readonly declaration: Declaration }[] {
  const entry = load(toDeclarationFile(source));
  return entry.exported.flatMap(([name, local]) => {
    const declaration = find(load, entry, local);
    return declaration === undefined ? [] : [{ name, declaration }];
  });
}

function keyOf({ file, name }: Declaration): string {
  return `${file}#${name}`;
}

/** Follows a name to its declaration; undefined if it belongs to another package. */
function find(load: Load, from: Declarations, name: string): Declaration | undefined {
  const own = from.declared.get(name);
  if (own !== undefined) return own;
  const [file, original] = from.imported.get(name) ?? [];
  if (file === undefined || original === undefined) return undefined;
  const target = load(file);
  const [, local = original] = target.exported.find(([exported]) => exported === original) ?? [];
  return find(load, target, local);
}

/** The types of ours that a declaration refers to. */
function referencesOf(load: Load, declaration: Declaration): readonly Declaration[] {
  const { file, name, text } = declaration;
  const found = new Map<string, Declaration>();
  const add = (reference: Declaration | undefined): void => {
    // Values appear by `typeof` only, which needs no name of their own.
    if (reference === undefined || reference.kind === "const" || reference.kind === "function") return;
    if (reference.file !== file || reference.name !== name) found.set(keyOf(reference), reference);
  };
  for (const [, path = "", imported = ""] of text.matchAll(/import\("(\.[^"]+)"\)\.(\w+)/gu)) {
    add(find(load, load(resolvePath(file, path)), imported));
  }
  const own = load(file);
  for (const [word] of text.replaceAll(/import\("[^"]+"\)\.\w+|"[^"]*"/gu, "").matchAll(/\b[A-Z]\w*\b/gu)) {
    add(find(load, own, word));
  }
  return [...found.values()];
}

function readDeclarations(file: string, text: string): Declarations {
  const declared = new Map<string, Declaration>();
  const imported = new Map<string, readonly [string, string]>();
  const exported: (readonly [string, string])[] = [];
  const named =
    /^(?<keyword>import|export)(?: type)? (?:\{(?<names>[^}]*)\} from "(?<path>\.[^"]+)"|\{(?<own>[^}]+)\});/gmu;
  for (const { groups = {} } of text.matchAll(named)) {
    const { keyword, names, path, own } = groups;
    for (const [original, local] of specifiersIn(names ?? own ?? "")) {
      if (path !== undefined)
        imported.set(keyword === "import" ? local : original, [resolvePath(file, path), original]);
      if (keyword === "export") exported.push([local, original]);
    }
  }
  const head =
    /^(?<export>export )?(?:default )?(?:declare )?(?:abstract )?(?<keyword>interface|type|class|function|const) (?<name>\w+)/gmu;
  for (const match of text.matchAll(head)) {
    const { keyword = "", name = "" } = match.groups ?? {};
    if (match.groups?.["export"] !== undefined) exported.push([name, name]);
    const kind = keyword === "interface" ? "type" : (keyword as PublicName["kind"]);
    const before = declared.get(name);
    const statement = statementAt(text, match.index, keyword === "interface" || keyword === "class");
    declared.set(name, {
      file,
      name,
      kind: before?.kind ?? kind,
      doc: before?.doc ?? docBefore(text, match.index),
      text: `${before?.text ?? ""}\n${statement.replaceAll(comment, "")}`,
      signature: `${before === undefined ? "" : `${before.signature}\n`}${toSignature(statement)}`,
    });
  }
  return { file, declared, imported, exported: [...new Map(exported)] };
}

function specifiersIn(list: string): readonly (readonly [original: string, local: string])[] {
  return list.split(",").flatMap((part) => {
    const [original, local = original] = part
      .trim()
      .replace(/^type /u, "")
      .split(" as ");
    return original === undefined || local === undefined || original === "" ? [] : [[original, local] as const];
  });
}

function resolvePath(from: string, path: string): string {
  return toDeclarationFile(normalize(join(dirname(from), path)));
}

const comment = /\/\*[\s\S]*?\*\//gu;

/** A statement with the comments inside: to its semicolon, or to the end of its braces. */
function statementAt(text: string, start: number, endsWithBrace: boolean): string {
  const rest = text.slice(start);
  let depth = 0;
  for (const { 0: token, index } of rest.matchAll(/\/\*[\s\S]*?\*\/|"[^"]*"|[{}()[\];]/gu)) {
    if (token === "{" || token === "(" || token === "[") depth++;
    if (token === "}" || token === ")" || token === "]") depth--;
    if (depth === 0 && (endsWithBrace ? token === "}" : token === ";")) return rest.slice(0, index + 1);
  }
  return rest;
}

/** A declaration without what only the compiler needs. */
function toSignature(statement: string): string {
  return statement
    .replace(/^export (?:default )?/u, "")
    .replace(/^declare /u, "")
    .replaceAll(/^ *(?:#private|private [^;\n]*);\n/gmu, "")
    .replaceAll(/import\("[^"]+"\)\./gu, "");
}

function docBefore(text: string, index: number): string {
  return /\/\*\*(?:(?!\*\/)[\s\S])*\*\/\s*$/u.exec(text.slice(0, index))?.[0] ?? "";
}

/** The parts of a TSDoc comment. */
function readDoc(doc: string): Pick<PublicName, "summary" | "description" | "examples"> {
  const lines = doc
    .replaceAll(/^\s*\/?\*+\/? ?|\s*\*\/\s*$/gmu, "")
    .replaceAll(/\{@link (?<name>[^}]+)\}/gu, "`$<name>`");
  const [words = "", ...examples] = lines.split(/^@example\s*$/mu);
  const description = words.replace(/^@param (?<name>\w+) (?:- )?/gmu, "\n`$<name>`: ").trim();
  const oneLine = description.replaceAll(/\s+/gu, " ");
  return {
    summary: /^.*?[.;:](?=\s|$)/u.exec(oneLine)?.[0].replace(/[;:]$/u, ".") ?? oneLine,
    description,
    examples: examples.map((example) => example.trim()),
  };
}
