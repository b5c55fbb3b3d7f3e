/** Tests requirements of deploy/kubernetes without an API server and without kustomize. */
import { expect, test } from "bun:test"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { builtPlugins, mustRun } from "../lab/mod.ts"
import { image, kustomization, readDaemonSet, readDeployment, readManifests } from "./manifests.ts"

test("the kustomization has all files but the example and the page, and each object once", async () => {
  const files = (await readdir(kustomization)).sort()
  expect(files).toEqual([
    "10-pods.conflist",
    "README.md",
    "daemonset.yaml",
    "kustomization.yaml",
    "namespace.yaml",
    "podmonitor.yaml",
    "rbac.yaml",
  ])
  expect((await readDeployment()).map(({ kind, metadata: { name } }) => `${kind} ${name}`)).toEqual([
    "Namespace cni-plugins",
    "ServiceAccount cni-agent",
    "ClusterRole cni-agent",
    "ClusterRoleBinding cni-agent",
    "DaemonSet cni-plugins",
    "ConfigMap network",
  ])
})

test("the namespace states its Pod Security level", async () => {
  const [namespace] = await readManifests("namespace.yaml")
  for (const mode of ["enforce", "audit", "warn"])
    expect(namespace?.metadata.labels).toMatchObject({ [`pod-security.kubernetes.io/${mode}`]: "privileged" })
})

test("the agent may read Node objects and nothing else, and no other container has its token [S183]", async () => {
  const rbac = await readManifests("rbac.yaml")
  const rules = rbac.flatMap((object) => (object.kind === "ClusterRole" ? object.rules : []))
  expect(rules).toEqual([{ apiGroups: [""], resources: ["nodes"], verbs: ["get", "list", "watch"] }])
  const { spec } = (await readDaemonSet()).spec.template
  expect(spec).toMatchObject({ serviceAccountName: "cni-agent", automountServiceAccountToken: false })
  const withToken = [...spec.initContainers, ...spec.containers].filter(({ volumeMounts }) =>
    volumeMounts.some(({ name }) => spec.volumes.some((volume) => volume.name === name && volume.projected)),
  )
  expect(withToken.map(({ name }) => name)).toEqual(["agent"])
})

test("every container states its privileges, and has few [S180]", async () => {
  const { initContainers, containers } = (await readDaemonSet()).spec.template.spec
  const all = [...initContainers, ...containers]
  expect(Object.fromEntries(all.map(({ name, securityContext }) => [name, securityContext.capabilities.add]))).toEqual({
    install: ["DAC_OVERRIDE", "FOWNER", "SETFCAP"],
    agent: ["NET_ADMIN"],
    reconcile: ["DAC_OVERRIDE", "FOWNER", "NET_ADMIN", "NET_RAW", "SETFCAP", "SYS_ADMIN"],
  })
  for (const { name, securityContext, resources } of all) {
    expect({ name, ...securityContext }).toMatchObject({
      runAsUser: 0,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
      seccompProfile: { type: "RuntimeDefault" },
    })
    expect(securityContext.privileged).toBeUndefined()
    // The API server refuses `allowPrivilegeEscalation: false` together with SYS_ADMIN.
    const mayNot = securityContext.capabilities.add.includes("SYS_ADMIN")
    expect({ name, is: securityContext.allowPrivilegeEscalation }).toEqual({ name, is: mayNot ? undefined : false })
    expect(resources).toMatchObject({ requests: { cpu: "10m" }, limits: { memory: expect.stringMatching(/^\d+Mi$/) } })
  }
})

test("every mount has its volume, every volume its mount, and every directory of the host is made where it is missing", async () => {
  const { initContainers, containers, volumes } = (await readDaemonSet()).spec.template.spec
  const mounted = [...initContainers, ...containers].flatMap(({ volumeMounts }) => volumeMounts)
  expect(new Set(mounted.map(({ name }) => name))).toEqual(new Set(volumes.map(({ name }) => name)))
  for (const { hostPath } of volumes) {
    if (!hostPath) continue
    const isOfKernel = hostPath.path.startsWith("/proc/")
    expect(hostPath).toEqual({ path: hostPath.path, type: isOfKernel ? "Directory" : "DirectoryOrCreate" })
  }
})

test("the pods run on every node before there is a network, one node in ten is replaced at a time, and nothing is removed when they go", async () => {
  const object = await readDaemonSet()
  const { template, updateStrategy } = object.spec
  expect(updateStrategy).toEqual({ type: "RollingUpdate", rollingUpdate: { maxUnavailable: "10%" } })
  expect(template.spec).toMatchObject({
    hostNetwork: true,
    priorityClassName: "system-node-critical",
    tolerations: [{ operator: "Exists" }],
  })
  expect(JSON.stringify(object)).not.toContain("lifecycle") // no hooks such as preStop
})

test("all containers have the image of this version, and the agent is probed and scraped where it listens", async () => {
  const { metadata, spec } = (await readDaemonSet()).spec.template
  const all = [...spec.initContainers, ...spec.containers]
  for (const container of all) expect(container.image).toBe(image)
  const agent = spec.containers.find(({ name }) => name === "agent")
  expect(agent).toMatchObject({
    ports: [{ name: "metrics", containerPort: 9817, hostPort: 9817 }],
    livenessProbe: { httpGet: { port: "metrics", path: "/healthz" } },
    readinessProbe: { httpGet: { port: "metrics", path: "/readyz" } },
  })
  expect(metadata).toMatchObject({
    annotations: { "prometheus.io/scrape": "true", "prometheus.io/port": "9817", "prometheus.io/path": "/metrics" },
  })
  const [monitor] = await readManifests("podmonitor.yaml")
  expect(monitor?.spec).toMatchObject({
    selector: { matchLabels: (metadata as { labels: object }).labels },
    podMetricsEndpoints: [{ port: "metrics", path: "/metrics" }],
  })
})

test("cni lint finds nothing in the network's configuration", async () => {
  const tool = join(builtPlugins, "../cni")
  const { stdout } = await mustRun([tool, "lint", "--strict", join(kustomization, "10-pods.conflist")])
  expect(stdout).toBe("1 file: nothing found\n")
})
