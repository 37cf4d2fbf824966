import { describe, expect, it } from "vitest";

import { formatPath, formatProblem, valueAt, withValueAt } from "./issues.ts";

describe("a path", () => {
  it("is written with dots, and with brackets where dots would mislead", () => {
    expect(formatPath(["routes", "files", "upstream", "args", 0])).toBe("routes.files.upstream.args[0]");
    expect(formatPath(["mcpServers", "Git Hub", "url"])).toBe('mcpServers["Git Hub"].url');
    expect(formatPath(["routes", "a.b"])).toBe('routes["a.b"]');
    expect(formatPath([])).toBe("");
  });

  it("leads to a value, or nowhere", () => {
    const tree = { a: [{ b: 1 }] };
    expect(valueAt(tree, ["a", 0, "b"])).toBe(1);
    expect(valueAt(tree, ["a", 1, "b"])).toBeUndefined();
    expect(valueAt(tree, ["constructor"])).toBeUndefined();
  });

  it("takes another value without touching the old tree", () => {
    const tree = { a: [{ b: 1 }, 2], c: 3 };
    expect(withValueAt(tree, ["a", 0, "b"], 9)).toEqual({ a: [{ b: 9 }, 2], c: 3 });
    expect(tree.a[0]).toEqual({ b: 1 });
    expect(withValueAt(undefined, ["x", "y"], 1)).toEqual({ x: { y: 1 } });
  });
});

describe("a problem", () => {
  it("is written as compilers do", () => {
    const problem = { path: "listen.port", message: "is wrong", line: 3, column: 9 };
    expect(formatProblem(problem, "headgate.yaml")).toBe("headgate.yaml:3:9 listen.port: is wrong");
    expect(formatProblem({ path: "", message: "is wrong" }, "headgate.yaml")).toBe("headgate.yaml is wrong");
    expect(formatProblem({ path: "listen", message: "is wrong" })).toBe("listen: is wrong");
  });
});
