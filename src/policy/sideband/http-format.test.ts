import fc from "fast-check";
import { describe, expect, it } from "vitest";

import {
  fromSidebandHeaders,
  toHeaderMap,
  toHeadersOut,
  toSidebandHeaders,
  withoutConnectionHeaders,
} from "./http-format.ts";

function formatted(headers: Readonly<Record<string, unknown>>): unknown {
  const map = toHeaderMap(headers);
  return map === undefined ? undefined : toSidebandHeaders(map);
}

function flattened(list: unknown): unknown {
  const map = fromSidebandHeaders(list);
  return map === undefined ? undefined : toHeadersOut(map);
}

describe("Sideband headers", () => {
  it("[PA-036] [PA-037] [PA-038] [PA-041] writes one object with one lower-case key for each value", () => {
    expect(formatted({ "X-Custom": ["val1", "val2"], "Content-Type": ["application/json"] })).toEqual([
      { "x-custom": "val1" },
      { "x-custom": "val2" },
      { "content-type": "application/json" },
    ]);
  });

  it("[PA-039] takes a text as well as a list of texts", () => {
    expect(formatted({ Accept: "text/html" })).toEqual([{ accept: "text/html" }]);
  });

  it.each([[[["a"]]], [{ a: 1 }], [[1]], [null], [7]])("[PA-039] refuses the nested value %j", (value) => {
    expect(formatted({ "x-nested": value })).toBeUndefined();
  });

  it("[PA-040] [PA-041] collects names that differ only in case, in order of appearance", () => {
    expect(flattened([{ "Content-Type": "application/json" }, { "X-Custom": "val1" }, { "x-custom": "val2" }])).toEqual(
      { "content-type": ["application/json"], "x-custom": ["val1", "val2"] },
    );
  });

  it("[PA-041] maps empty to empty in both directions", () => {
    expect(formatted({})).toEqual([]);
    expect(flattened([])).toEqual({});
  });

  it("keeps a header with a name that objects give a meaning to", () => {
    const list = JSON.parse('[{"__proto__":"x"},{"constructor":"y"}]') as unknown;
    expect(JSON.stringify(toSidebandHeaders(fromSidebandHeaders(list) ?? new Map()))).toBe(JSON.stringify(list));
  });

  it.each([
    [undefined],
    [{}],
    ["x"],
    [["x"]],
    [[[]]],
    [[null]],
    [[{ a: 1 }]],
    [[{ a: ["b"] }]],
    [[{ "a b": "c" }]],
    [[{ a: "b\r\nc: d" }]],
  ])("[PA-208] refuses %j as a list of headers", (list) => {
    expect(fromSidebandHeaders(list)).toBeUndefined();
  });

  it("[PX-06] takes off what belongs to the connection", () => {
    const map = toHeaderMap({
      "Content-Length": "3",
      "transfer-encoding": "chunked",
      connection: "x",
      a: "b",
    });
    expect(toHeadersOut(withoutConnectionHeaders(map ?? new Map()))).toEqual({ a: ["b"] });
  });

  it("gives back what it wrote", () => {
    const name = fc.stringMatching(/^[a-z-]{1,12}$/u);
    const value = fc.stringMatching(/^[ -~]{0,12}$/u);
    fc.assert(
      fc.property(fc.dictionary(name, fc.array(value, { minLength: 1 })), (headers) => {
        expect(flattened(formatted(headers))).toEqual({ ...headers });
      }),
    );
  });
});
