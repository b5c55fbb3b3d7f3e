import type { ClusterNode } from "./node.ts"

/** etcd's port for clients. */
const CLIENT_PORT = 2379

/** In bytes; a packet of TCP without content is not larger. */
const SMALL = 100

/** What is lost between a node and the store. */
export type Loss = "requests" | "answers" | "both"

/** Has packets between a node and the store disappear, by nft in the node; `healNetwork` ends it. */
export async function lose(node: ClusterNode, loss: Loss): Promise<void> {
  const rules = [
    "table inet lab_faults",
    "delete table inet lab_faults",
    "table inet lab_faults {",
    "  chain out { type filter hook output priority 0;",
    loss === "answers" ? "" : `    tcp dport ${CLIENT_PORT} drop`,
    "  }",
    "  chain in { type filter hook input priority 0;",
    // Of answers only those with content: a connection can still be made, and the request is done.
    loss === "requests"
      ? ""
      : `    tcp sport ${CLIENT_PORT} ${loss === "answers" ? `meta length > ${SMALL}` : ""} drop`,
    "  }",
    "}",
  ]
  await node.host.exec("nft", ["-f", "-"], { input: `${rules.join("\n")}\n` })
}

/** Ends what `lose` has begun. */
export async function healNetwork(node: ClusterNode): Promise<void> {
  await node.host.tryExec("nft", ["delete", "table", "inet", "lab_faults"])
}
