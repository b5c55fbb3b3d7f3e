import { test } from "bun:test"
import { type Feature, hasFeature } from "./features.ts"
import { leftOutLine, titleWith } from "./left-out.ts"

/**
 * A test that some kernels cannot run. Where a feature is missing the test is left out, and a line says so:
 *
 *     not on this kernel: two VLANs are two networks (needs vlan_filtering); missing: vlan_filtering
 *
 * `npm run test:vm` runs each such test in a virtual machine whose kernel has what it needs, and fails if it cannot.
 * @example testWith(["vlan_filtering"], "two VLANs are two networks", async () => { … })
 */
export function testWith(needs: readonly [Feature, ...Feature[]], name: string, run: () => void | Promise<void>): void {
  const title = titleWith(name, needs)
  const missing = needs.filter((feature) => !hasFeature(feature))
  if (missing.length === 0) test(title, run)
  else console.log(leftOutLine({ title, missing }))
}
