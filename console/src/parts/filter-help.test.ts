import { describe, expect, it } from "vitest";

import { parseTrafficFilter } from "../../../src/recorder/filter/parse.ts";
import { filterHelp } from "./filter-help.ts";

describe("the help of the filter", () => {
  it.each(filterHelp)("shows %s, which the gateway reads", (filter) => {
    expect(parseTrafficFilter(filter, { now: 0 })).toMatchObject({ ok: true });
  });
});
