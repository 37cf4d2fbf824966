import type { CorrelationLimits } from "./limits.ts";
import type { Entry, ScopeState, RequestDirection } from "./entry.ts";
import { KeyIndex, KeyNode } from "./key-index.ts";
import { shortName } from "./message-fields.ts";
import type { Tombstone, Tombstones } from "./tombstones.ts";

/**
 * Which entry listens to which progress token. A token ends with its request, except where the answer has only made
 * a task: then it lives until the task ends (MCP 2025-11-25, Tasks), or gives way at the bound.
 */
export class ProgressTokens<Payload> {
  readonly #index = new KeyIndex<Entry<Payload>>();
  readonly #tombstones: Tombstones;
  readonly #limits: CorrelationLimits;
  #tasks = 0;

  constructor(tombstones: Tombstones, limits: CorrelationLimits) {
    this.#tombstones = tombstones;
    this.#limits = limits;
  }

  find(space: number, key: string): Entry<Payload> | undefined {
    return this.#index.find(space, key);
  }

  /** How a token ended that nobody listens to any more. */
  ended(space: number, key: string, now: number): Tombstone | undefined {
    return this.#tombstones.find(tokenSpace(space), key, now);
  }

  /** Listens; of two with the same token the newer one is found. */
  add(space: number, key: string, entry: Entry<Payload>): void {
    entry.tokenNode = new KeyNode(space, key, entry);
    this.#index.add(entry.tokenNode);
  }

  /** An entry has ended, and its token with it unless a task lives on. */
  release(scope: ScopeState<Payload>, entry: Entry<Payload>): void {
    const { tokenNode, scopeLink } = entry;
    if (tokenNode === undefined) return;
    if (entry.createdTask === undefined || scopeLink === undefined || scope.isOver) {
      this.#drop(entry, tokenNode);
      return;
    }
    scope.tasks.append(scopeLink);
    this.#tasks++;
    if (scope.tasks.size > this.#limits.perScope || this.#tasks > this.#limits.total) {
      this.#dropTask(scope.tasks.first?.item ?? entry);
    }
  }

  /** Lets go of the token of a task that has ended. */
  endTask(scope: ScopeState<Payload>, side: RequestDirection, taskId: string): void {
    const task = shortName(taskId);
    for (let link = scope.tasks.first; link !== undefined; link = link.next) {
      if (link.item.createdTask !== task || link.item.direction !== side) continue;
      this.#dropTask(link.item);
      return;
    }
  }

  /** Lets go of the tokens of all tasks of a scope. */
  dropTasks(scope: ScopeState<Payload>): void {
    while (scope.tasks.first !== undefined) this.#dropTask(scope.tasks.first.item);
  }

  #dropTask(entry: Entry<Payload>): void {
    entry.scopeLink?.leave();
    this.#tasks--;
    if (entry.tokenNode !== undefined) this.#drop(entry, entry.tokenNode);
  }

  #drop(entry: Entry<Payload>, node: KeyNode<Entry<Payload>>): void {
    this.#index.delete(node);
    this.#tombstones.add(tokenSpace(node.space), node.key, entry);
  }
}

/** Tokens are remembered beside ids and must not be taken for them. */
function tokenSpace(space: number): number {
  return -1 - space;
}
