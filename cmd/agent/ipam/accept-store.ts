import { acceptStore as accept } from "../../../agent/mod.ts"
import { type Command, print } from "../../../tools/command.ts"
import { configOf, storeFlags } from "./store.ts"

/** `cni-agent ipam accept-store` */
export const acceptStore: Command = {
  summary: "Have this node trust a store that was replaced or restored from a backup",
  words: [],
  flags: storeFlags,
  help: `An agent whose store went backwards neither claims nor gives back blocks: the store may have forgotten who owns a block. Until then the
agents write again what their nodes have. Look at "cni-agent ipam blocks" when all agents run, and then accept it on each node. Where
no agent runs, what this node remembers of the store is removed from its file.

Examples:
  cni-agent ipam accept-store`,
  async run(args, terminal) {
    const isTold = await accept(configOf(args))
    const how = isTold
      ? "The agent accepts the store as it is now"
      : "No agent runs; it will accept the store when it starts"
    print(args, terminal, { json: () => ({ accepted: true, agent: isTold }), text: () => `${how}\n` })
  },
}
