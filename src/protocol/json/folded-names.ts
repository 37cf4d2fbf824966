import type { Span } from "./outline.ts";
import { decodeString, pointerSteps } from "./read.ts";
import { skipSpace } from "./scan.ts";
import { scanString, type StringScanState } from "./strings.ts";

/**
 * The form of a member name in which letter case does not count. Two names that any common reader takes for the same one
 * have the same form: Go's `encoding/json` folds the long s and the Kelvin sign (Unicode simple case folding), .NET and
 * Java compare upper or lower case, Python's `casefold` takes ß for ss, and Java the dotted capital I for i.
 */
export function foldName(name: string): string {
  return name.replaceAll("\u0130", "i").toLowerCase().toUpperCase();
}

/** Member names that readers look for, as a tree of paths; `any` stands for members and elements without an entry. */
export interface NameTree {
  readonly named: ReadonlyMap<string, NameTree>;
  readonly any: NameTree | undefined;
  /** The same names by the hash of their folded form. */
  readonly byHash: ReadonlyMap<number, readonly string[]>;
}

/** The step of a path that stands for any member or element. */
export const anyStep: unique symbol = Symbol("any");

/** A path of member names. */
export type NamePath = readonly (string | typeof anyStep)[];

/** The path of a JSON Pointer in which `*` matches every member or element. */
export function namePathOf(pointer: string): NamePath {
  return pointerSteps(pointer).map((step) => (step === "*" ? anyStep : step));
}

interface DraftTree {
  readonly named: Map<string, DraftTree>;
  any: DraftTree | undefined;
  readonly byHash: Map<number, string[]>;
}

/** The tree of some paths; undefined without any. */
function nameTree(paths: Iterable<NamePath>): NameTree | undefined {
  const root = emptyTree();
  for (const path of paths) {
    let at = root;
    for (const step of path) at = step === anyStep ? (at.any ??= emptyTree()) : childOf(at, step);
  }
  if (root.named.size === 0 && root.any === undefined) return undefined;
  shareAny(root);
  return root;
}

/** What is read of any member is read of named ones too. */
function shareAny(tree: DraftTree): void {
  const { any } = tree;
  for (const below of tree.named.values()) {
    if (any !== undefined) merge(below, any);
    shareAny(below);
  }
  if (any !== undefined) shareAny(any);
}

function merge(into: DraftTree, from: DraftTree): void {
  for (const [name, below] of from.named) merge(childOf(into, name), below);
  if (from.any !== undefined) merge((into.any ??= emptyTree()), from.any);
}

/** The tree below a name, which is added if it is not there yet. */
function childOf(tree: DraftTree, name: string): DraftTree {
  const known = tree.named.get(name);
  if (known !== undefined) return known;
  const added = emptyTree();
  tree.named.set(name, added);
  const hash = hashOf(foldName(name));
  tree.byHash.set(hash, [...(tree.byHash.get(hash) ?? []), name]);
  return added;
}

function emptyTree(): DraftTree {
  return { named: new Map(), any: undefined, byHash: new Map() };
}

/** Names that readers look for: at known places, and at any depth. */
export interface KnownNames {
  readonly tree: NameTree | undefined;
  readonly anywhere: NameTree | undefined;
}

const noKnownNames: KnownNames = { tree: undefined, anywhere: undefined };

/** Known names for {@link findAmbiguousName}; undefined without any. */
export function knownNames(paths: readonly NamePath[], anywhere: readonly string[] = []): KnownNames | undefined {
  const known = { tree: nameTree(paths), anywhere: nameTree(anywhere.map((name) => [name])) };
  return known.tree === undefined && known.anywhere === undefined ? undefined : known;
}

/** A member name that another reader could take for another one. */
export interface AmbiguousName {
  readonly name: string;
  /**
   * `repeated`: another member of the same object has it in another form; `variant`: it is read in another form;
   * `prototype`: JavaScript that copies members takes those in its value for members beside it.
   */
  readonly problem: "repeated" | "variant" | "prototype";
  /** Where the name begins. */
  readonly offset: number;
}

/**
 * The first member name of a JSON value, at any depth, that differs only by letter case from another one of the same
 * object, or from a known one, or is `__proto__` and has members. One linear pass; the scanner must have accepted the bytes.
 *
 * Needed by bench policy: "ten rules on both phases". Every guarded message is walked once.
 */
export function findAmbiguousName(
  bytes: Buffer,
  span: Span,
  names: KnownNames = noKnownNames,
): AmbiguousName | undefined {
  return walker.run(bytes, span, names.tree, names.anywhere);
}

const prototypeName = "__proto__";
/** With its quotes. */
const prototypeLength = prototypeName.length + 2;

/** With more members than this, an object gets a set: comparing each with each would be quadratic. */
const fewNames = 16;
/** The numbers of a name in `work`: hash, first byte, end. */
const nameSize = 3;
const nothing: Buffer = Buffer.alloc(0);
const keptWork = 4096;

class Walker {
  bytes: Buffer = nothing;
  anywhere: NameTree | undefined = undefined;
  readonly notes: StringScanState = { quote: -1, backslash: -1, loneSurrogateAt: -1 };
  /** The names of all open objects, the innermost last. */
  readonly work: number[] = [];
  top = 0;
  /** Where the names of each open container begin; -1 for arrays. */
  readonly bases: number[] = [];
  readonly trees: (NameTree | undefined)[] = [];
  readonly sets: (Set<string> | undefined)[] = [];
  depth = 0;
  found: AmbiguousName | undefined = undefined;

  run(
    bytes: Buffer,
    span: Span,
    tree: NameTree | undefined,
    anywhere: NameTree | undefined,
  ): AmbiguousName | undefined {
    this.bytes = bytes;
    this.anywhere = anywhere;
    this.notes.quote = -1;
    this.notes.backslash = -1;
    this.top = 0;
    this.depth = 0;
    this.found = undefined;
    this.walk(span, tree);
    const { found } = this;
    this.bytes = nothing;
    this.anywhere = undefined;
    this.found = undefined;
    this.trees.length = 0;
    this.sets.length = 0;
    if (this.work.length > keptWork) this.work.length = keptWork;
    return found;
  }

  walk({ start, end }: Span, root: NameTree | undefined): void {
    const { bytes, notes, bases, trees } = this;
    // The tree of the value that comes next.
    let next = root;
    let isName = false;
    let i = start;
    while (i < end) {
      const c = bytes[i] ?? 0;
      if (c === 0x22) {
        const from = i;
        i = scanString(bytes, i + 1, end, notes);
        if (isName) {
          next = this.name(from, i);
          if (this.found !== undefined) return;
          isName = false;
        }
        continue;
      }
      i++;
      if (c === 0x7b || c === 0x5b) {
        const isObject = c === 0x7b;
        bases[this.depth] = isObject ? this.top : -1;
        trees[this.depth] = next;
        this.sets[this.depth] = undefined;
        this.depth++;
        isName = isObject;
        if (!isObject) next = next?.any;
      } else if (c === 0x7d || c === 0x5d) {
        this.depth--;
        const base = bases[this.depth] ?? -1;
        if (base >= 0) this.top = base;
        isName = false;
      } else if (c === 0x2c) {
        isName = (bases[this.depth - 1] ?? -1) >= 0;
        if (!isName) next = trees[this.depth - 1]?.any;
      }
    }
  }

  /** Compares a name with its siblings and the tree; returns the tree of its value. */
  name(from: number, end: number): NameTree | undefined {
    const { bytes } = this;
    let hash = 0;
    let i = from + 1;
    const last = end - 1;
    for (; i < last; i++) {
      let c = bytes[i] ?? 0;
      if (c === 0x5c || c >= 0x80) break;
      if (c >= 0x61 && c <= 0x7a) c -= 0x20;
      hash = (Math.imul(hash, 31) + c) | 0;
    }
    if (i < last) hash = hashOf(this.folded(from, end));
    if ((i < last || (bytes[from + 1] === 0x5f && end - from === prototypeLength)) && this.isPrototype(from, end))
      this.note(prototypeName, "prototype", from);
    this.compare(from, end, hash);
    const tree = this.trees[this.depth - 1];
    if (this.anywhere !== undefined) this.below(this.anywhere, from, end, hash);
    return tree === undefined ? undefined : this.below(tree, from, end, hash);
  }

  /** Whether a name and its value replace the prototype of an object that they are copied to; a scalar has no effect. */
  isPrototype(from: number, end: number): boolean {
    const { bytes } = this;
    const value = bytes[skipSpace(bytes, skipSpace(bytes, end, bytes.length) + 1, bytes.length)];
    return (value === 0x7b || value === 0x5b) && decodeString(bytes, from, end) === prototypeName;
  }

  below(tree: NameTree, from: number, end: number, hash: number): NameTree | undefined {
    const candidates = tree.byHash.get(hash);
    if (candidates === undefined) return tree.any;
    const name = decodeString(this.bytes, from, end);
    const below = tree.named.get(name);
    if (below !== undefined) return below;
    const folded = foldName(name);
    if (candidates.some((candidate) => foldName(candidate) === folded)) this.note(name, "variant", from);
    return tree.any;
  }

  compare(from: number, end: number, hash: number): void {
    const { work, depth } = this;
    const base = this.bases[depth - 1] ?? 0;
    const set = this.sets[depth - 1];
    if (set !== undefined || this.top - base >= fewNames * nameSize) {
      const names = set ?? this.startSet(base);
      const folded = this.folded(from, end);
      if (names.has(folded)) this.note(decodeString(this.bytes, from, end), "repeated", from);
      names.add(folded);
      return;
    }
    for (let at = base; at < this.top; at += nameSize) {
      if (work[at] !== hash) continue;
      if (this.folded(work[at + 1] ?? 0, work[at + 2] ?? 0) !== this.folded(from, end)) continue;
      this.note(decodeString(this.bytes, from, end), "repeated", from);
    }
    work[this.top] = hash;
    work[this.top + 1] = from;
    work[this.top + 2] = end;
    this.top += nameSize;
  }

  startSet(base: number): Set<string> {
    const names = new Set<string>();
    for (let at = base; at < this.top; at += nameSize) {
      names.add(this.folded(this.work[at + 1] ?? 0, this.work[at + 2] ?? 0));
    }
    this.sets[this.depth - 1] = names;
    return names;
  }

  folded(from: number, end: number): string {
    return foldName(decodeString(this.bytes, from, end));
  }

  note(name: string, problem: AmbiguousName["problem"], offset: number): void {
    this.found ??= { name, problem, offset };
  }
}

/** Walks are synchronous and never nested, so one walker is enough. */
const walker = new Walker();

/** The hash of a folded name, equal to the one that the walker computes from bytes. */
function hashOf(folded: string): number {
  let hash = 0;
  for (let i = 0; i < folded.length; i++) hash = (Math.imul(hash, 31) + folded.charCodeAt(i)) | 0;
  return hash;
}
