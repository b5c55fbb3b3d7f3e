import { afterAll, beforeAll } from "bun:test"
import { testApiStatements } from "../../agent/testing/api-statements.ts"
import { openAsAgent, setNodes } from "../../agent/testing/kubernetes-stores.ts"
import { testStoreContract } from "../../agent/testing/store-contract.ts"
import { RealApiServer } from "./testing/api-server.ts"

let api: RealApiServer

beforeAll(async () => {
  api = await RealApiServer.start()
  await api.deploy()
}, 600_000)

afterAll(() => api[Symbol.asyncDispose]())

testApiStatements("a real kube-apiserver answers as the fake", () => api.forCase())

testStoreContract("the store in a real Kubernetes, as the agent's account", async () => {
  await api.clear()
  return {
    open: async () => openAsAgent(api),
    setMembers: async (members) =>
      setNodes(
        api,
        members.map(({ name }) => name),
      ),
    [Symbol.asyncDispose]: async () => {},
  }
})
