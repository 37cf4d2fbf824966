import type { ASTNode } from "@marcbachmann/cel-js";

import { childrenOf, isMacroCall, literalOf } from "./read-paths.ts";

/** The function that counts the size of a value against the budget and returns the value. */
const meter = "metered";
/** The same for functions that look at every character of a string. */
const readMeter = "meteredRead";

/**
 * What all expressions about one message may cost. A step is one element that an expression iterates over, which takes
 * about half a microsecond.
 */
const maxSteps = 200_000;
/** Characters that are compared or searched in the time of a step. */
const charactersPerStep = 1000;
/** Characters that a function such as `size` or `split` reads in the time of a step. */
const readPerStep = 50;
/** Characters that a pattern is matched against in the time of a step. */
const matchedPerStep = 10;

interface Budget {
  left: number;
}

/** By the facts of a message: its rules share a budget. */
const budgets = new WeakMap<object, Budget>();
/** The budget of the running evaluation, which is synchronous. */
let current: Budget = { left: maxSteps };

/** Runs a metered evaluation. Throws if it exceeds the budget, also where CEL would ignore an error of one side. */
export function withinBudget<T>(facts: object, evaluate: () => T): T {
  let budget = budgets.get(facts);
  if (budget === undefined) budgets.set(facts, (budget = { left: maxSteps }));
  const outer = current;
  current = budget;
  try {
    const value = evaluate();
    if (budget.left < 0) throw overBudget();
    return value;
  } catch (error) {
    throw budget.left < 0 ? overBudget() : error;
  } finally {
    current = outer;
  }
}

/** The functions that count: each returns its value, or throws when the budget is used up. */
export const meters: Readonly<Record<string, (value: unknown) => unknown>> = {
  [meter]: (value) => counted(value, charactersPerStep),
  [readMeter]: (value) => counted(value, readPerStep),
};

function counted(value: unknown, perStep: number): unknown {
  spend(stepsOf(value, perStep));
  return value;
}

/** Counts a string that a pattern is matched against. */
export function countMatch(text: string): void {
  spend(Math.ceil(text.length / matchedPerStep));
}

function spend(steps: number): void {
  if (current.left >= 0) current.left -= steps;
  if (current.left < 0) throw overBudget();
}

function stepsOf(value: unknown, perStep: number): number {
  if (typeof value === "string") return 1 + Math.floor(value.length / perStep);
  if (Array.isArray(value)) return 1 + value.length;
  if (value instanceof Map || value instanceof Set) return 1 + value.size;
  return 1;
}

function overBudget(): Error {
  return new Error("the message is too large for this rule: it takes too many steps");
}

/** Whether the cost of an expression grows with the message: it iterates, or matches a pattern. */
export function needsMeter(node: ASTNode, matches: string): boolean {
  if (isMacroCall(node) || (node.op === "rcall" && node.args[0] === matches)) return true;
  return childrenOf(node).some(({ child }) => needsMeter(child, matches));
}

/**
 * Writes an expression again, so that it counts its steps: lists that it iterates, and inside iterations the operands whose
 * size decides the cost. The engine expands macros while it parses, so only the text can be changed.
 */
export function formatMetered(ast: ASTNode, source: string): string {
  const format = (node: ASTNode, isRepeated: boolean): string => {
    const plain = (child: ASTNode): string => format(child, isRepeated);
    const counting = (by: string) => (child: ASTNode) =>
      isRepeated && literalOf(child) === undefined ? `${by}(${plain(child)})` : plain(child);
    const operand = counting(meter);
    switch (node.op) {
      case "value":
        // A negative number has to be apart from a minus in front of it.
        return ` ${source.slice(node.start, node.end)}`;
      case "id":
        return node.args;
      case ".":
      case ".?":
        return `${plain(node.args[0])}${node.op}${node.args[1]}`;
      case "[]":
        return `${plain(node.args[0])}[${plain(node.args[1])}]`;
      case "[?]":
        return `${plain(node.args[0])}[?${plain(node.args[1])}]`;
      case "!_":
        return `(!${plain(node.args)})`;
      case "-_":
        return `(-${plain(node.args)})`;
      case "call":
        return `${node.args[0]}(${node.args[1].map(node.args[0] === "has" ? plain : counting(readMeter)).join(", ")})`;
      case "rcall":
        return formatCall(node.args, isRepeated, isMacroCall(node));
      case "list":
        return `[${node.args.map(plain).join(", ")}]`;
      case "map":
        return `{${node.args.map(([key, value]) => `${plain(key)}: ${plain(value)}`).join(", ")}}`;
      case "?:":
        return `(${plain(node.args[0])} ? ${plain(node.args[1])} : ${plain(node.args[2])})`;
      case "&&":
      case "||":
        return `(${plain(node.args[0])} ${node.op} ${plain(node.args[1])})`;
      default:
        return `(${operand(node.args[0])} ${node.op} ${operand(node.args[1])})`;
    }
  };

  const formatCall = (
    [name, receiver, args]: readonly [string, ASTNode, readonly ASTNode[]],
    isRepeated: boolean,
    isMacro: boolean,
  ): string => {
    if (isMacro) {
      const [variable, ...bodies] = args;
      const list = `${meter}(${format(receiver, isRepeated)})`;
      const inner = bodies.map((body) => format(body, true));
      return `${list}.${name}(${[variable === undefined ? "" : format(variable, false), ...inner].join(", ")})`;
    }
    const isNamespace = receiver.op === "id" && (receiver.args === "cel" || receiver.args === "optional");
    if (!isRepeated || isNamespace) {
      const written = args.map((child) => format(child, isRepeated));
      return `${format(receiver, isRepeated)}.${name}(${written.join(", ")})`;
    }
    const by = searches.has(name) ? meter : readMeter;
    const count = (child: ASTNode): string =>
      literalOf(child) === undefined ? `${by}(${format(child, true)})` : format(child, true);
    return `${count(receiver)}.${name}(${args.map(count).join(", ")})`;
  };

  return format(ast, false);
}

/** Functions that the processor does many characters at a time. */
const searches: ReadonlySet<string> = new Set(["contains", "startsWith", "endsWith", "orValue"]);
