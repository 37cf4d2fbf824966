import { resolve } from "node:path";

import type { Expression, Node } from "typescript/unstable/ast";
import {
  isArrowFunction,
  isBindingElement,
  isBlock,
  isCallExpression,
  isElementAccessExpression,
  isIdentifier,
  isNewExpression,
  isObjectBindingPattern,
  isPropertyAccessExpression,
  isPropertyAssignment,
  isReturnStatement,
  isShorthandPropertyAssignment,
  isSpreadAssignment,
  isStringLiteral,
} from "typescript/unstable/ast/is";
import { API, type Checker, type Project, type Symbol as TypeSymbol, type Type } from "typescript/unstable/sync";

/** Where a property is declared: a file and a node in it. */
export type Declaration = string;

/** The declarations behind each key of a type, by its path; `*` stands for any name, and lists have no step. */
export type Keys = ReadonlyMap<string, ReadonlySet<Declaration>>;

/** What the compiler knows about the properties of the source tree. */
export interface PropertyReads extends Disposable {
  /** The keys of an exported type. */
  keysOf(file: string, typeName: string): Keys;
  /**
   * The files that read one of these properties: `a.key`, `a["key"]` and `{ key } = a`. The compiler says which
   * declaration each of them means, so that a property of the same name elsewhere does not count. A value that is given
   * to something of another type is followed there.
   */
  readersOf(places: Iterable<Declaration>): ReadonlySet<string>;
}

/** Reads the source tree with the compiler. */
export function findPropertyReads(root: string): PropertyReads {
  const api = new API({ cwd: root });
  const [project] = api.updateSnapshot({ openProjects: [resolve(root, "tsconfig.build.json")] }).getProjects();
  if (project === undefined) throw new Error("tsconfig.build.json has no project");
  const readers = new Map<Declaration, Set<string>>();
  const flows = createFlows(project.checker);
  for (const name of project.program.getSourceFileNames()) {
    if (!name.startsWith(`${root}/src/`)) continue;
    const { reads, given } = nodesIn(project, name);
    for (const symbol of readSymbols(project.checker, reads))
      for (const place of declarationsOf(symbol))
        readers.set(place, (readers.get(place) ?? new Set()).add(name.slice(root.length + 1)));
    flows.add(given);
  }
  return {
    keysOf: (file, typeName) => keysOfType(project, resolve(root, file), typeName),
    readersOf: (places) => new Set([...flows.reachedFrom(places)].flatMap((place) => [...(readers.get(place) ?? [])])),
    [Symbol.dispose]: () => api.close(),
  };
}

function declarationsOf({ declarations }: TypeSymbol): readonly Declaration[] {
  return declarations.map(({ path, index }) => `${path}#${index}`);
}

interface Reads {
  /** The names of properties. */
  readonly names: Node[];
  /** Keys that are computed, and the objects they are of. */
  readonly computed: { readonly object: Node; readonly key: Node }[];
  readonly patterns: { readonly pattern: Node; readonly keys: readonly string[] }[];
}

/** Where a file reads properties, and the values it gives to something that declares what it takes. */
function nodesIn({ program }: Project, name: string): { readonly reads: Reads; readonly given: readonly Expression[] } {
  const reads: Reads = { names: [], computed: [], patterns: [] };
  const given: Expression[] = [];
  const visit = (node: Node): undefined => {
    if (isPropertyAccessExpression(node)) reads.names.push(node.name);
    else if (isElementAccessExpression(node)) {
      const { argumentExpression: key, expression: object } = node;
      if (isStringLiteral(key)) reads.names.push(key);
      else reads.computed.push({ object, key });
    } else if (isObjectBindingPattern(node)) reads.patterns.push({ pattern: node, keys: keysIn(node.elements) });
    else if (isCallExpression(node) || isNewExpression(node)) given.push(...(node.arguments ?? []));
    else if (isPropertyAssignment(node)) given.push(node.initializer);
    else if (isShorthandPropertyAssignment(node) && isIdentifier(node.name)) given.push(node.name);
    else if (isSpreadAssignment(node)) given.push(node.expression);
    else if (isReturnStatement(node) && node.expression !== undefined) given.push(node.expression);
    else if (isArrowFunction(node) && !isBlock(node.body)) given.push(node.body);
    node.forEachChild(visit);
    return undefined;
  };
  program.getSourceFile(name)?.forEachChild(visit);
  return { reads, given };
}

function keysIn(elements: readonly Node[]): readonly string[] {
  return elements.filter(isBindingElement).flatMap(({ propertyName, name, dotDotDotToken }) => {
    const key = propertyName ?? name;
    if (key === undefined || dotDotDotToken !== undefined) return [];
    return isIdentifier(key) || isStringLiteral(key) ? [key.text] : [];
  });
}

function readSymbols(checker: Checker, { names, computed, patterns }: Reads): readonly TypeSymbol[] {
  const property = (type: Type | undefined, key: string): TypeSymbol | undefined =>
    type === undefined ? undefined : checker.getPropertyOfType(type, key);
  const destructured = typesAt(
    checker,
    patterns.map(({ pattern }) => pattern),
  ).flatMap((type, index) => (patterns[index]?.keys ?? []).map((key) => property(type, key)));
  const objects = typesAt(
    checker,
    computed.map(({ object }) => object),
  );
  const looked = typesAt(
    checker,
    computed.map(({ key }) => key),
  ).flatMap((type, index) =>
    partsOf(type).flatMap((part) => (part.isStringLiteralType() ? [property(objects[index], part.value)] : [])),
  );
  const accessed = names.length === 0 ? [] : checker.getSymbolAtLocation(names);
  return [...accessed, ...destructured, ...looked].filter((symbol) => symbol !== undefined);
}

/** The types of nodes. */
function typesAt(checker: Checker, nodes: readonly Node[]): readonly (Type | undefined)[] {
  if (nodes.length === 0) return [];
  const types = withoutTuples(() => checker.getTypeAtLocation(nodes));
  if (types !== undefined) return types;
  if (nodes.length === 1) return [undefined];
  const half = Math.ceil(nodes.length / 2);
  return [...typesAt(checker, nodes.slice(0, half)), ...typesAt(checker, nodes.slice(half))];
}

/** What the compiler answers. Its interface is new, and fails where tuples are: those have no keys and are left out. */
function withoutTuples<T>(ask: () => T): T | undefined {
  try {
    return ask();
  } catch (error) {
    if (String(error).includes("TupleType")) return undefined;
    throw error;
  }
}

/** The members of a union or an intersection, or the type itself. */
function partsOf(type: Type | undefined): readonly Type[] {
  if (type === undefined) return [];
  if (!type.isUnionType() && !type.isIntersectionType()) return [type];
  return (withoutTuples(() => type.getTypes()) ?? []).flatMap(partsOf);
}

interface Flows {
  add(given: readonly Expression[]): void;
  reachedFrom(places: Iterable<Declaration>): ReadonlySet<Declaration>;
}

/** Which declarations a property has when its object is given to something that takes another type. */
function createFlows(checker: Checker): Flows {
  const next = new Map<Declaration, Set<Declaration>>();
  const seen = new Set<string>();

  function link(from: Type | undefined, to: Type | undefined): void {
    if (from === undefined || to === undefined) return;
    for (const source of partsOf(from)) for (const target of partsOf(to)) linkObjects(source, target);
  }

  function linkObjects(source: Type, target: Type): void {
    const pair = `${source.id} ${target.id}`;
    if (source.id === target.id || !source.isObjectType() || !target.isObjectType() || seen.has(pair)) return;
    seen.add(pair);
    for (const [index, { valueType }] of checker.getIndexInfosOfType(source).entries())
      link(valueType, checker.getIndexInfosOfType(target)[index]?.valueType);
    if (checker.isArrayLikeType(source)) return;
    for (const symbol of ownProperties(checker, source)) {
      const taken = checker.getPropertyOfType(target, symbol.name);
      if (taken === undefined) continue;
      const places = declarationsOf(taken);
      for (const place of declarationsOf(symbol))
        next.set(place, (next.get(place) ?? new Set()).union(new Set(places)));
      link(typeOf(checker, symbol), typeOf(checker, taken));
    }
  }

  return {
    add: (given) => {
      for (const [index, type] of typesAt(checker, given).entries()) {
        const expression = given[index];
        if (expression === undefined || !partsOf(type).some((part) => part.isObjectType())) continue;
        link(
          type,
          withoutTuples(() => checker.getContextualType(expression)),
        );
      }
    },
    reachedFrom: (places) => {
      const reached = new Set(places);
      for (const place of reached) for (const further of next.get(place) ?? []) reached.add(further);
      return reached;
    },
  };
}

function typeOf(checker: Checker, symbol: TypeSymbol): Type | undefined {
  return withoutTuples(() => checker.getTypeOfSymbol(symbol));
}

/** The properties that this source tree declares; methods of dates, URLs and the like are not among them. */
function ownProperties(checker: Checker, type: Type): readonly TypeSymbol[] {
  return checker
    .getPropertiesOfType(type)
    .filter((symbol) =>
      symbol.declarations.some(({ path }) => path.includes("/src/") && !path.includes("/node_modules/")),
    );
}

function keysOfType({ program, checker }: Project, file: string, typeName: string): Keys {
  let found: Type | undefined;
  program.getSourceFile(file)?.forEachChild((node) => {
    const { name } = node as Node & { readonly name?: Node };
    if (name !== undefined && isIdentifier(name) && name.text === typeName) found = checker.getTypeAtLocation(name);
    return undefined;
  });
  if (found === undefined) throw new Error(`${file} has no type ${typeName}`);
  const keys = new Map<string, Set<Declaration>>();
  const collect = (type: Type | undefined, path: readonly string[]): void => {
    for (const part of partsOf(type)) {
      if (!part.isObjectType()) continue;
      const isList = checker.isArrayLikeType(part);
      for (const { valueType } of checker.getIndexInfosOfType(part)) collect(valueType, isList ? path : [...path, "*"]);
      for (const symbol of isList ? [] : ownProperties(checker, part)) {
        const key = [...path, symbol.name];
        const known = keys.get(key.join(".")) ?? new Set();
        keys.set(key.join("."), known.union(new Set(declarationsOf(symbol))));
        collect(typeOf(checker, symbol), key);
      }
    }
  };
  collect(found, []);
  return keys;
}
