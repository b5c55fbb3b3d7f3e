import { acceptStore as accept } from "../../../agent/mod.ts"
import { type Command, print } from "../../../tools/command.ts"
import { configOf, storeFlags } from "./store.ts"

/** `cni-agent ipam accept-store` */
export const acceptStore: Command = {
  summary: "Accept a store that was replaced or restored from a backup",
  words: [],
  flags: storeFlags,
  help: `An agent that sees an older state of its store than before neither claims nor releases blocks, because owners may be missing there. The agents
write the blocks of their nodes to the store again. Check "cni-agent ipam blocks" while all agents run, then run this command on each node.
Without a running agent the command deletes the recorded state of the store from this node's file.

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
