import { expect, test } from "bun:test"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { KubernetesStore, putPool, StoreError } from "../../agent/mod.ts"
import { ask, connectionTo } from "../../agent/testing/kubernetes-stores.ts"
import { Chance, patient, seed, waitFor } from "../lab/mod.ts"
import { readOverlay } from "../release/daemon-set.ts"
import { RealApiServer } from "./testing/api-server.ts"
import { type Manifest, pathOf, readManifests } from "./testing/manifests.ts"

const limitMs = 600_000

/** As `kubectl apply --server-side`: an unknown key is an error. Answers the status and the object. */
async function applyOne(api: RealApiServer, manifest: Manifest): ReturnType<typeof ask> {
  const path = `${pathOf(manifest)}/${manifest.metadata.name}?fieldManager=kubectl&fieldValidation=Strict`
  return await ask(api, "PATCH", path, { body: manifest, contentType: "application/apply-patch+yaml" })
}

/** Applies objects as long as some are refused for want of their kind, as a person does who calls `kubectl apply` again. */
async function applyUntilAllAreThere(api: RealApiServer, manifests: readonly Manifest[]): Promise<void> {
  const rest = new Set(manifests)
  const all = async () => {
    for (const manifest of rest) {
      const { status, body } = await applyOne(api, manifest)
      if (status === 201) rest.delete(manifest)
      else if (status !== 404) throw new Error(`Cannot apply ${manifest.kind}: ${status} ${JSON.stringify(body)}`)
    }
    return rest.size === 0
  }
  await waitFor(all, "all objects to be created", 120_000)
}

/** Applies objects once more: nothing changes, what the agents have written included. */
async function expectAppliedAgain(api: RealApiServer, manifests: readonly Manifest[]): Promise<void> {
  for (const manifest of manifests) {
    const { body: before } = await ask(api, "GET", `${pathOf(manifest)}/${manifest.metadata.name}`)
    const { status, body } = await applyOne(api, manifest)
    expect([manifest.kind, status, body.spec]).toEqual([manifest.kind, 200, before.spec])
    expect(body.metadata.generation).toBe(before.metadata.generation)
  }
}

/** Objects in an order by chance, which the seed decides. */
function shuffled(manifests: readonly Manifest[]): Manifest[] {
  const chance = new Chance(seed)
  const rest = [...manifests]
  return manifests.flatMap(() => rest.splice(chance.below(rest.length), 1))
}

test.each([
  ["in the order of the files", (manifests: readonly Manifest[]) => [...manifests]],
  ["in the opposite order, the pool first", (manifests: readonly Manifest[]) => manifests.toReversed()],
  ["in an order by chance", shuffled],
])(
  "deploy/ is applied %s while an agent runs already, and the pool is registered",
  async (_, order) => {
    await using api = await RealApiServer.start()
    await using agent = new KubernetesStore(connectionTo(api, "agent"))
    const ended = new AbortController()
    // As the agent's process does: again after each error. There is no role and no custom resource yet.
    const errors: string[] = []
    const running = (async () => {
      while (!ended.signal.aborted) {
        try {
          await agent.registerPools((pool) => putPool(agent, pool), ended.signal)
        } catch (error) {
          if (!(error instanceof StoreError)) throw error
          errors.push(error.message)
          await Bun.sleep(200)
        }
      }
    })()
    await waitFor(() => errors.length > 0, "the agent to be refused")
    const manifests = [...(await readManifests("deploy/cluster")), ...(await readManifests("deploy/examples"))]
    await applyUntilAllAreThere(api, order(manifests))
    const registered = async () => (await ask(api, "GET", "/apis/cni-agent.internal/v1/pools/pods")).body.status
    expect(await waitFor(registered, "the pool's status", 120_000)).toEqual({
      state: "Registered",
      reason: "",
      observedGeneration: 1,
    })
    ended.abort()
    await running
    const [fixed] = await agent.list("fixed")
    expect(fixed?.key).toBe("db/mysql-0/eth0")
    if (fixed) await agent.replace(fixed, { ...fixed.value, holder: { name: "node-1", uid: "u", machineId: "m" } })
    await expectAppliedAgain(api, manifests)
    expect(await api.table("/apis/cni-agent.internal/v1/pools")).toMatch(
      /^NAME +PREFIXES +NETWORK +ROUTING +STATE +REASON +AGE\npods +10\.64\.0\.0\/16 +pods +host-gw +Registered/,
    )
  },
  patient(limitMs),
)

test(
  "a kubeconfig with certificates by path is taken, and a server whose certificate no CA of ours has signed is not",
  async () => {
    await using api = await RealApiServer.start()
    await api.deploy()
    await using operator = KubernetesStore.open({ type: "kubernetes", kubeconfig: await api.writeKubeconfig() }, {})
    expect(await operator.list("block")).toEqual([])
    expect((await operator.identity()).cluster).toMatch(/^[0-9a-f-]{36}$/)
    const { ca: _, ...withoutCa } = connectionTo(api, "agent")
    await using stranger = new KubernetesStore(withoutCa)
    await expect(stranger.list("block")).rejects.toThrow(expect.objectContaining({ outcome: "refused" }))
    const block = { pool: "pods", prefix: "10.64.3.0/26", nonce: "n", epoch: 1, state: "owned" } as const
    const made = stranger.create("block", "pods/10.64.3.0/26", {
      ...block,
      owner: { name: "a", uid: "b", machineId: "" },
    })
    await expect(made).rejects.toThrow(expect.objectContaining({ outcome: "refused" }))
  },
  patient(limitMs),
)

test(
  "the plugins' DaemonSet is created in each overlay, and applied again it does not change",
  async () => {
    await using api = await RealApiServer.start()
    for (const overlay of await readdir(join(import.meta.dir, "../../deploy/plugins/overlays"))) {
      const manifest = (await readOverlay(overlay)) as unknown as Manifest
      expect({ overlay, ...(await applyOne(api, manifest)) }).toMatchObject({ overlay, status: 201 })
      await expectAppliedAgain(api, [manifest])
      const { status } = await ask(api, "DELETE", `${pathOf(manifest)}/${manifest.metadata.name}`)
      expect([overlay, status]).toEqual([overlay, 200])
    }
    const misspelled = JSON.parse(
      JSON.stringify(await readOverlay("kubeadm")).replace('"maxUnavailable"', '"maxUnavailible"'),
    )
    const { body } = await applyOne(api, misspelled)
    expect(body.message).toContain(".maxUnavailible: field not declared in schema")
  },
  patient(limitMs),
)
