/** Tests deploy/kubernetes with a real API server: it accepts each key, and objects have their documented effects. */
import { expect, test } from "bun:test"
import { type DaemonSet, type Manifest, readDeployment } from "../deploy/manifests.ts"
import { HostNamespace, scaleTimeout, waitFor } from "../lab/mod.ts"
import { RealApiServer } from "./testing/api-server.ts"

const address = "10.99.0.254"

/** The last part of the API path for each kind of object. */
const places: Readonly<Record<string, string>> = {
  Namespace: "namespaces",
  ServiceAccount: "serviceaccounts",
  ConfigMap: "configmaps",
  ClusterRole: "clusterroles",
  ClusterRoleBinding: "clusterrolebindings",
  DaemonSet: "daemonsets",
  Pod: "pods",
}

/** Returns the API path at which an object is created. The API server refuses unknown keys. */
function pathOf({ apiVersion, kind, metadata: { namespace } }: Manifest): string {
  const group = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`
  return `${group}${namespace ? `/namespaces/${namespace}` : ""}/${places[kind]}?fieldValidation=Strict`
}

test(
  "every object is created, the account may read Node objects alone, and the level of the namespace admits the pods [S181]",
  async () => {
    await using host = await HostNamespace.create("api")
    await host.exec("ip", ["address", "add", `${address}/32`, "dev", "lo"])
    await using api = await RealApiServer.start(host, address)
    const create = (object: Manifest, more = "") => api.ask("POST", `${pathOf(object)}${more}`, object)
    // Delete the role and its binding that the server has for other tests.
    for (const place of ["clusterroles", "clusterrolebindings"])
      await api.ask("DELETE", `/apis/rbac.authorization.k8s.io/v1/${place}/cni-agent`)
    const all = await readDeployment()
    for (const object of all) {
      const { status, body } = await create(object)
      expect({ kind: object.kind, status, message: body.message }).toMatchObject({ kind: object.kind, status: 201 })
    }

    const may = async (verb: string, resource: string) => {
      const user = "system:serviceaccount:cni-plugins:cni-agent"
      const review = {
        apiVersion: "authorization.k8s.io/v1",
        kind: "SubjectAccessReview",
        spec: { user, resourceAttributes: { verb, resource, version: "v1" } },
      }
      const { body } = await api.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
      return body.status.allowed as boolean
    }
    for (const verb of ["get", "list", "watch"]) await waitFor(() => may(verb, "nodes"), `the right to ${verb} nodes`)
    for (const [verb, resource] of [
      ["update", "nodes"],
      ["list", "pods"],
      ["get", "secrets"],
    ] as const)
      expect([verb, resource, await may(verb, resource)]).toEqual([verb, resource, false])

    const daemonSet = all.find(({ kind }) => kind === "DaemonSet") as DaemonSet
    const podIn = (namespace: string): Manifest => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "one", namespace },
      spec: daemonSet.spec.template.spec,
    })
    expect(await create(podIn("cni-plugins"), "&dryRun=All")).toMatchObject({ status: 201 })
    const labels = { "pod-security.kubernetes.io/enforce": "baseline" }
    await create({ apiVersion: "v1", kind: "Namespace", metadata: { name: "careful", labels } })
    expect(await create(podIn("careful"), "&dryRun=All")).toMatchObject({ status: 403 })

    const misspelled = JSON.parse(JSON.stringify(daemonSet).replace('"maxUnavailable"', '"maxUnavailible"'))
    const { status, body } = await create(misspelled, "&dryRun=All")
    expect([status, body.message]).toEqual([
      400,
      expect.stringContaining('"spec.updateStrategy.rollingUpdate.maxUnavailible"'),
    ])
  },
  scaleTimeout(600_000),
)
