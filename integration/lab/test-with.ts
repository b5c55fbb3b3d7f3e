import { test } from "bun:test"
import { type Feature, hasFeature } from "./features.ts"

/**
 * Defines a test that needs kernel features. If a feature is missing, the test is skipped and this line is printed:
 *
 *       not on this kernel: two VLANs are two networks (needs vlan_filtering); missing: vlan_filtering
 *
 * `npm run test:vm` runs each such test in a virtual machine whose kernel has these features, and fails if none has.
 *
 * @example testWith(["vlan_filtering"], "two VLANs are two networks", async () => { … })
 */
export function testWith(
  needs: readonly [Feature, ...Feature[]],
  name: string,
  run: () => void | Promise<void>,
  timeoutMs?: number,
): void {
  const title = titleWith(name, needs)
  const missing = needs.filter((feature) => !hasFeature(feature))
  if (missing.length === 0) test(title, run, timeoutMs)
  else console.log(leftOutLine({ title, missing }))
}

/** A test that was skipped because the kernel lacks features. */
export interface LeftOut {
  readonly title: string
  readonly missing: readonly string[]
}

/** Returns the title of a test with the names of the features that it needs. */
export function titleWith(name: string, needs: readonly string[]): string {
  return `${name} (needs ${needs.join(", ")})`
}

/** Returns a pattern for `bun test --test-name-pattern` that selects tests which need at least one of `features`. */
export function titlesWith(features: readonly string[]): string {
  return `\\(needs (\\w+, )*(${features.join("|")})(, \\w+)*\\)$`
}

/** Returns a pattern that matches tests which need all of these features. */
export function titlesWithAll(features: readonly string[]): string {
  return `\\(needs ${features.map((name) => `(?=(\\w+, )*${name}[,)])`).join("")}[\\w, ]+\\)$`
}

export function leftOutLine({ title, missing }: LeftOut): string {
  return `not on this kernel: ${title}; missing: ${missing.join(", ")}`
}

/** Reads the lines about skipped tests from the output of `bun test`. */
export function leftOutTests(output: string): LeftOut[] {
  const lines = output.matchAll(/^not on this kernel: (.*); missing: (.*?)\r?$/gm)
  return [...lines].map(([, title = "", missing = ""]) => ({ title, missing: missing.split(", ") }))
}
