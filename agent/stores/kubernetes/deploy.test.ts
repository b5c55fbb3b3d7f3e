import { expect, test } from "bun:test"
import { join } from "node:path"
import { Blocks } from "../../blocks.ts"
import { parseAgentConfig } from "../../config.ts"
import { objectRules, readCustomResources, readRules } from "../../testing/fake-api-objects.ts"
import { poolOf } from "./pools.ts"

const deploy = join(import.meta.dir, "../../../deploy")
const read = async (file: string) => Bun.YAML.parse(await Bun.file(join(deploy, file)).text())

test("the roles name what they need: no secrets, no exec, no wildcard", async () => {
  for (const role of ["cni-agent", "cni-agent-operator"]) {
    const rules = await readRules(role)
    const words = rules.flatMap(({ apiGroups, resources, verbs }) => [...apiGroups, ...resources, ...verbs])
    expect(
      words.filter((word) => word.includes("*") || /secret|exec|impersonate|escalate|bind|patch/.test(word)),
    ).toEqual([])
    const core = rules.filter(({ apiGroups }) => apiGroups.includes(""))
    expect(new Set(core.flatMap(({ verbs }) => verbs)).isSubsetOf(new Set(["get", "list", "watch"]))).toBe(true)
  }
})

/** A role, one line for each right: "list nodes", "get namespaces/kube-system", "update pools.cni-agent.internal". */
async function rightsOf(role: string): Promise<string[]> {
  return (await readRules(role)).flatMap(({ apiGroups, resources, resourceNames = [""], verbs }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) =>
        verbs.flatMap((verb) =>
          resourceNames.map((name) => `${verb} ${resource}${group && `.${group}`}${name && `/${name}`}`),
        ),
      ),
    ),
  )
}

const ours = (resource: string, ...verbs: string[]) => verbs.map((verb) => `${verb} ${resource}.cni-agent.internal`)
const all = ["get", "list", "watch", "create", "update", "delete"]

test("the agent has the rights that it uses, and no other", async () => {
  expect((await rightsOf("cni-agent")).sort()).toEqual(
    [
      ...["list nodes", "watch nodes"], // who is a member, and podCIDRs
      ...["list pods", "watch pods"], // those bound to the node
      "get namespaces/kube-system", // whose UID is that of the cluster
      ...ours("pools", "list", "watch"),
      ...ours("pools/status", "update"),
      ...ours("poolregistries", "get", "list", "watch", "create", "update"),
      ...ours("fixedaddresses", "get", "list", "watch", "update"), // the holder
      ...ours("blocks", ...all),
      ...ours("agentnodes", "list", "watch", "create", "update"),
      ...ours("blockwants", "list", "watch", "create", "update", "delete"),
    ].sort(),
  )
})

test("an operator has the records, the identity of the cluster and what whereabouts has handed out, and no other", async () => {
  const records = ["pools", "poolregistries", "blocks", "agentnodes", "fixedaddresses", "blockwants"]
  expect((await rightsOf("cni-agent-operator")).sort()).toEqual(
    [
      ...["list nodes", "watch nodes", "get namespaces/kube-system", "list ippools.whereabouts.cni.cncf.io"],
      ...records.flatMap((resource) => ours(resource, ...all)),
    ].sort(),
  )
})

test("each rule of the custom resources is one that the fake API server has, too, and that is told in the same words", async () => {
  // biome-ignore lint/suspicious/noExplicitAny: the file is ours
  const messagesIn = (part: any): string[] => {
    if (typeof part !== "object" || part === null) return []
    const rules = part["x-kubernetes-validations"] ?? []
    // biome-ignore lint/suspicious/noExplicitAny: the file is ours
    return [...rules.map(({ message }: any) => message), ...Object.values(part).flatMap(messagesIn)]
  }
  for (const { plural, schema } of await readCustomResources())
    expect([plural, messagesIn(schema).sort()]).toEqual([
      plural,
      (objectRules[plural] ?? []).map(([, message]) => message).sort(),
    ])
})

test("the example of a fixed address has a pool with a gateway, and lies where no block is claimed", async () => {
  // biome-ignore lint/suspicious/noExplicitAny: the file is ours
  const [pool, fixed]: any = await read("examples/fixed-address.yaml")
  const [prefix] = poolOf(pool).prefixes
  expect([pool.kind, fixed.kind, fixed.spec.pool]).toEqual(["Pool", "FixedAddress", pool.metadata.name])
  const blocks = Blocks.of(prefix ?? expect.unreachable())
  const [address] = fixed.spec.addresses
  const block = blocks.blockOf(address) ?? expect.unreachable()
  expect([prefix?.gateway, blocks.isUsable(block)]).toEqual(["192.0.2.1", false])
})

test("the agent's pod has the network of its node, and of its files those that it needs", async () => {
  // biome-ignore lint/suspicious/noExplicitAny: the file is ours
  const [configMap, daemonSet]: any = await read("cluster/agent.yaml")
  const config = parseAgentConfig(configMap.data["agent.json"])
  const { spec } = daemonSet.spec.template
  const [container] = spec.containers
  const writable = container.volumeMounts.filter(({ readOnly }: { readOnly?: boolean }) => !readOnly)
  expect(config.store).toEqual({ type: "kubernetes" })
  expect(writable.map(({ mountPath }: { mountPath: string }) => mountPath)).toEqual([
    config.poolDir,
    config.socket.slice(0, config.socket.lastIndexOf("/")),
  ])
  expect(container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath)).toContain(config.dataDir)
  expect([spec.hostNetwork, spec.tolerations]).toEqual([true, [{ operator: "Exists" }]])
  expect(container.securityContext).toEqual({
    runAsUser: 0,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"], add: ["NET_ADMIN"] },
  })
})
