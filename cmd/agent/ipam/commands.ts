import type { Command } from "../../../tools/command.ts"
import { acceptStore } from "./accept-store.ts"
import { blockList } from "./blocks.ts"
import { clusterList } from "./cluster.ts"
import { fixedList, fixedRemove, fixedSet } from "./fixed.ts"
import { poolCreate, poolList, poolRemove, poolShow } from "./pool.ts"
import { releaseNode } from "./release-node.ts"

/** The commands about the addresses of the cluster, by name. */
export const ipamCommands: Readonly<Record<string, Command>> = {
  "ipam pool create": poolCreate,
  "ipam pool ls": poolList,
  "ipam pool show": poolShow,
  "ipam pool rm": poolRemove,
  "ipam blocks": blockList,
  "ipam ls": clusterList,
  "ipam release-node": releaseNode,
  "ipam fixed set": fixedSet,
  "ipam fixed ls": fixedList,
  "ipam fixed rm": fixedRemove,
  "ipam accept-store": acceptStore,
}

/** What begins the names of several commands. */
export const ipamGroups: Readonly<Record<string, string>> = {
  ipam: "Show and change the pools of the cluster, and the blocks that nodes own",
  "ipam pool": "Make, show and remove pools of addresses",
  "ipam fixed": "Have pods keep their addresses",
}
