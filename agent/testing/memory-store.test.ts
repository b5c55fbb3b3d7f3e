import { type Fate, MemoryCluster } from "./memory-store.ts"
import { testStoreContract } from "./store-contract.ts"

testStoreContract("the store in memory", async () => {
  const cluster = new MemoryCluster()
  const fateOfNext = (fate: Fate) => {
    cluster.fateOf = () => {
      cluster.fateOf = () => "done"
      return fate
    }
  }
  return {
    open: async () => cluster.open(),
    loseNextAnswer: () => fateOfNext("lost answer"),
    loseNextRequest: () => fateOfNext("lost request"),
    makeGap: async (during) => {
      cluster.isDeaf = true
      await during()
      cluster.makeGap()
    },
    [Symbol.asyncDispose]: async () => {},
  }
})
