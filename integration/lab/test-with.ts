import { test } from "bun:test"
import { type Feature, hasFeature } from "./features.ts"

/**
 * A test that some kernels cannot run. Where a feature is missing the test is left out, and a line says so:
 *
 *     not on this kernel: two VLANs are two networks (needs vlan_filtering); missing: vlan_filtering
 *
 * `npm run test:vm` runs each such test in a virtual machine whose kernel has what it needs, and fails if it cannot.
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

/** A test that was left out because of the kernel, and the features that were missing. */
export interface LeftOut {
  readonly title: string
  readonly missing: readonly string[]
}

/** The title of a test that needs features. */
export function titleWith(name: string, needs: readonly string[]): string {
  return `${name} (needs ${needs.join(", ")})`
}

/** Matches the titles of tests that need one of these features, for `bun test --test-name-pattern`. */
export function titlesWith(features: readonly string[]): string {
  return `\\(needs (\\w+, )*(${features.join("|")})(, \\w+)*\\)$`
}

/** Matches the titles of tests that need all of these features. */
export function titlesWithAll(features: readonly string[]): string {
  return `\\(needs ${features.map((name) => `(?=(\\w+, )*${name}[,)])`).join("")}[\\w, ]+\\)$`
}

/** The line that reports a skipped test. */
export function leftOutLine({ title, missing }: LeftOut): string {
  return `not on this kernel: ${title}; missing: ${missing.join(", ")}`
}

/** Reads the lines about left-out tests from the output of `bun test`. */
export function leftOutTests(output: string): LeftOut[] {
  const lines = output.matchAll(/^not on this kernel: (.*); missing: (.*?)\r?$/gm)
  return [...lines].map(([, title = "", missing = ""]) => ({ title, missing: missing.split(", ") }))
}
