import { FakeApiServer } from "../../testing/fake-api-server.ts"
import { openAsAgent, setNodes } from "../../testing/kubernetes-stores.ts"
import { type StoreUnderTest, testStoreContract } from "../../testing/store-contract.ts"

testStoreContract("the store in Kubernetes", async (): Promise<StoreUnderTest> => {
  const fake = await FakeApiServer.start()
  return {
    open: async () => openAsAgent(fake),
    setMembers: (members) =>
      setNodes(
        fake,
        members.map(({ name }) => name),
      ),
    loseNextAnswer: () => fake.loseNextAnswer(),
    loseNextRequest: () => fake.loseNextRequest(),
    makeGap: (during) => fake.compact(during),
    [Symbol.asyncDispose]: () => fake[Symbol.asyncDispose](),
  }
})
