import { formatAddress, parseRangeSets } from "../ranges.ts"
import { release, reserve } from "../reservations.ts"
import { Store } from "../store.ts"
import { owner } from "./temporary-store.ts"

// A process that adds and deletes its own containers until it is killed. It prints each action before and after it:
//   bun busy-process.ts DIRECTORY PREFIX SUBNET...

const [directory = "", prefix = "", ...subnets] = Bun.argv.slice(2)
const rangeSets = parseRangeSets(subnets.map((subnet) => [{ subnet }]))
const store = new Store({ directory, log: () => {}, bootId: "boot-1" })
const held = new Set<string>()

for (let count = 0; ; count++) {
  const [first] = held
  if (first !== undefined && (held.size > 3 || Math.random() < 0.5)) {
    console.log("deleting", first)
    release(store, owner(first))
    console.log("deleted", first)
    held.delete(first)
  } else {
    const name = `${prefix}-${count}`
    console.log("adding", name)
    const granted = reserve(store, {
      owner: owner(name),
      netns: undefined,
      ranges: { rangeSets, rangesFile: undefined },
      requested: [],
    })
    console.log("added", name, granted.map(({ address }) => formatAddress(address)).join(","))
    held.add(name)
  }
}
