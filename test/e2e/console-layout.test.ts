import { describe, expect, it } from "vitest";

import { openConsolePage } from "../support/console-page.ts";
import { goTo } from "../support/console-places.ts";
import { useConsoleTraffic } from "../support/console-tests.ts";

const shown = useConsoleTraffic();

/** What is wider than its place: somebody would have to scroll sideways, or could not see it at all. */
const tooWide = `[...document.querySelectorAll("*")]
  .filter((element) => {
    const { overflowX } = getComputedStyle(element);
    const scrolls = overflowX === "auto" || overflowX === "scroll" || element === document.documentElement;
    return scrolls && element.scrollWidth > element.clientWidth;
  })
  .map((element) => element.getAttribute("aria-label") ?? element.className)`;

/** Animations that move something. */
const moving = `document.getAnimations().filter((one) => one.playState === "running" && one.effect.getTiming().duration > 0).length`;

describe("the layout of the console", () => {
  it.each([1280, 1000, 380])("needs no scrolling sideways in any view, %i pixels wide", async (width) => {
    await using at = await openConsolePage(shown.browser, shown.traffic, "live", { width });
    for (const place of shown.traffic.places) {
      await goTo(at.page, shown.traffic.consoleUrl, place);
      expect({ place: place.name, tooWide: await at.page.evaluate(tooWide) }).toEqual({
        place: place.name,
        tooWide: [],
      });
    }
  });

  it("shows the map as a list where it has no room, and to those who cannot see it", async () => {
    await using at = await openConsolePage(shown.browser, shown.traffic, "figures", { width: 380 });
    const map = at.page.getByRole("region", { name: "Map" });
    await map.getByText(/^headgate-tests → default$/u).waitFor();
    await map.getByRole("listitem").getByText("demo, ok").waitFor();
    expect(await map.locator("svg.map").isVisible()).toBe(false);
    await at.page.setViewportSize({ width: 1280, height: 800 });
    expect(await map.locator("svg.map").isVisible()).toBe(true);
    expect(await map.getByRole("listitem").count()).toBeGreaterThan(1);
  });

  it("moves nothing for people who want it so", async () => {
    const place = shown.traffic.places.find(({ name }) => name === "playground-asked");
    if (place === undefined) throw new Error("there is no such place");
    for (const [reducedMotion, expected] of [
      ["no-preference", 1],
      ["reduce", 0],
    ] as const) {
      await using at = await openConsolePage(shown.browser, shown.traffic, "live", { reducedMotion });
      await goTo(at.page, shown.traffic.consoleUrl, place);
      expect(await at.page.evaluate(moving)).toBe(expected);
    }
  });
});
