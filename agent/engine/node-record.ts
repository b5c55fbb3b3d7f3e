import { keyOf, type Node } from "../records.ts"
import { type Agent, isOwn, ownerOf, say } from "./agent.ts"

/** The record by which other nodes know this one. */
export class NodeRecord {
  addresses: readonly string[]
  #isFirst = true
  #isDisputed = false

  constructor(addresses: readonly string[]) {
    this.addresses = addresses
  }

  /**
   * Writes the record where it is another. One of another node of the same name is replaced once, by the newer node: two that live at the
   * same time would do so for ever. In a store that went back (`isStopped`) it replaces none of another node. Throws `StoreError`.
   */
  async publish(agent: Agent, { isStopped = false } = {}): Promise<void> {
    const value: Node = { owner: ownerOf(agent), addresses: this.addresses }
    const { store } = agent.surroundings
    const key = keyOf.node(value)
    const known = agent.view.find("node", key)
    const isSame = isOwn(agent, known?.value.owner) && known?.value.addresses.join() === value.addresses.join()
    if (isSame) {
      this.#isFirst = false
      return
    }
    const isOthers = known !== undefined && !isOwn(agent, known.value.owner)
    if (isOthers && isStopped) return
    if (isOthers && !this.#isFirst) {
      if (!this.#isDisputed)
        say(
          agent,
          "error",
          `There are two nodes of the name "${key}": the other has the UID "${known.value.owner.uid}"`,
        )
      this.#isDisputed = true
      return
    }
    const made = known ? await store.replace(known, value) : await store.create("node", key, value)
    if (made) agent.view.put(made)
    if (made) this.#isFirst = false
  }
}
