// Methods that only tests call, and options that only tests set. Names decide, without types: a member counts as used
// where the product uses any member of that name.
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { parseSync } from "oxc-parser";

/** A node of a parsed module. */
export type Node = Readonly<Record<string, unknown>> & { readonly type: string };

/** What code does with members of objects. */
export interface MemberUse {
  /** Names of methods that it calls. */
  readonly calls: ReadonlySet<string>;
  /** Options that it gives to a function, each with the function's name. */
  readonly options: readonly { readonly callee: string; readonly key: string }[];
}

/** What the product does with members, by name. */
export interface ProductMembers {
  /** Whether this is a method of the product that nothing in the product calls, and that users cannot call. */
  readonly isUncalled: (method: string) => boolean;
  /** Whether this is an option of the product that nothing in the product sets, and that users cannot set. */
  readonly isUnset: (option: string) => boolean;
}

/** Users call and set what these pages document. What only `headgate/protocol` has, a product must use as well. */
const publicPages = ["headgate", "server-kit", "agent-kit", "testing"];

/** Reads the product's modules. */
export function readProductMembers(root: string): ProductMembers {
  const methods = new Set<string>();
  const options = new Set<string>();
  const read = new Set<string>();
  const written = new Set<string>();
  for (const file of globSync("src/**/*.ts", { cwd: root })) {
    if (file.endsWith(".test.ts")) continue;
    const { program } = parseSync(file, readFileSync(join(root, file), "utf8"));
    walk(program, (node) => {
      const key = keyOf(node);
      switch (node.type) {
        case "MethodDefinition":
        case "TSMethodSignature":
          methods.add(key);
          if (node["optional"] === true) options.add(key);
          break;
        case "TSPropertySignature":
          if (isFunctionType(node["typeAnnotation"])) methods.add(key);
          if (node["optional"] === true) options.add(key);
          break;
        case "MemberExpression":
          read.add(nameOf(node["property"]));
          break;
        case "AssignmentExpression":
          written.add(nameOf(memberOf(node["left"], "property")));
          break;
        case "ObjectPattern":
          for (const property of nodesOf(node["properties"])) read.add(keyOf(property));
          break;
        case "ObjectExpression":
          for (const property of nodesOf(node["properties"])) written.add(keyOf(property));
          break;
      }
    });
  }
  const isPublic = publicNames(root);
  return {
    isUncalled: (method) => methods.has(method) && !read.has(method) && !isPublic(method),
    isUnset: (option) => options.has(option) && !written.has(option) && !isPublic(option),
  };
}

/** Notes what a node of a test does with members. */
export function memberUseOf(node: unknown): MemberUse {
  const calls = new Set<string>();
  const options: { callee: string; key: string }[] = [];
  walk(node, (one) => {
    if (one.type !== "CallExpression" && one.type !== "NewExpression") return;
    const callee = one["callee"];
    if (memberOf(callee, "type") === "MemberExpression") calls.add(nameOf(memberOf(callee, "property")));
    if (memberOf(callee, "type") !== "Identifier") return;
    for (const argument of nodesOf(one["arguments"])) {
      if (argument.type !== "ObjectExpression") continue;
      for (const property of nodesOf(argument["properties"]))
        options.push({ callee: nameOf(callee), key: keyOf(property) });
    }
  });
  return { calls, options };
}

/** The names that the API reference documents. */
function publicNames(root: string): (name: string) => boolean {
  const words = new Set(
    publicPages.flatMap((page) => {
      const file = join(root, `docs/reference/api/${page}.md`);
      return existsSync(file) ? (readFileSync(file, "utf8").match(/\w+/gu) ?? []) : [];
    }),
  );
  return (name) => words.has(name);
}

function isFunctionType(annotation: unknown): boolean {
  const type = memberOf(annotation, "typeAnnotation");
  return memberOf(type, "type") === "TSFunctionType";
}

function walk(value: unknown, see: (node: Node) => void): void {
  if (Array.isArray(value)) {
    for (const one of value) walk(one, see);
    return;
  }
  if (!isNode(value)) return;
  see(value);
  for (const inner of Object.values(value)) walk(inner, see);
}

function keyOf(node: Node): string {
  return node["computed"] === true ? "" : nameOf(node["key"]);
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

/** The name that an identifier or a text stands for. */
export function nameOf(node: unknown, otherwise = ""): string {
  const name = isNode(node) ? (node["name"] ?? node["value"]) : undefined;
  return typeof name === "string" ? name : otherwise;
}

/** The nodes of a list. */
export function nodesOf(value: unknown): readonly Node[] {
  return Array.isArray(value) ? value.filter(isNode) : [];
}

/** Whether a value is a node of a parsed module. */
export function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && typeof Reflect.get(value, "type") === "string";
}
